//! Which ranks are alive.
//!
//! There are two sources. The owner of a rank and the launcher write the rank's liveness word in
//! the segment. A pidfd of the rank's process tells of its end even after a kill. Where no pidfd
//! can be had (another process namespace, no descriptors left), the word alone decides, and
//! Strait's launcher keeps it true.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use strait_core::layout::{Life, Liveness, Segment};

/// Number of peers that one check begins to watch. To open all at the first check would
/// cost the ranks of a node a time that grows with the square of their number, at the start of the
/// job.
const NEW_PER_CHECK: u32 = 4;

/// Room for the fields of `/proc/PID/stat` up to the start time, with the longest program name.
const STAT_BYTES: usize = 1024;

/// A rank's watch over its peers. It costs nothing until [`LivenessWatch::check`] is called, off
/// the fast path.
#[derive(Debug)]
pub struct LivenessWatch {
    peers: Vec<PeerWatch>,
    /// The peer that this rank waits for, which the next check watches in any case.
    awaited: Option<u32>,
    /// Set when the process has no descriptors left: no more pidfds are opened.
    exhausted: bool,
}

/// The way in which one peer is watched.
#[derive(Debug)]
enum PeerWatch {
    /// Not checked yet, or unborn at the last check.
    Unknown,
    /// Watched by the descriptor of its process and by its word.
    Process(OwnedFd),
    /// Watched by its word alone.
    Word,
    /// Its end is known, in good order or not.
    Ended,
}

impl LivenessWatch {
    /// Creates a watch over `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        let peers = (0..ranks).map(|_| PeerWatch::Unknown).collect();
        Self { peers, awaited: None, exhausted: false }
    }

    /// Makes the next check begin to watch the process of `rank`, for which this rank waits.
    pub fn expect(&mut self, rank: u32) {
        self.awaited = Some(rank);
    }

    /// Checks every peer of `me` and returns those that are found dead for the first time.
    ///
    /// It reads the word of each peer. It begins to watch the processes of a few peers only, those
    /// behind `me` first. So another rank watches each of them, and marks it dead for all.
    ///
    /// A peer is marked dead for all ranks when its process is gone and has not left in good order.
    /// A peer that finished is not dead, but reads no more messages: its liveness word says so.
    pub fn check(&mut self, segment: &Segment, me: u32) -> Vec<u32> {
        let mut newly_dead = Vec::new();
        for rank in self.exited() {
            // The process is gone, so its own word is final.
            mark_dead(&segment.rank_block(rank).liveness);
        }
        let awaited = self.awaited.take();
        let mut new = NEW_PER_CHECK;
        for rank in (me + 1..segment.ranks()).chain(0..me) {
            let Some(peer) = self.peers.get_mut(rank as usize) else { continue };
            if matches!(peer, PeerWatch::Ended) {
                continue;
            }
            let liveness = &segment.rank_block(rank).liveness;
            match liveness.state() {
                Life::Unborn => {}
                Life::Alive if matches!(peer, PeerWatch::Unknown) => {
                    if awaited != Some(rank) {
                        let Some(left) = new.checked_sub(1) else { continue };
                        new = left;
                    }
                    match ProcessName::of(liveness).open(&mut self.exhausted) {
                        Some(watched) => *peer = watched,
                        // It ended before the first check. The next check reports it.
                        None => mark_dead(liveness),
                    }
                }
                Life::Alive => {}
                Life::Finished => *peer = PeerWatch::Ended,
                Life::Dead => {
                    *peer = PeerWatch::Ended;
                    newly_dead.push(rank);
                }
            }
        }
        newly_dead
    }

    /// Returns the ranks of processes that have ended, by one `poll` over all open pidfds.
    fn exited(&self) -> Vec<u32> {
        let open = (0u32..).zip(&self.peers).filter_map(|(rank, peer)| match peer {
            PeerWatch::Process(pidfd) => Some((rank, PollFd::new(pidfd, PollFlags::IN))),
            _ => None,
        });
        let (ranks, mut fds): (Vec<u32>, Vec<PollFd<'_>>) = open.unzip();
        // After an interrupted poll, the next one finds the same ends.
        if fds.is_empty() || !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..)) {
            return Vec::new();
        }
        let ended = ranks.into_iter().zip(fds).filter(|(_, fd)| !fd.revents().is_empty());
        ended.map(|(rank, _)| rank).collect()
    }
}

/// A process, by numbers with which other processes of its host find it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ProcessName {
    pid: u32,
    /// Start time of the process, in clock ticks since the machine was started; 0 if unknown.
    started: u64,
    /// Number of the PID namespace in which `pid` is valid; 0 if unknown.
    namespace: u64,
}

impl ProcessName {
    /// Returns the name of this process.
    pub(crate) fn own() -> Self {
        // Without /proc there is no start time.
        let started = start_time("self").unwrap_or(0);
        Self { pid: std::process::id(), started, namespace: namespace() }
    }

    /// Returns the name of the process behind `liveness`.
    fn of(liveness: &Liveness) -> Self {
        let (pid, started) = liveness.process();
        Self { pid, started, namespace: liveness.namespace() }
    }

    /// Returns the name as text, which [`ProcessName::parse`] reads.
    pub(crate) fn encode(&self) -> String {
        format!("{} {} {}", self.pid, self.started, self.namespace)
    }

