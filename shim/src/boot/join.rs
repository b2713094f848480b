//! The rank's side of the boot exchange.

use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketType,
};

use super::message::{Hello, Refusal, Reply};
use crate::env::{self, EnvError};
use crate::liveness;
use crate::segment::{SegmentError, SegmentMap};

/// How long the launcher may take to answer. It answers at once unless it was stopped.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process's place in a job.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Its rank.
    pub(crate) rank: u32,
    /// The segment of the job, in which this rank is alive now.
    pub(crate) map: SegmentMap,
}

/// Joins the job that this process was started for. Once per process.
///
/// # Errors
///
/// [`BootError`]: this process was not started by a launcher, or the two do not agree.
pub(crate) fn join() -> Result<Membership, BootError> {
    static JOINED: AtomicBool = AtomicBool::new(false);

    let place = Place::from_env()?;
    if JOINED.swap(true, Ordering::Relaxed) {
        return Err(BootError::Twice);
    }
    inspect(place.fd)?;
    // SAFETY: `inspect` found an open socket; the launcher made it for this process to own, and the flag above lets
    // one caller take it.
    let socket = unsafe { OwnedFd::from_raw_fd(place.fd) };
    join_over(&socket, place.rank, place.size, PATIENCE)
}

/// What the environment says of this process.
struct Place {
    fd: RawFd,
    rank: u32,
    size: u32,
}

impl Place {
    fn from_env() -> Result<Self, BootError> {
        let fd = env::BOOT_FD.read(|&fd: &RawFd| fd > 2)?.ok_or(BootError::NotStarted)?;
        let size = env::SIZE.read(|&size: &u32| size > 0)?.ok_or(BootError::NotStarted)?;
        let rank = env::RANK.read(|&rank: &u32| rank < size)?.ok_or(BootError::NotStarted)?;
        Ok(Self { fd, rank, size })
    }
}

/// Checks that `fd` is a socket as the launcher makes them and keeps it from this process's children.
fn inspect(fd: RawFd) -> Result<(), BootError> {
    // SAFETY: the borrow ends with this function. A number that is not open makes the calls below fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let kind = rustix::net::sockopt::socket_type(socket);
    let domain = rustix::net::sockopt::socket_domain(socket);
    if (kind, domain) != (Ok(SocketType::SEQPACKET), Ok(AddressFamily::UNIX)) {
        return Err(BootError::NotASocket { fd, error: kind.err() });
    }
    rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC).map_err(BootError::Socket)
}

/// The exchange itself.
fn join_over(
    socket: &OwnedFd,
    rank: u32,
    size: u32,
    patience: Duration,
) -> Result<Membership, BootError> {
    let pid = std::process::id();
    let hello = Hello::new(rank, pid).encode();
    rustix::net::send(socket, &hello, SendFlags::NOSIGNAL).map_err(gone_or(BootError::Socket))?;
    await_answer(socket, patience)?;
    let (reply, file) = receive(socket)?;
    let (nonce, length, ranks) = match reply {
        Reply::Welcome { nonce, length, ranks } => (nonce, length, ranks),
        Reply::Refused(refusal) => return Err(BootError::Refused(refusal)),
    };
    if ranks != size {
        return Err(BootError::Size { environment: size, launcher: ranks });
    }
    let file = file.ok_or(BootError::NoSegment)?;
    let map = SegmentMap::attach(file, nonce, rank).map_err(BootError::Segment)?;
    if map.length() as u64 != length || map.segment().ranks() != ranks {
        return Err(BootError::OtherSegment { length: map.length() as u64, expected: length });
    }
    // Without /proc there is no start time; zero matches no process, and the liveness word decides alone.
    let started = liveness::start_time("self").unwrap_or(0);
    map.segment().rank_block(rank).liveness.attach(pid, started);
    Ok(Membership { rank, map })
}

fn await_answer(socket: &OwnedFd, patience: Duration) -> Result<(), BootError> {
    let timeout = Timespec::try_from(patience).unwrap_or_default();
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    match rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout))) {
        Ok(0) => Err(BootError::Silent { seconds: patience.as_secs() }),
        Ok(_) => Ok(()),
        Err(error) => Err(BootError::Socket(error)),
    }
}

/// Receives the answer and the descriptor that came with it.
fn receive(socket: &OwnedFd) -> Result<(Reply, Option<OwnedFd>), BootError> {
    let mut bytes = [0; Reply::BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })
    .map_err(gone_or(BootError::Socket))?;
    if received.bytes == 0 {
        return Err(BootError::LauncherGone);
    }
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let reply = Reply::parse(&bytes[..received.bytes])
        .map_err(|malformed| BootError::Malformed { what: malformed.to_string() })?;
    Ok((reply, file))
}

/// A socket whose other end is closed says so in two ways.
fn gone_or(other: fn(Errno) -> BootError) -> impl FnOnce(Errno) -> BootError {
    move |error| match error {
        Errno::PIPE | Errno::CONNRESET => BootError::LauncherGone,
        error => other(error),
    }
}

/// Why this process could not join its job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BootError {
    /// No launcher started this process.
    NotStarted,
    /// The environment has a value that the launcher does not set.
    Environment(EnvError),
    /// The descriptor is no socket of a launcher.
    NotASocket {
        /// Its number.
        fd: i32,
        /// What the kernel said, if it knew the descriptor at all.
        error: Option<Errno>,
    },
    /// The socket to the launcher failed.
    Socket(Errno),
    /// The launcher closed the socket: it has ended.
    LauncherGone,
    /// The launcher did not answer.
    Silent {
        /// How long this process waited.
        seconds: u64,
    },
    /// The launcher's answer cannot be read.
    Malformed {
        /// What is wrong with it.
        what: String,
    },
    /// The launcher does not take this process in.
    Refused(Refusal),
    /// The environment and the launcher name different numbers of ranks.
    Size {
        /// What `STRAIT_SIZE` says.
        environment: u32,
        /// What the launcher says.
        launcher: u32,
    },
    /// No segment came with the launcher's answer.
    NoSegment,
    /// The segment that came is not the one announced.
    OtherSegment {
        /// Its length, bytes.
        length: u64,
        /// The length announced, bytes.
        expected: u64,
    },
    /// The segment cannot be used.
    Segment(SegmentError),
    /// This process has joined, or tried to, before.
    Twice,
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted => f.write_str(
                "this process is no rank of a job: start the program with \
                 `strait run -n N PROGRAM`",
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
            Self::Malformed { what } => write!(f, "the launcher's answer makes no sense: {what}"),
            Self::Refused(refusal) => write!(f, "the launcher refused this process: {refusal}"),
            Self::Size { environment, launcher } => {
                write!(f, "STRAIT_SIZE says {environment} ranks, the launcher {launcher}")
            }
            Self::NoSegment => f.write_str(
                "the launcher's answer came without its segment: is this process out of \
                 descriptors (ulimit -n)?",
            ),
            Self::OtherSegment { length, expected } => {
                write!(f, "the segment has {length} bytes, the launcher announced {expected}")
            }
            Self::Segment(error) => error.fmt(f),
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
            _ => None,
        }
    }
}

impl From<EnvError> for BootError {
    fn from(error: EnvError) -> Self {
        Self::Environment(error)
    }
}

#[cfg(test)]
mod tests;
