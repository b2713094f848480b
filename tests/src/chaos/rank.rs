//! The life of one rank: it joins, runs the operations that it draws, closes its accounts, and
//! leaves.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs, panic, process, thread};

use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;

use strait::{Error, FailureCause, Fault, Group, LockDesign, Op, Window, World};

use super::board::{Board, Fate, Phase};
use super::job::{Job, Plant};
use super::plan::{Blow, Meeting, Plan};
use super::settings::Settings;
use super::stream::{Account, Context, Stream};
use super::talk::Pending;
use super::window::Open;

/// The exit status of a rank that found a fault.
const FAILED: i32 = 101;

/// One rank of a job.
pub(super) struct Rank<'w> {
    pub(super) world: &'w World,
    pub(super) board: &'w Board,
    pub(super) settings: &'w Settings,
    pub(super) plan: &'w Plan,
    pub(super) plant: Option<Plant>,
    pub(super) me: u32,
    pub(super) ranks: u32,
    pub(super) random: fastrand::Rng,
    /// Operations that have begun and not ended.
    pub(super) pending: Vec<Pending>,
    pub(super) account: Account,
    /// Number of receives posted so far.
    pub(super) receives: u64,
    /// Number of messages begun, by stream.
    pub(super) begun: BTreeMap<Stream, u64>,
    /// Number of sends for which each peer has posted a receive.
    pub(super) credits: Vec<u32>,
    /// Messages that each peer has announced, by tag. A receive with any tag may take one before
    /// its announcement.
    pub(super) announced: Vec<[i32; Stream::TAGS as usize]>,
    /// Contexts of each peer in which the last message has arrived.
    pub(super) ended: Vec<[bool; Context::ALL.len()]>,
    /// Groups of the plan, created at their first operation.
    pub(super) groups: Vec<Option<Group<'w>>>,
    pub(super) windows: Vec<Option<Open<'w>>>,
    /// The lock design of each window, once the window exists.
    pub(super) lock_designs: Vec<Option<LockDesign>>,
    /// Processes that this rank forked.
    pub(super) children: Vec<process::Child>,
}

/// Runs this process as a rank of `job`, with the scoreboard at `path`.
pub(super) fn run(job: &Job, path: &Path) -> ! {
    let settings = Settings::draw(job);
    let plan = Plan::draw(&settings);
    let number = env::var("STRAIT_RANK").ok().and_then(|rank| rank.parse().ok());
    let me: u32 = number.expect("the launcher gives the rank");
    let board: &'static Board = Box::leak(Box::new(Board::open(path).expect("the scoreboard")));
    panic::set_hook(Box::new(move |info| {
        board.fail(me, &info.to_string());
        process::exit(FAILED);
    }));
    let before = descriptors();
    board.begin(me, "join", [0; 3]);
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            let doomed = (0..settings.ranks).any(|rank| board.is_doomed(rank));
            assert!(doomed, "cannot join, although no rank died: {error}");
            board.set_phase(me, Phase::GaveUp);
            process::exit(0);
        }
    };
    board.set_phase(me, Phase::Traffic);
    live(&world, board, &settings, &plan, job.plant);
    board.begin(me, "finalize", [0; 3]);
    board.set_phase(me, Phase::Finalizing);
    if let Err(error) = world.finalize() {
        let is_doomed = error.gone_peer().is_some_and(|peer| board.is_doomed(peer));
        let any = (0..settings.ranks).any(|rank| board.is_doomed(rank));
        assert!(is_doomed || any, "cannot finalize, although no rank died: {error}");
    }
    if job.plant == Some(Plant::Descriptor) {
        core::mem::forget(fs::File::open("/dev/null"));
    }
    let after = descriptors();
    // A window that ended by a death keeps its memory, and with it the segment, until the process
    // ends.
    let keeps = (0..settings.ranks).any(|rank| board.is_doomed(rank));
    let left = new_descriptors(&before, &after, keeps);
    assert!(left.is_empty(), "descriptors are left open: {left:?}");
    board.set_phase(me, Phase::Done);
    process::exit(0);
}

/// Returns the descriptors that are open now and were not before.
pub(super) fn new_descriptors(
    before: &Descriptors,
    after: &Descriptors,
    keeps: bool,
) -> Vec<String> {
    let new = after.iter().filter(|(number, _)| !before.contains_key(*number));
    // The single socket with which a process wakes others stays open.
    let mut wakes = true;
    let is_left = |is: &&String| match is.as_str() {
        is if is.starts_with("socket:") => !core::mem::replace(&mut wakes, false),
        is => !(keeps && is.contains("memfd:strait")),
    };
    new.map(|(_, is)| is).filter(is_left).cloned().collect()
}

/// Descriptors of a process by their numbers, and their targets.
pub(super) type Descriptors = BTreeMap<String, String>;

