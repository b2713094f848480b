//! Follows a job to its end, with one thread and one `poll` over all descriptors of the ranks.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use strait_core::layout::Life;

use super::greet::Greeted;
use super::launch::{LaunchError, os};
use super::outcome::JobOutcome;
use super::pmi::server::{Said, Space};
use super::rank::RankProcess;
use crate::backoff::LAUNCHER_PERIOD;
use crate::liveness;
use crate::nodes::Nodes;
use crate::segment::SegmentMap;
use crate::sleep;

/// Time within which ranks that were asked to end must do so before they are killed.
const GRACE: Duration = Duration::from_secs(2);

/// A started job. On drop, it kills and reaps every rank that still runs.
#[derive(Debug)]
pub struct Job {
    /// The segment of each node.
    maps: Vec<SegmentMap>,
    nodes: Nodes,
    nonce: u64,
    space: Space,
    ranks: Vec<RankProcess>,
    keep_going: bool,
    signals: Option<OwnedFd>,
    interrupted: bool,
    ending: Ending,
    first_failure: Option<u32>,
    aborted: Option<u8>,
}

/// Whether the job is being ended because a rank failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ending {
    No,
    /// All ranks were asked to end; those that still run at that time are killed.
    Asked(Instant),
    Killed,
}

/// A source of events that `poll` found ready.
#[derive(Clone, Copy, Debug)]
enum OutputSource {
    Signals,
    Exit(usize),
    Boot(usize),
    Pmi(usize),
    Output(usize, usize),
}

impl Job {
    pub(super) fn new(maps: Vec<SegmentMap>, nodes: Nodes, nonce: u64, keep_going: bool) -> Self {
        Self {
            space: Space::new(&nodes),
            maps,
            nodes,
            nonce,
            ranks: Vec::new(),
            keep_going,
            signals: None,
            interrupted: false,
            ending: Ending::No,
            first_failure: None,
            aborted: None,
        }
    }

    /// Returns the launcher's view of the first segment.
    #[cfg(test)]
    pub(super) fn segment(&self) -> strait_core::layout::Segment {
        *self.maps[0].view()
    }

    /// Adds the next rank, with the launcher's end of its PMI socket.
    pub(super) fn add(&mut self, rank: RankProcess, pmi: OwnedFd) {
        self.ranks.push(rank);
        self.space.add(pmi);
    }

    /// Returns the process number of `rank`, or `None` once it has ended or when there is no such
    /// rank.
    #[must_use]
    pub fn pid(&self, rank: u32) -> Option<u32> {
        self.ranks.get(rank as usize).filter(|rank| rank.is_running()).map(RankProcess::pid)
    }

    /// Sends `signal` to every rank that still runs, and to the processes that it has started.
    pub fn signal(&self, signal: Signal) {
        self.ranks.iter().for_each(|rank| rank.signal(signal));
    }

    /// Forwards signals to the ranks while [`Job::wait`] runs: each byte that can be read from
    /// `numbers` is the number of one signal. A second SIGINT kills the ranks.
    ///
    /// The program around the job catches its signals itself; this library installs no handlers.
    pub fn forward_signals(&mut self, numbers: OwnedFd) {
        self.signals = Some(numbers);
    }

    /// Serves the ranks until the last has ended.
    ///
    /// Unless the job keeps going, the first rank that ends with a signal or with a code other than
    /// 0 ends the job. The others get SIGTERM, and two seconds later SIGKILL.
    ///
    /// # Errors
    ///
    /// [`LaunchError`] when the kernel does not answer about the ranks. The ends of the ranks are
    /// in the [`JobOutcome`].
    pub fn wait(&mut self) -> Result<JobOutcome, LaunchError> {
        while self.ranks.iter().any(RankProcess::is_running) {
            for source in self.ready()? {
                self.handle(source)?;
            }
            self.kill_when_overdue();
        }
        let exits: Vec<_> = self.ranks.iter().filter_map(RankProcess::exit).collect();
        // The ranks that waited for this rank in vain may have been reaped before it was.
        let broken_by = self.space.broken_by().filter(|_| self.aborted.is_none());
        let failed = |rank: u32| exits.iter().any(|it| it.rank == rank && !it.status.success());
        if let Some(rank) = broken_by.filter(|rank| failed(*rank)) {
            self.first_failure = Some(rank);
        }
        let others_ended = self.ending != Ending::No;
        let Self { first_failure, aborted, .. } = *self;
        Ok(JobOutcome { exits, first_failure, aborted, others_ended })
    }

