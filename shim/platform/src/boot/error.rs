//! Failures to join a job.

use core::fmt;
use std::path::PathBuf;

use rustix::io::Errno;

use super::message::JoinRefusal;
use super::pmi::mapping::MappingError;
use super::store::StoreError;
use crate::env::EnvError;
use crate::segment::SegmentError;

/// The reason why this process could not join its job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BootError {
    /// No launcher started this process.
    NotStarted,
    /// The environment lacks a variable that launchers set.
    Unset {
        /// Its name.
        variable: &'static str,
    },
    /// The environment has a value that the launcher does not set.
    Environment(EnvError),
    /// The descriptor is not a launcher's socket.
    NotASocket {
        /// Its number.
        fd: i32,
        /// The kernel's error; `None` when the socket is of another kind.
        error: Option<Errno>,
    },
    /// The socket to the launcher failed.
    Socket(Errno),
    /// The launcher closed the socket: it has ended.
    LauncherGone,
    /// The launcher did not answer.
    Silent {
        /// Time that this process waited, in seconds.
        seconds: u64,
    },
    /// The launcher's answer cannot be read.
    Malformed {
        /// The problem.
        what: String,
    },
    /// The launcher refused this process.
    Refused(JoinRefusal),
    /// The environment and the launcher name different numbers of ranks.
    Size {
        /// The value of `STRAIT_SIZE`.
        environment: u32,
        /// The launcher's number.
        launcher: u32,
    },
    /// No descriptor came with the answer.
    NoDescriptor,
    /// The received segment is not the announced one.
    OtherSegment {
        /// Its length, in bytes.
        length: u64,
        /// The announced length, in bytes.
        expected: u64,
    },
    /// The segment cannot be used.
    Segment(SegmentError),
    /// The descriptor is not the socket of a PMI-1 launcher.
    NotPmi {
        /// Its number.
        fd: i32,
        /// The kernel's error.
        error: Errno,
    },
    /// The job's key-value store failed.
    Store(StoreError),
    /// The launcher's mapping of ranks to nodes cannot be read.
    Mapping(MappingError),
    /// This rank could not make the descriptor that it was to share.
    NotMade {
        /// The name of the descriptor.
        name: String,
        /// The reason.
        what: String,
    },
    /// The rank that was to share a descriptor did not offer it.
    NotOffered {
        /// The name of the descriptor.
        name: String,
    },
    /// The rank that offered a descriptor has stopped doing so.
    Withdrawn {
        /// The name of the descriptor.
        name: String,
    },
    /// The socket at which a rank of this job should listen belongs to another user.
    OtherUser {
        /// The number in the socket's name.
        socket: u64,
    },
    /// Ranks did not fetch what this rank shares with them.
    Absent {
        /// The ranks.
        ranks: Vec<u32>,
        /// Time that this process waited, in seconds.
        seconds: u64,
    },
    /// All ranks of a universe have been claimed, also by processes that have ended.
    UniverseFull {
        /// Its name.
        name: String,
        /// Number of ranks in the universe.
        room: u32,
    },
    /// No directory is usable for the registry of this user's universes.
    NoRendezvous {
        /// The files and directories that were tried, and the problem with each.
        tried: Vec<String>,
    },
    /// A process keeps the registry of this user's universes locked.
    RendezvousHeld {
        /// The registry.
        path: PathBuf,
        /// Time that this process waited, in seconds.
        seconds: u64,
    },
    /// No number is left for a further process of another universe.
    NoNumber,
    /// A process of another universe is on another host, and its device reaches only its own host.
    OtherHost,
    /// A universe has no such rank.
    NoSuchRank {
        /// The rank.
        rank: u32,
    },
    /// This process has joined, or tried to join, before.
    Twice,
}