/// Returns the descriptors of this process.
pub(super) fn descriptors() -> Descriptors {
    let folder = "/proc/self/fd";
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let known = names.filter_map(|entry| {
        let is = fs::read_link(entry.path()).ok()?.display().to_string();
        // The descriptor that lists the folder is closed by now.
        (!is.ends_with("/fd")).then(|| (entry.file_name().to_string_lossy().into_owned(), is))
    });
    known.collect()
}

fn live(world: &World, board: &Board, settings: &Settings, plan: &Plan, plant: Option<Plant>) {
    let (me, ranks) = (world.rank(), world.size());
    let random = fastrand::Rng::with_seed(settings.seed ^ u64::from(me + 1) << 48);
    let mut rank = Rank {
        world,
        board,
        settings,
        plan,
        plant,
        me,
        ranks,
        random,
        pending: Vec::new(),
        account: Account::default(),
        receives: 0,
        begun: BTreeMap::new(),
        credits: vec![0; ranks as usize],
        announced: vec![[0; Stream::TAGS as usize]; ranks as usize],
        ended: vec![[false; Context::ALL.len()]; ranks as usize],
        groups: (0..plan.groups.len()).map(|_| None).collect(),
        windows: (0..plan.windows.len()).map(|_| None).collect(),
        lock_designs: vec![None; plan.windows.len()],
        children: Vec::new(),
    };
    rank.play();
    rank.close_accounts();
    rank.settle();
}

