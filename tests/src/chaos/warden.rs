//! Strikes the ranks of a running job and watches them, in a thread beside the one that follows the
//! job.

use core::fmt::Write as _;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use strait::{boot, observe};

use super::board::{Board, Fate, Phase};
use super::plan::{Blow, Event, Plan};
use super::settings::Settings;

/// Time between two checks of the ranks.
const PAUSE: Duration = Duration::from_micros(150);

/// A process of the job.
struct Process {
    pid: u32,
    pidfd: OwnedFd,
    has_ended: bool,
    /// The time at which it continues, if it is stopped.
    stopped_until: Option<Instant>,
}

/// Watches a job.
pub(super) struct Warden<'a> {
    board: &'a Board,
    settings: &'a Settings,
    plan: &'a Plan,
    processes: Vec<Process>,
    /// Pending strikes, with their time once it is known.
    events: Vec<(Event, Option<Instant>)>,
    begin: Instant,
}

/// The observations of a warden.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The reason why the job was ended, if it was.
    pub(super) failure: Option<String>,
    /// Number of strikes that stopped a rank.
    pub(super) stops: u64,
}

impl<'a> Warden<'a> {
    /// Creates a warden. No process has been reaped yet, so the process numbers are still valid.
    pub(super) fn new(
        job: &boot::Job,
        board: &'a Board,
        settings: &'a Settings,
        plan: &'a Plan,
    ) -> Self {
        let process = |rank| {
            let pid = job.pid(rank).expect("the rank was started");
            let number = Pid::from_raw(pid.cast_signed()).expect("a process number");
            let pidfd =
                pidfd_open(number, PidfdFlags::empty()).expect("a descriptor of the process");
            Process { pid, pidfd, has_ended: false, stopped_until: None }
        };
        Self {
            board,
            settings,
            plan,
            processes: (0..settings.ranks).map(process).collect(),
            events: plan.events.iter().map(|event| (*event, None)).collect(),
            begin: Instant::now(),
        }
    }

    /// Watches until all ranks have ended.
    pub(super) fn watch(mut self, limit: Duration) -> Seen {
        let mut seen = Seen::default();
        loop {
            self.look_for_ends();
            if self.processes.iter().all(|process| process.has_ended) {
                return seen;
            }
            self.let_go_on();
            if seen.failure.is_none() {
                seen.failure = self.fault(limit);
                if seen.failure.is_some() {
                    self.end_all();
                }
                seen.stops += self.strike();
            }
            thread::sleep(PAUSE);
        }
    }