impl BootError {
    /// Returns whether another rank, or the launcher, ended or failed in the meantime. Then the
    /// settings of this rank are not the cause.
    pub const fn is_of_another_rank(&self) -> bool {
        matches!(
            self,
            Self::NotOffered { .. }
                | Self::Absent { .. }
                | Self::LauncherGone
                | Self::Silent { .. }
                | Self::Store(_)
        )
    }
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted => f.write_str(
                "this process is not a rank of a job: start the program with \
                 `strait run -n N PROGRAM`, or by a launcher that speaks PMI-1, such as MPICH's \
                 mpiexec.hydra",
            ),
            Self::Unset { variable } => write!(
                f,
                "environment variable {variable} is not set: the launcher sets it together with \
                 the others, and any program between the two must pass on all of them"
            ),
            Self::Environment(error) => error.fmt(f),
            Self::NotASocket { fd, error } => {
                write!(f, "descriptor {fd} (STRAIT_BOOT_FD) is not the launcher's socket")?;
                if let Some(error) = error {
                    write!(f, ": {error}")?;
                }
                f.write_str(
                    "; a rank is the process that `strait run` started, and a script that stands \
                     between the two must leave that descriptor open",
                )
            }
            Self::Socket(error) => write!(f, "the socket to the launcher failed: {error}"),
            Self::LauncherGone => f.write_str("the launcher ended before it answered"),
            Self::Silent { seconds } => {
                write!(f, "the launcher did not answer for {seconds} s: was it stopped?")
            }
            Self::Malformed { what } => write!(f, "the launcher's answer cannot be read: {what}"),
            Self::Refused(refusal) => write!(f, "the launcher refused this process: {refusal}"),
            Self::Size { environment, launcher } => {
                write!(f, "STRAIT_SIZE says {environment} ranks, the launcher {launcher}")
            }
            Self::NoDescriptor => f.write_str(
                "the answer came without its descriptor: is this process out of descriptors \
                 (ulimit -n)?",
            ),
            Self::OtherSegment { length, expected } => {
                write!(f, "the segment has {length} bytes, the launcher announced {expected}")
            }
            Self::Segment(error) => error.fmt(f),
            Self::NotPmi { fd, error } => write!(
                f,
                "descriptor {fd} (PMI_FD) is not the launcher's socket: {error}; a rank is the \
                 process that the launcher started, and a script that stands between the two must \
                 leave that descriptor open"
            ),
            Self::Store(error) => error.fmt(f),
            Self::Mapping(error) => error.fmt(f),
            Self::NotMade { name, what } => write!(f, "cannot make {name} to share it: {what}"),
            Self::NotOffered { name } => write!(
                f,
                "no rank offers {name}: the rank that was to share it failed; see its message"
            ),
            Self::Withdrawn { name } => write!(
                f,
                "the rank that offered {name} no longer listens: it has ended, it has served \
                 all its ranks, or it runs on another host"
            ),
            Self::OtherUser { socket } => write!(
                f,
                "the socket strait-{socket:016x} belongs to another user: this process takes \
                 nothing from it"
            ),
            Self::Absent { ranks, seconds } => write!(
                f,
                "ranks {ranks:?} did not come to fetch what this rank shares with them for \
                 {seconds} s: have they died, or were they stopped?"
            ),
            Self::UniverseFull { name, room } => write!(
                f,
                "the {room} ranks of {name} are all claimed: end the process that made it, or let \
                 this job make one of its own with another STRAIT_UNIVERSE"
            ),
            Self::NoRendezvous { tried } => write!(
                f,
                "this user's processes have no directory for the registry of universes ({}): let \
                 XDG_RUNTIME_DIR or TMPDIR name one that this user alone can write",
                tried.join("; ")
            ),
            Self::RendezvousHeld { path, seconds } => write!(
                f,
                "a process has kept {0} locked for {seconds} s: it is stopped or hangs; \
                 `fuser {0}` names it, and it has to be continued or ended",
                path.display()
            ),
            Self::NoNumber => {
                f.write_str("this process has no number left for a process of another universe")
            }
            Self::OtherHost => f.write_str(
                "a process is on another host, and its software device reaches only its own host: \
                 STRAIT_HCA=verbs on both hosts uses RDMA devices",
            ),
            Self::NoSuchRank { rank } => write!(f, "the universe has no rank {rank}"),
            Self::Twice => f.write_str(
                "this process has joined its job, or tried to, before: join once and share the \
                 result",
            ),
        }
    }
}

impl core::error::Error for BootError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Environment(error) => Some(error),
            Self::Socket(error) | Self::NotASocket { error: Some(error), .. } => Some(error),
            Self::Segment(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Mapping(error) => Some(error),
            Self::NotPmi { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<EnvError> for BootError {
    fn from(error: EnvError) -> Self {
        Self::Environment(error)
    }
}

impl From<StoreError> for BootError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
