//! Windows: their creation, their operations and synchronisations, and their end.
//!
//! A part begins with eight words that many origins change. Behind them lies a region for each
//! origin, to which only that origin puts.

use core::sync::atomic::Ordering::SeqCst;

use strait::{Assert, Attached, Error, LockType, Window, WindowError, WindowOptions};

use super::board::{Board, Count};
use super::plan::Memory;
use super::rank::Rank;
use super::together::WINDOWS;

/// Bytes of the words.
pub(super) const WORDS: usize = 64;

/// A window of this rank.
pub(super) struct Open<'w> {
    pub(super) window: Window<'w>,
    pub(super) attached: Option<Attached>,
    pub(super) members: Vec<u32>,
    /// Operations on each member that have begun and may not have happened yet.
    pub(super) unconfirmed: Vec<Vec<Count>>,
}

/// The operations that are permitted between two synchronisations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Epoch {
    /// Nothing excludes other ranks.
    Open,
    Shared,
    Exclusive,
}

impl Rank<'_> {
    /// Returns the start of the region of the origin in a place. Strided puts take twice the room.
    pub(super) fn region_at(&self, window: usize, place: u32) -> usize {
        WORDS + place as usize * 2 * self.plan.windows[window].region
    }

    pub(super) fn place_of(&self, window: usize, rank: u32) -> u32 {
        let members = &self.plan.windows[window].members;
        members.iter().position(|member| *member == rank).map_or(0, |place| place as u32)
    }

    pub(super) fn create_window(&mut self, number: usize) {
        let plan = &self.plan.windows[number];
        self.begin("create window", [number as u64, plan.memory as u64, 0]);
        let bytes = self.region_at(number, plan.members.len() as u32);
        let endpoint = self.world.endpoint().with_context(WINDOWS + number as u32);
        let group = endpoint.group(&plan.members).expect("a group with this rank");
        let options = WindowOptions {
            design: plan.design,
            lock: plan.lock,
            accumulates: plan.accumulates,
            ..WindowOptions::default()
        };
        let made = match plan.memory {
            Memory::Allocated => Window::builder(&group).options(options).allocate(bytes),
            Memory::Private => {
                Window::builder(&group).options(options).over(vec![0_u64; bytes / 8])
            }
            Memory::Segment => match self.world.alloc::<u64>(bytes / 8) {
                Ok(memory) => Window::builder(&group).options(options).over(memory),
                Err(error) => panic!("no memory in the segment: {error}"),
            },
            Memory::Dynamic => Window::builder(&group).options(options).dynamic(),
        };
        let outcome = if made.is_ok() { 1 } else { 2 };
        self.board.creation(number, self.me).store(outcome, SeqCst);
        let window = match made {
            Ok(window) => window,
            Err(error) => return self.excuse_window(number, &error, "a window is not made"),
        };
        // A death in the middle may leave a window to some members and an error to others. Calls
        // that need all members would then wait for ever.
        let creation = |board: &Board, rank: u32| board.creation(number, rank).load(SeqCst);
        let has_returned =
            |board: &Board, rank: u32| creation(board, rank) > 0 || board.is_gone(rank);
        self.await_board(|board| plan.members.iter().all(|rank| has_returned(board, *rank)));
        if plan.members.iter().any(|rank| creation(self.board, *rank) == 2) {
            return;
        }
        let most = [0, 8, 64, usize::MAX][self.random.usize(..4)];
        window.hand_over_above(most);
        window.pack_up_to([0, 64, 4096][self.random.usize(..3)]);
        let attached = (plan.memory == Memory::Dynamic)
            .then(|| window.attach(vec![0_u64; bytes / 8]).expect("memory is attached"));
        let displacement = attached.map_or(0, |attached| attached.displacement()) as u64;
        self.board.displacement(number, self.me).store(displacement + 1, SeqCst);
        let members = plan.members.clone();
        let unconfirmed = members.iter().map(|_| Vec::new()).collect();
        self.lock_designs[number] = Some(window.lock_design());
        self.windows[number] = Some(Open { window, attached, members, unconfirmed });
    }

    /// Fails unless the death of a member explains the error.
    #[track_caller]
    pub(super) fn excuse_window(&self, number: usize, error: &Error, about: &str) {
        let members = &self.plan.windows[number].members;
        let doomed = |rank: &u32| self.board.is_doomed(*rank);
        let is_excused = match error {
            Error::Window(WindowError::Device { rank, .. } | WindowError::Refused { rank, .. }) => {
                doomed(rank)
            }
            Error::Window(WindowError::Barred { target, .. }) => doomed(target),
            Error::Window(WindowError::Member { .. }) => members.iter().any(doomed),
            error => return self.excuse_among(error, members, about),
        };
        assert!(is_excused, "{about}: {error}");
    }

    /// Returns the result of a call on a window, or `None` when a death explains its failure.
    #[track_caller]
    pub(super) fn explained<T>(
        &self,
        number: usize,
        done: Result<T, Error>,
        about: &str,
    ) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(error) => {
                self.excuse_window(number, &error, about);
                None
            }
        }
    }

    /// Records that all operations on a member have happened.
    pub(super) fn confirm(&self, number: usize, open: &mut Open<'_>, place: u32) {
        let target = open.members[place as usize];
        for count in open.unconfirmed[place as usize].drain(..) {
            self.board.least((number, self.me, target), count).fetch_add(1, SeqCst);
        }
    }

    /// Uses a window, if there is one.
    pub(super) fn use_window(&mut self) {
        let open = (0..self.windows.len()).filter(|number| self.windows[*number].is_some());
        let Some(number) = self.random.choice(open.collect::<Vec<_>>()) else { return };
        let mut open = self.windows[number].take().expect("an open window");
        match self.random.u8(..6) {
            0 | 1 => self.flush_epoch(number, &mut open),
            5 => self.all_epoch(number, &mut open),
            _ => self.lock_epoch(number, &mut open),
        }
        self.windows[number] = Some(open);
    }

    fn any_place(&mut self, open: &Open<'_>) -> u32 {
        self.random.u32(..open.members.len() as u32)
    }

    /// Does operations that a flush completes.
    fn flush_epoch(&mut self, number: usize, open: &mut Open<'_>) {
        let place = self.any_place(open);
        self.begin("window operations", [number as u64, place.into(), 0]);
        self.operate(number, open, place, Epoch::Open);
        self.flush(number, open, place);
        self.read_back(number, open, place);
    }

    /// Completes the operations on a member.
    pub(super) fn flush(&mut self, number: usize, open: &mut Open<'_>, place: u32) -> bool {
        self.begin("flush", [number as u64, place.into(), 0]);
        let flushed = if self.random.u8(..4) == 0 {
            // Deaths are not errors of `flush_all`, so it may leave operations on dead members
            // incomplete.
            open.window.flush_all().and_then(|()| open.window.flush(place))
        } else {
            open.window.flush(place)
        };
        let flushed = self.explained(number, flushed, "a flush").is_some();
        if flushed {
            self.confirm(number, open, place);
        }
        flushed
    }

    /// Does operations under a lock of one member.
    fn lock_epoch(&mut self, number: usize, open: &mut Open<'_>) {
        let place = self.any_place(open);
        let exclusive = self.random.bool();
        let (kind, epoch) = match exclusive {
            true => (LockType::Exclusive, Epoch::Exclusive),
            false => (LockType::Shared, Epoch::Shared),
        };
        self.begin("lock", [number as u64, place.into(), exclusive.into()]);
        let is_locked = self.lock(number, open, kind, place);
        if !is_locked {
            return;
        }
        self.begin("window operations", [number as u64, place.into(), 1]);
        self.operate(number, open, place, epoch);
        if self.random.u8(..3) == 0 && self.flush(number, open, place) {
            self.read_back(number, open, place);
        }
        self.begin("unlock", [number as u64, place.into(), exclusive.into()]);
        let unlocked = self.unlock(open, place);
        if self.explained(number, unlocked, "an unlock").is_some() {
            self.confirm(number, open, place);
        }
    }

    fn lock(&self, number: usize, open: &Open<'_>, kind: LockType, place: u32) -> bool {
        let kind = match (self.plant, kind) {
            // Does the exclusive change beside other ranks.
            (Some(super::job::Plant::Lock), LockType::Exclusive) => LockType::Shared,
            (_, kind) => kind,
        };
        let locked = open.window.lock(kind, place, Assert::NONE);
        self.explained(number, locked, "a lock").is_some()
    }

    fn unlock(&self, open: &Open<'_>, place: u32) -> Result<(), Error> {
        match open.window.unlock(place) {
            // A lock that could not be acquired has ended with its error.
            Err(Error::Window(WindowError::NoEpoch { .. })) if self.any_doomed(open) => Ok(()),
            ended => ended,
        }
    }

    pub(super) fn any_doomed(&self, open: &Open<'_>) -> bool {
        open.members.iter().any(|rank| self.board.is_doomed(*rank))
    }

    /// Does operations on several members under shared locks of all.
    fn all_epoch(&mut self, number: usize, open: &mut Open<'_>) {
        self.begin("lock all", [number as u64, 0, 0]);
        let locked = open.window.lock_all(Assert::NONE);
        if self.explained(number, locked, "locks of all").is_none() {
            return;
        }
        for _ in 0..self.random.usize(0..4) {
            let place = self.any_place(open);
            self.operate(number, open, place, Epoch::Shared);
            self.flush(number, open, place);
        }
        self.begin("unlock all", [number as u64, 0, 0]);
        let unlocked = open.window.unlock_all();
        self.explained(number, unlocked, "an unlock of all");
    }

    /// Does operations between two fences.
    pub(super) fn fence(&mut self, number: usize) {
        let Some(mut open) = self.windows[number].take() else { return };
        self.begin("fence", [number as u64, 0, 0]);
        let fenced = open.window.fence(Assert::NONE);
        if self.explained(number, fenced, "a fence").is_some() {
            let place = self.any_place(&open);
            self.operate(number, &mut open, place, Epoch::Open);
            self.begin("fence again", [number as u64, 0, 0]);
            let fenced = open.window.fence(Assert::NONE);
            if self.explained(number, fenced, "a fence").is_some() {
                self.confirm(number, &mut open, place);
                self.read_back(number, &mut open, place);
            }
        }
        // Whatever the result of the fence, earlier operations on a region must complete before the
        // next one.
        self.flush_live(number, &mut open);
        self.windows[number] = Some(open);
    }

    /// Does operations between post, start, complete and wait. The seed determines which members
    /// access which.
    pub(super) fn epochs(&mut self, number: usize, meeting: u64) {
        let Some(mut open) = self.windows[number].take() else { return };
        let count = open.members.len() as u32;
        let seed = self.settings.seed ^ meeting << 24;
        let reaches = |origin: u32, target: u32| {
            fastrand::Rng::with_seed(seed ^ u64::from(origin) << 8 ^ u64::from(target)).bool()
        };
        let place = self.place_of(number, self.me);
        let origins: Vec<_> = (0..count).filter(|origin| reaches(*origin, place)).collect();
        let targets: Vec<_> = (0..count).filter(|target| reaches(place, *target)).collect();
        self.begin("post and start", [number as u64, origins.len() as u64, targets.len() as u64]);
        let posted = open.window.post(&origins, Assert::NONE);
        let posted = self.explained(number, posted, "a post").is_some();
        let started = open.window.start(&targets, Assert::NONE);
        if self.explained(number, started, "a start").is_some() {
            if let Some(target) = self.random.choice(&targets).copied() {
                self.begin("window operations", [number as u64, target.into(), 2]);
                self.operate(number, &mut open, target, Epoch::Open);
            }
            self.begin("complete", [number as u64, 0, 0]);
            let completed = open.window.complete();
            self.explained(number, completed, "a complete");
        }
        if posted {
            self.begin("wait for origins", [number as u64, 0, 0]);
            let ended = if self.random.bool() {
                open.window.wait()
            } else {
                loop {
                    match open.window.test() {
                        Ok(false) => std::thread::yield_now(),
                        Ok(true) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                }
            };
            self.explained(number, ended, "a wait");
        }
        self.flush_live(number, &mut open);
        self.windows[number] = Some(open);
    }

    /// Completes the operations on members that live.
    fn flush_live(&mut self, number: usize, open: &mut Open<'_>) {
        for place in 0..open.members.len() as u32 {
            if !open.unconfirmed[place as usize].is_empty() {
                self.flush(number, open, place);
            }
        }
    }

    /// Ends the window: all members are done with it, and each judges its own part.
    pub(super) fn close_window(&mut self, number: usize) {
        let open = self.windows[number].take();
        self.begin("close window", [number as u64, 0, 0]);
        let open = open.map(|mut open| {
            self.flush_live(number, &mut open);
            open
        });
        self.board.is_done(number, self.me).store(1, SeqCst);
        let members = &self.plan.windows[number].members;
        self.await_board(|board| {
            members
                .iter()
                .all(|rank| board.is_done(number, *rank).load(SeqCst) == 1 || board.is_gone(*rank))
        });
        let Some(open) = open else { return };
        self.begin("judge window", [number as u64, 0, 0]);
        self.judge_part(number, &open);
        self.begin("free window", [number as u64, 0, 0]);
        let freed = open.window.free();
        self.explained(number, freed, "a free");
    }
}