    /// Reads a name that [`ProcessName::encode`] wrote.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = str::from_utf8(text).ok()?.split(' ');
        let mut next = || numbers.next();
        let (pid, started, namespace) = (next()?, next()?, next()?);
        Some(Self {
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
            namespace: namespace.parse().ok()?,
        })
    }

    /// Returns whether the process has ended. Returns false where that cannot be known, as for a
    /// process of another namespace. It asks the kernel, so it stays off the fast path.
    pub(crate) fn has_ended(&self) -> bool {
        match self.open(&mut false) {
            None => true,
            Some(PeerWatch::Process(pidfd)) => is_readable(&pidfd),
            Some(_) => {
                let is_known = self.started != 0 && is_ours(self.namespace);
                is_known && self.has_left_proc()
            }
        }
    }

    /// Returns whether `/proc` has no process with this number and start time. Returns false if it
    /// cannot be read, as when this process has no descriptor left.
    fn has_left_proc(&self) -> bool {
        match read_stat(&self.pid.to_string()) {
            Ok(stat) => parse_start_time(&stat).is_some_and(|started| started != self.started),
            Err(error) => {
                matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::SRCH))
            }
        }
    }

    /// Opens the process. Returns `None` if it has ended, and its namespace is this process's.
    fn open(&self, exhausted: &mut bool) -> Option<PeerWatch> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|_| !*exhausted) else { return Some(PeerWatch::Word) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => self.judge(pidfd, start_time(&pid.to_string())),
            Err(Errno::SRCH) if is_ours(self.namespace) => None,
            Err(error) => {
                *exhausted |= matches!(error, Errno::MFILE | Errno::NFILE);
                Some(PeerWatch::Word)
            }
        }
    }

    /// Returns how to watch the process, where `pidfd` is of the process that has its number now,
    /// and `started` is the start time that was read *after* opening: if it is equal, the
    /// descriptor is that process and not a later one with its number.
    fn judge(&self, pidfd: OwnedFd, started: Option<u64>) -> Option<PeerWatch> {
        match started {
            Some(started) if started == self.started => Some(PeerWatch::Process(pidfd)),
            _ if self.started == 0 || !is_ours(self.namespace) => Some(PeerWatch::Word),
            // The number is a later process's.
            Some(_) => None,
            // It was reaped between the two, or else `/proc` cannot be read.
            None => (!is_readable(&pidfd)).then_some(PeerWatch::Word),
        }
    }
}

/// Returns whether the process of a pidfd has ended.
fn is_readable(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
}

/// Returns whether numbers from `namespace` name the same processes here; false when that is not
/// known.
fn is_ours(namespace: u64) -> bool {
    namespace != 0 && namespace == self::namespace()
}

/// Returns the number of this process's PID namespace; 0 where the system does not say.
pub(crate) fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Returns whether a process has attached as `rank`.
pub fn is_born(segment: &Segment, rank: u32) -> bool {
    rank < segment.ranks() && segment.rank_block(rank).liveness.state() != Life::Unborn
}

/// Records in `liveness` that its rank is this process, and alive.
pub fn attach_self(liveness: &Liveness) {
    // A start time of zero matches no process: the word decides alone.
    let ProcessName { pid, started, namespace } = ProcessName::own();
    liveness.set_namespace(namespace);
    liveness.attach(pid, started);
}

/// Records in `liveness` that its rank is the process `pid`, which has the same namespace and may
/// die before it attaches itself.
pub fn attach_other(liveness: &Liveness, pid: u32) {
    if let Some(started) = start_time(&pid.to_string()) {
        liveness.set_namespace(namespace());
        liveness.attach(pid, started);
    }
}

/// Returns whether the process behind `liveness` has left or is gone. It asks the kernel, so it
/// stays off the fast path.
pub fn has_ended(liveness: &Liveness) -> bool {
    match liveness.state() {
        Life::Unborn => false,
        Life::Dead | Life::Finished => true,
        Life::Alive => ProcessName::of(liveness).has_ended(),
    }
}

/// Returns whether the process behind `liveness` is gone or about to be, after the kernel refused
/// access to its memory with `errno`. A process gives up its memory before its end can be seen.
pub fn is_ending(liveness: &Liveness, errno: i32) -> bool {
    errno == libc::ESRCH || has_ended(liveness)
}

/// Returns whether a rank is known to have died.
#[must_use]
pub fn is_dead(liveness: &Liveness) -> bool {
    liveness.state() == Life::Dead
}

/// Marks a rank as dead after its process has gone, unless the process left in good order.
pub fn mark_dead(liveness: &Liveness) {
    if liveness.state() != Life::Finished {
        liveness.end(Life::Dead);
    }
}

/// Returns the start time of a process, in clock ticks since the machine was started; `process` is
/// a number or `self`.
pub(crate) fn start_time(process: &str) -> Option<u64> {
    parse_start_time(&read_stat(process).ok()?)
}

/// Reads the line of a process in `/proc`, up to [`STAT_BYTES`].
fn read_stat(process: &str) -> io::Result<String> {
    let mut stat = [0; STAT_BYTES];
    // One call returns all that there is room for. Each further call would cost as much.
    let length = File::open(format!("/proc/{process}/stat"))?.read(&mut stat)?;
    Ok(String::from_utf8_lossy(&stat[..length]).into_owned())
}

/// Returns the 22nd field. The 2nd field is the program's name in parentheses, and may hold
/// anything, parentheses and spaces too.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(22 - 3);
    let started = fields.next()?;
    // The last field that there was room for may be cut.
    fields.next()?;
    started.parse().ok()
}

#[cfg(test)]
mod tests;
