//! Operations that could not end at once, and how operations end.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use super::speculation::Asked;
use super::{Cursor, Sign};
use crate::layout::Corrupt;
use crate::memory::OutOfMemory;
use crate::wire::Key;

/// Names an operation under way. Valid from the call that gave it until [`super::Engine::test`] gives its outcome.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RequestId(pub(super) u32);

/// What a receive got (MPI-4.1 §3.2.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// The sending rank.
    pub source: u32,
    /// The message's tag.
    pub tag: u32,
    /// Bytes received.
    pub bytes: usize,
}

/// How an operation ended. A send that ended well reports its destination, its tag and the bytes sent.
pub type Outcome = Result<Status, Fault>;

/// Why an operation ended badly. The operation is over; others are not affected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The message was longer than the buffer, which was filled (MPI-4.1 §3.2.4, `MPI_ERR_TRUNCATE`).
    Truncated {
        /// The sending rank.
        source: u32,
        /// The message's tag.
        tag: u32,
        /// Length of the message, bytes.
        message: usize,
        /// Length of the buffer, bytes.
        buffer: usize,
    },
    /// The peer died.
    PeerFailed {
        /// The peer.
        rank: u32,
        /// By what that is known.
        sign: Sign,
    },
    /// The peer left the job in good order; it receives and sends no more.
    PeerFinished {
        /// The peer.
        rank: u32,
    },
    /// The peer is on another node, and there is no network.
    Unreachable {
        /// The peer.
        rank: u32,
    },
    /// The operation was cancelled.
    Cancelled,
}

impl Status {
    /// Number of whole values of type `T` received; `None` when the bytes are no multiple of its size (MPI-4.1 §3.2.5,
    /// `MPI_GET_COUNT`).
    #[must_use]
    pub const fn count<T>(&self) -> Option<usize> {
        match size_of::<T>() {
            0 => None,
            size if self.bytes.is_multiple_of(size) => Some(self.bytes / size),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { source, tag, message, buffer } => write!(
                f,
                "the message of rank {source} with tag {tag} has {message} bytes, the buffer {buffer}: \
                 receive it into a longer buffer, or probe for its length first"
            ),
            Self::PeerFailed { rank, sign } => sign.tell(f, rank),
            Self::PeerFinished { rank } => {
                write!(f, "rank {rank} has left the job and communicates no more")
            }
            Self::Unreachable { rank } => write!(
                f,
                "rank {rank} is on another node, and STRAIT_HCA says that there is no network: start all \
                 ranks on one node, or choose a device"
            ),
            Self::Cancelled => f.write_str("the operation was cancelled"),
        }
    }
}

impl core::error::Error for Fault {}

/// Why an operation did not begin. Nothing was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StartError {
    /// No such rank.
    Rank {
        /// The rank asked for.
        rank: u32,
        /// Ranks in the job.
        ranks: u32,
    },
    /// The tag is above [`crate::matching::TAG_MAX`], or a wildcard where none is allowed.
    Tag {
        /// The tag asked for.
        tag: u32,
    },
    /// The peer is gone; see the fault.
    Peer(Fault),
    /// No private memory for the request.
    OutOfMemory(OutOfMemory),
    /// The segment can no longer be trusted.
    Corrupt(Corrupt),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Rank { rank, ranks } => {
                write!(
                    f,
                    "rank {rank} does not exist in a job of {ranks} ranks (0 to {})",
                    ranks - 1
                )
            }
            Self::Tag { tag } => write!(
                f,
                "tag {tag} is not usable here: tags go from 0 to {}, and only receives take wildcards",
                crate::matching::TAG_MAX
            ),
            Self::Peer(fault) => fault.fmt(f),
            Self::OutOfMemory(error) => error.fmt(f),
            Self::Corrupt(corrupt) => write!(f, "shared memory is damaged: {corrupt}"),
        }
    }
}

impl core::error::Error for StartError {}

impl From<OutOfMemory> for StartError {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

impl From<Corrupt> for StartError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

/// Why progress stopped. Messages that had not been taken are still where they were.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProgressError {
    /// No private memory for an unexpected message. It waits; receive something, or free memory, and go on.
    OutOfMemory(OutOfMemory),
    /// The segment can no longer be trusted.
    Corrupt(Corrupt),
    /// The engine was stopped ([`super::Engine::stop`]).
    Stopped,
}