    /// Waits for events and returns their sources.
    fn ready(&self) -> Result<Vec<OutputSource>, LaunchError> {
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        let mut watch = |source, fd| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        };
        if let Some(signals) = &self.signals {
            watch(OutputSource::Signals, signals.as_fd());
        }
        for (at, rank) in self.ranks.iter().enumerate().filter(|(_, rank)| rank.is_running()) {
            // Outputs come before the exit: the last output of a rank is read before the rank is
            // reaped.
            for (pipe, output) in rank.outputs.iter().enumerate() {
                if let Some(output) = output {
                    watch(OutputSource::Output(at, pipe), output.fd());
                }
            }
            if let Some(greeter) = &rank.greeter {
                watch(OutputSource::Boot(at), greeter.socket().as_fd());
            }
            if let Some(socket) = self.space.socket(at as u32) {
                watch(OutputSource::Pmi(at), socket.as_fd());
            }
            if let Some(pidfd) = rank.pidfd() {
                watch(OutputSource::Exit(at), pidfd.as_fd());
            }
        }
        let unwatched = || {
            let running = self.ranks.iter().enumerate().filter(|(_, rank)| rank.is_running());
            running.filter(|(_, rank)| rank.pidfd().is_none())
        };
        let left = match self.ending {
            Ending::Asked(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
            Ending::No | Ending::Killed => None,
        };
        let look = unwatched().next().map(|_| LAUNCHER_PERIOD);
        let timeout = left.into_iter().chain(look).min();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(os("waiting for the ranks")(error)),
        }
        let found = sources.into_iter().zip(fds).filter(|(_, fd)| !fd.revents().is_empty());
        let mut found: Vec<_> = found.map(|(source, _)| source).collect();
        if found.is_empty() {
            // The poll found nothing, so all output of the ranks has been read.
            let ended = unwatched().filter(|(_, rank)| rank.has_ended());
            found.extend(ended.map(|(at, _)| OutputSource::Exit(at)));
        }
        Ok(found)
    }

    fn handle(&mut self, source: OutputSource) -> Result<(), LaunchError> {
        match source {
            OutputSource::Signals => self.forward(),
            OutputSource::Exit(at) => return self.reap(at),
            OutputSource::Boot(at) => {
                let map = &self.maps[self.nodes.node_of(at as u32).unwrap_or(0) as usize];
                let nodes = self.nodes.count();
                let greeter = &mut self.ranks[at].greeter;
                if let Some(open) = greeter
                    && open.answer(map, self.nonce, nodes) == Greeted::Closed
                {
                    *greeter = None;
                }
            }
            OutputSource::Pmi(at) => {
                if let Said::Abort { code } = self.space.hear(at as u32) {
                    self.abort(at, code);
                }
            }
            OutputSource::Output(at, pipe) => {
                let output = &mut self.ranks[at].outputs[pipe];
                if let Some(open) = output
                    && !open.pass_on()
                {
                    *output = None;
                }
            }
        }
        Ok(())
    }

    /// Forwards the signals that have arrived to the ranks.
    fn forward(&mut self) {
        let Some(signals) = &self.signals else { return };
        let mut numbers = [0; 16];
        let arrived = match rustix::io::read(signals, &mut numbers) {
            Ok(arrived @ 1..) => arrived,
            Err(Errno::INTR | Errno::AGAIN) => return,
            Ok(_) | Err(_) => {
                self.signals = None;
                return;
            }
        };
        for signal in numbers[..arrived].iter().filter_map(|&n| Signal::from_named_raw(n.into())) {
            let again = signal == Signal::INT && core::mem::replace(&mut self.interrupted, true);
            self.signal(if again { Signal::KILL } else { signal });
        }
    }

    /// Records the end of a rank, tells its peers, and ends the job if the rank failed.
    fn reap(&mut self, at: usize) -> Result<(), LaunchError> {
        let Some(exit) = self.ranks[at].reap()? else { return Ok(()) };
        self.space.leave(exit.rank);
        let life = |map: &SegmentMap| map.rank_block(exit.rank).liveness.state();
        let has_left = self.maps.iter().any(|map| life(map) == Life::Finished);
        // Marks it on every node, since ranks of other nodes must learn of its end too. The rank
        // itself told only the peers with which it had communicated that it left.
        for map in &self.maps {
            let segment = map.view();
            let liveness = &segment.rank_block(exit.rank).liveness;
            if has_left {
                liveness.end(Life::Finished);
            }
            if liveness.state() == Life::Finished {
                // It has woken others itself.
                continue;
            }
            liveness::mark_dead(liveness);
            // A rank that goes to sleep at this moment may miss the wake-up. It learns of the end
            // when its sleep ends.
            (0..segment.ranks()).for_each(|rank| sleep::wake(segment, rank));
        }
        if !exit.status.success() {
            self.first_failure.get_or_insert(exit.rank);
            let others_run = self.ranks.iter().any(RankProcess::is_running);
            if others_run && !self.keep_going {
                self.end();
            }
        }
        Ok(())
    }

    /// Ends the job because a rank asked for it. The rank's own exit code does not count.
    fn abort(&mut self, at: usize, code: i32) {
        if self.first_failure.is_none() {
            self.first_failure = Some(at as u32);
            // An aborted job has failed, so its code is not 0.
            self.aborted = Some(u8::try_from(code).unwrap_or(u8::MAX).max(1));
        }
        self.end();
    }

    /// Asks all ranks that run to end.
    fn end(&mut self) {
        if self.ending == Ending::No {
            self.signal(Signal::TERM);
            self.ending = Ending::Asked(Instant::now() + GRACE);
        }
    }

    fn kill_when_overdue(&mut self) {
        if matches!(self.ending, Ending::Asked(deadline) if deadline <= Instant::now()) {
            self.signal(Signal::KILL);
            self.ending = Ending::Killed;
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Signals all ranks at once; then each rank's own drop reaps it.
        self.signal(Signal::KILL);
    }
}