    fn look_for_ends(&mut self) {
        let mut fds: Vec<_> = self
            .processes
            .iter()
            .map(|process| PollFd::new(&process.pidfd, PollFlags::IN))
            .collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, Some(&now)).is_err() {
            return;
        }
        let ended: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (rank, (process, ended)) in (0..).zip(self.processes.iter_mut().zip(ended)) {
            if ended && !process.has_ended {
                process.has_ended = true;
                if self.board.fate(rank) == Fate::Condemned {
                    self.board.set_fate(rank, Fate::Dead);
                }
            }
        }
    }

    fn send(&self, rank: u32, signal: Signal) {
        // The process may have ended meanwhile.
        let _ = pidfd_send_signal(self.processes[rank as usize].pidfd.as_fd(), signal);
    }

    fn let_go_on(&mut self) {
        let now = Instant::now();
        for rank in 0..self.settings.ranks {
            let process = &mut self.processes[rank as usize];
            if process.stopped_until.is_some_and(|until| until <= now) {
                process.stopped_until = None;
                self.send(rank, Signal::CONT);
            }
        }
    }

    /// Strikes all ranks at their time. Returns the number of ranks that it stopped.
    fn strike(&mut self) -> u64 {
        let (board, ranks) = (self.board, self.settings.ranks);
        let all_are_here = (0..ranks)
            .all(|rank| board.phase(rank) > Phase::Starting || board.fate(rank) > Fate::Alive);
        if !self.settings.early && !all_are_here {
            return 0;
        }
        let (now, mut stops) = (Instant::now(), 0);
        let mut due = Vec::new();
        self.events.retain_mut(|(event, time)| {
            if board.steps(event.rank) >= event.at {
                time.get_or_insert_with(|| now + Duration::from_micros(event.after_us));
            }
            let is_due = time.is_some_and(|time| time <= now);
            if is_due {
                due.push(*event);
            }
            !is_due
        });
        for event in due {
            match event.blow {
                Blow::Stop(ms) => {
                    self.send(event.rank, Signal::STOP);
                    let until = now + Duration::from_millis(ms);
                    self.processes[event.rank as usize].stopped_until = Some(until);
                    stops += 1;
                }
                // The rank itself dies at the step.
                Blow::Step(_) if cfg!(debug_assertions) => {}
                Blow::Kill | Blow::Step(_) => {
                    board.set_fate(event.rank, Fate::Condemned);
                    self.send(event.rank, Signal::KILL);
                }
            }
        }
        self.end_blows();
        stops
    }

    /// Once all ranks have settled or died, releases those that wait for the end of the strikes.
    fn end_blows(&mut self) {
        let board = self.board;
        for rank in 0..self.settings.ranks {
            // The rank did not reach the step at which it was to die.
            if board.fate(rank) == Fate::Condemned && board.phase(rank) >= Phase::Settled {
                self.send(rank, Signal::KILL);
            }
        }
        let has_settled =
            |rank| board.phase(rank) >= Phase::Settled && board.fate(rank) == Fate::Alive;
        let all = (0..self.settings.ranks)
            .all(|rank| has_settled(rank) || self.processes[rank as usize].has_ended);
        if all && !self.plan.is_struck_late {
            self.events.clear();
            board.blows_are_over().store(1, SeqCst);
        }
    }

    /// Returns why the job has failed, if it has.
    fn fault(&self, limit: Duration) -> Option<String> {
        for rank in 0..self.settings.ranks {
            if let Some(why) = self.board.failure(rank) {
                return Some(format!("rank {rank}: {why}"));
            }
            let is_over = matches!(self.board.phase(rank), Phase::Done | Phase::GaveUp);
            let process = &self.processes[rank as usize];
            if process.has_ended && !is_over && self.board.fate(rank) == Fate::Alive {
                return Some(format!(
                    "rank {rank} (process {}) ended without a reason",
                    process.pid
                ));
            }
        }
        let is_late = self.begin.elapsed() > limit;
        is_late.then(|| {
            let (limit, waits, stacks) = (limit.as_secs(), self.waits(), self.stacks());
            format!("the job is stuck: it took more than {limit} s\n{waits}{stacks}")
        })
    }

    /// Describes what each rank waits for, according to its record in the segment.
    fn waits(&self) -> String {
        let alive = (0..).zip(&self.processes).filter(|(_, process)| !process.has_ended);
        let pids: Vec<_> = alive.map(|(rank, process)| (rank, process.pid)).collect();
        observe::ranks(&pids).iter().map(|rank| format!("{rank}\n")).collect()
    }

    /// Returns the stacks of the ranks, if there is a debugger.
    fn stacks(&self) -> String {
        let mut text = String::new();
        for (rank, process) in
            self.processes.iter().enumerate().filter(|(_, process)| !process.has_ended)
        {
            let pid = process.pid.to_string();
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = state.rsplit(") ").next().unwrap_or_default().chars().next();
            let _ = writeln!(text, "rank {rank}, process {pid}, state {state:?}");
            let gdb = [
                "-p",
                &pid,
                "-batch",
                "-nx",
                "-ex",
                "thread apply all backtrace -frame-info short-location -frame-arguments none 16",
            ];
            if let Ok(output) = Command::new("gdb").args(gdb).output() {
                let lines = String::from_utf8_lossy(&output.stdout).into_owned();
                let frames = lines
                    .lines()
                    .filter(|line| line.starts_with('#') || line.starts_with("Thread"));
                for line in frames {
                    let _ = writeln!(text, "    {line}");
                }
            }
        }
        text
    }

    fn end_all(&self) {
        (0..self.settings.ranks).for_each(|rank| self.send(rank, Signal::KILL));
    }
}

/// Describes the last operation of each rank, and the messages that it lacks.
pub(super) fn standing(board: &Board, ranks: u32) -> String {
    let mut text = String::new();
    for rank in 0..ranks {
        let (fate, phase) = (board.fate(rank), board.phase(rank));
        let _ = writeln!(
            text,
            "rank {rank}: {fate:?}, {phase:?}, last began {}",
            board.last_begun(rank)
        );
        if let Some(why) = board.failure(rank) {
            let _ = writeln!(text, "    failed: {why}");
        }
    }
    text
}