impl fmt::Display for ProgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfMemory(error) => {
                write!(f, "an unexpected message has to wait: {error}")
            }
            Self::Corrupt(corrupt) => write!(f, "shared memory is damaged: {corrupt}"),
            Self::Stopped => f.write_str("this rank ran out of memory and communicates no more"),
        }
    }
}

impl core::error::Error for ProgressError {}

impl From<OutOfMemory> for ProgressError {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

impl From<Corrupt> for ProgressError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

/// Why an operation keeps its claim on its buffer for now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StillClaimed {
    /// There is no memory to copy the rest of a send. Nothing was changed.
    OutOfMemory(OutOfMemory),
    /// The peer is moving a piece of it, and will soon be done. It claims no more: make progress and ask again. Or it is on
    /// another node, may begin to read the message at any time, and has been asked not to.
    Moving {
        /// The peer.
        peer: u32,
    },
}

impl From<OutOfMemory> for StillClaimed {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

/// The message that a send has not handed over completely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) key: Key,
    pub(super) total: usize,
    /// Bytes handed over so far; zero also means that no packet left yet.
    pub(super) sent: usize,
    pub(super) data: Cursor,
    pub(super) stage: Stage,
}

/// When a send is over (MPI-4.1 §3.4).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SendMode {
    /// When its buffer may be changed.
    #[default]
    Standard,
    /// Not before its receive has begun, too.
    Synchronous,
}

impl SendMode {
    /// How a message that is not announced begins.
    pub(super) const fn first_stage(self) -> Stage {
        match self {
            Self::Standard => Stage::Eager,
            Self::Synchronous => Stage::Synchronous,
        }
    }
}

/// What the next packet of a message has to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// Its data, or an offer when the receiver has no room for them.
    Eager,
    /// An offer, or an RTS where there is one: that it is called for, or moved, says that its receive has begun.
    Synchronous,
    /// The RTS of the large message `sender`; nothing else of it is sent here.
    Announce { sender: u32 },
    /// None: it was offered, and waits until `destination` calls for offer `number`.
    Offered { destination: u32, number: u32 },
    /// None: it was announced to a rank on another node, which may read it.
    Exposed { announced: u32 },
    /// None: it is written where its receive wants it.
    Writing { writing: u32 },
    /// Its data, which the receiver called for.
    Called,
}

/// An operation under way, and who answers for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) request: Request,
}

/// A number that whoever embeds the engine gives to an operation, to end all of its operations at once
/// ([`super::Engine::detach_owned`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Owner(pub u32);

impl Owner {
    /// Of operations whose caller waits for them at once: it is inside the library until they are over.
    pub const BLOCKING: Self = Self(0);

    /// Of operations that end one by one, and never all at once.
    pub const UNSCOPED: Self = Self(u32::MAX);
}

/// What an operation under way waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// A send that waits for cells, in its destination's list, or to be called for.
    Sending {
        message: Outgoing,
        next: Option<u32>,
        /// The engine's own copy of what was left, when nobody waits for the request any more.
        detached: Option<Owned>,
    },
    /// A receive in the posted queue. With an RTR out, it is one of the receivers already, or of the invited.
    Posted { handle: u32, buffer: Cursor, asked: Option<Asked> },
    /// A receive whose message is arriving.
    Receiving { buffer: Cursor, capacity: usize, source: u32, tag: u32, total: usize },
    /// A receive whose message is arriving in the engine's memory, and goes on to the buffer when it is whole.
    Due { buffer: Cursor, source: u32 },
    /// A send whose message was announced.
    Announced { sender: u32 },
    /// A receive that met an announced message.
    Granted { receiver: u32 },
    /// A receive whose message is read from the memory of a rank on another node.
    Reading { reading: u32 },
    /// A receive whose message is being written by a rank on another node.
    Written { invited: u32 },
    /// A receive that met an offered message.
    Calling { call: u32 },
    /// Over; kept until asked for.
    Done(Outcome),
}

/// Memory that the engine owns by way of [`crate::memory::Memory`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
}

impl Owned {
    /// The layout to allocate and release `length` bytes with; cache-line aligned, so that copies run at full speed.
    pub(super) fn layout(length: usize) -> Result<Layout, OutOfMemory> {
        Layout::from_size_align(length, crate::sync::CACHE_LINE)
            .map_err(|_| OutOfMemory { bytes: length })
    }
}