impl Rank<'_> {
    /// Records the operation that this rank begins, and lets the rank die in the middle of it if
    /// that is its fate.
    pub(super) fn begin(&self, name: &str, numbers: [u64; 3]) {
        self.board.begin(self.me, name, numbers);
        #[cfg(debug_assertions)]
        self.die_if_due();
    }

    /// Stops this rank at a step where another thread kills it, if the plan requires it.
    #[cfg(debug_assertions)]
    fn die_if_due(&self) {
        use strait_core::sync::Step;
        // The survivors count on each other from then on.
        if self.board.blows_are_over().load(SeqCst) == 1 {
            return;
        }
        let steps = self.board.steps(self.me);
        let due = |event: &&super::plan::Event| event.rank == self.me && event.at == steps;
        for event in self.plan.events.iter().filter(due) {
            if let Blow::Step(step) = event.blow {
                let all: Vec<_> = Step::ALL.into_iter().chain(Step::OF_WINDOWS).collect();
                self.board.set_fate(self.me, Fate::Condemned);
                crate::die_at(all[step % all.len()]);
            }
        }
    }

    /// Fails unless the error names a peer that is dead or about to die.
    #[track_caller]
    pub(super) fn excuse(&self, error: &Error, about: &str) {
        let is_excused = match error {
            Error::Fault(Fault::PeerFinished { rank }) => {
                self.board.is_doomed(*rank) || self.board.phase(*rank) >= Phase::Finalizing
            }
            error => error.gone_peer().is_some_and(|peer| self.board.is_doomed(peer)),
        };
        assert!(is_excused, "{about}: {error}");
    }

    /// Runs all operations of this rank, in an order of its own.
    fn play(&mut self) {
        let mut own = self.settings.steps;
        let (plan, me, ranks) = (self.plan, self.me, self.ranks);
        let takes_part = |meeting: &&Meeting| plan.members(meeting.what, ranks).contains(&me);
        let mut meetings = plan.meetings.iter().filter(takes_part);
        let mut left = meetings.clone().count() as u64;
        while own + left > 0 {
            if self.random.u64(..own + left) < left {
                left -= 1;
                let meeting = meetings.next().expect("as many as were counted");
                self.meet(meeting);
            } else {
                own -= 1;
                self.act();
            }
            self.pump();
        }
    }

    /// Commits the planted faults that belong to no operation.
    fn misbehave(&self) {
        match self.plant {
            Some(Plant::Hang) if self.me == 0 => {
                self.begin("hang on purpose", [0; 3]);
                let _ = self.world.endpoint().with_context(60).recv(&mut [0_u8], self.me, 0);
            }
            Some(Plant::Death) => {
                let rank = (self.me + 1) % self.ranks;
                let error = Fault::PeerFailed { rank, sign: FailureCause::Ended }.into();
                self.excuse(&error, "a death on purpose");
            }
            _ => {}
        }
    }

    /// Does one operation that needs no agreement with other ranks.
    fn act(&mut self) {
        self.misbehave();
        match self.random.u8(..32) {
            0..=5 => self.send_freely(),
            6..=9 => self.post_freely(),
            10..=11 => self.probe(),
            12 => self.cancel(),
            13..=14 => self.give_credit(),
            15..=16 => self.send_and_wait(),
            17..=18 => self.announce(),
            19..=20 => self.receive_and_wait(),
            21..=22 => self.receive_from_any(),
            23..=24 => self.batch(),
            25 => self.pause(),
            26 => self.choose(),
            _ => self.use_window(),
        }
    }

    /// Stays outside the library for a while, or forks.
    fn pause(&mut self) {
        if self.random.u8(..4) == 0 {
            self.fork();
            return;
        }
        let us = self.random.u64(..3000);
        self.begin("pause", [us, 0, 0]);
        thread::sleep(Duration::from_micros(us));
    }

    /// Forks. The child has copies of all memory until it becomes another program.
    fn fork(&mut self) {
        use std::os::unix::process::CommandExt;
        self.begin("fork", [0; 3]);
        // The scoreboard has room for one such child.
        let none_stays = self.board.left_behind().load(SeqCst) == 0;
        let stays = self.plant == Some(Plant::Child) && self.me == 0 && none_stays;
        let mut command = process::Command::new("sleep");
        command.arg(if stays { "1000" } else { "0" });
        if stays {
            // The child leaves the process group that ends with the rank.
            command.process_group(0);
            // An open pipe would keep a reader of the driver's output waiting.
            command
                .stdin(process::Stdio::null())
                .stdout(process::Stdio::null())
                .stderr(process::Stdio::null());
        }
        // SAFETY: the closure makes no call that is forbidden in a forked child.
        unsafe { command.pre_exec(|| Ok(())) };
        match command.spawn() {
            Ok(child) if stays => {
                self.board.left_behind().store(u64::from(child.id()), SeqCst);
            }
            Ok(child) => self.children.push(child),
            Err(error) => panic!("cannot fork: {error}"),
        }
    }

    /// Draws new tuning settings for this rank.
    fn choose(&mut self) {
        self.begin("choose", [0; 3]);
        let context = Context::ALL[self.random.usize(..Context::ALL.len())];
        let choices = strait::Rendezvous::ALL;
        let choice = choices.get(self.random.usize(..=choices.len())).copied();
        let endpoint = self.world.endpoint().with_context(context.number());
        endpoint.choose_rendezvous(choice).expect("memory for a choice");
    }

    /// Waits with progress, outside the library's own waits, until `is_so` holds for the
    /// scoreboard.
    pub(super) fn await_board(&mut self, is_so: impl Fn(&Board) -> bool) {
        let mut looks = 0_u32;
        while !is_so(self.board) {
            self.pump();
            looks += 1;
            if looks.is_multiple_of(16) {
                thread::sleep(Duration::from_micros(50));
            } else {
                thread::yield_now();
            }
        }
    }

    /// Waits for the others, and does a last operation with the survivors if no more ranks die.
    fn settle(&mut self) {
        for mut child in core::mem::take(&mut self.children) {
            child.wait().expect("a child ends");
        }
        self.board.set_phase(self.me, Phase::Settled);
        if self.plan.is_struck_late {
            return;
        }
        self.begin("settle", [0; 3]);
        self.await_board(|board| board.blows_are_over().load(SeqCst) == 1);
        if self.board.is_doomed(self.me) {
            return;
        }
        let survivors: Vec<_> = (0..self.ranks).filter(|rank| self.board.is_here(*rank)).collect();
        self.begin("survivors meet", [survivors.len() as u64, 0, 0]);
        let endpoint = self.world.endpoint().with_context(50);
        let group = endpoint.group(&survivors).expect("a group of survivors");
        group.barrier().expect("no survivor dies");
        let mut sum = [1_u64];
        group.allreduce(&mut sum, Op::Sum).expect("no survivor dies");
        assert_eq!(sum, [survivors.len() as u64], "the sum of ones");
        self.begin("survivors' window", [survivors.len() as u64, 0, 0]);
        let window = Window::builder(&group).unit(8).allocate(64).expect("no survivor dies");
        let next = (group.place() + 1) % survivors.len() as u32;
        window.fence(strait::Assert::NONE).expect("no survivor dies");
        window.put(&[u64::from(self.me) + 1], next, 3).expect("no survivor dies");
        window.fence(strait::Assert::NONE).expect("no survivor dies");
        let before = group.place() as usize + survivors.len() - 1;
        let expected = u64::from(survivors[before % survivors.len()]) + 1;
        assert_eq!(window.local().load(24), Ok(expected), "what the neighbour put");
        window.free().expect("no survivor dies");
        group.barrier().expect("no survivor dies");
        endpoint.progress().expect("progress");
        let left = self.world.in_use().expect("a sound segment");
        // After a collective operation that ended by a death, messages of a member may wait for a
        // receive that never comes.
        let is_whole = survivors.len() == self.ranks as usize;
        let under_way = (left.requests, left.transfers, left.descriptors);
        assert!(!is_whole || under_way == (0, 0, 0), "{left:?}");
    }
}
