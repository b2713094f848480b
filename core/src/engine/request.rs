//! Operations that could not end at once, and the outcomes of operations.

use core::fmt;

use super::FailureCause;
use super::message_buffers::OwnedBuffer;
use super::rtrs::PostedRtr;
use crate::buffer::Cursor;
use crate::memory::OutOfMemory;
use crate::wire::{Corrupt, Key, PacketKind};

/// The name of an operation under way. It is valid from the call that returned it until
/// [`super::Engine::test`] returns its outcome.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RequestId(pub(super) u32);

/// The result of a receive (MPI-4.1 §3.2.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// The sending rank.
    pub source: u32,
    /// The message's tag.
    pub tag: u32,
    /// Bytes received.
    pub bytes: usize,
}

/// The outcome of an operation. A successful send reports its destination, its tag and the bytes
/// sent.
pub type Outcome = Result<Status, Fault>;

/// The reason why an operation failed. The operation is over; others are not affected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The message was longer than the buffer, which was filled (MPI-4.1 §3.2.4,
    /// `MPI_ERR_TRUNCATE`).
    Truncated {
        /// The sending rank.
        source: u32,
        /// The message's tag.
        tag: u32,
        /// Length of the message, in bytes.
        message: usize,
        /// Length of the buffer, in bytes.
        buffer: usize,
    },
    /// The peer died.
    PeerFailed {
        /// The peer.
        rank: u32,
        /// The cause by which that is known.
        sign: FailureCause,
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
    /// Returns the number of whole values of type `T` received. Returns `None` if the bytes are no
    /// multiple of its size (MPI-4.1 §3.2.5, `MPI_GET_COUNT`).
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
                "the message of rank {source} with tag {tag} has {message} bytes, the buffer \
                 {buffer}: receive it into a longer buffer, or probe for its length first"
            ),
            Self::PeerFailed { rank, sign } => sign.tell(f, rank),
            Self::PeerFinished { rank } => {
                write!(f, "rank {rank} has left the job and communicates no more")
            }
            Self::Unreachable { rank } => write!(
                f,
                "rank {rank} is on another node, and STRAIT_HCA says that there is no network: \
                 start all ranks on one node, or choose a device"
            ),
            Self::Cancelled => f.write_str("the operation was cancelled"),
        }
    }
}

impl core::error::Error for Fault {}

/// The reason why an operation did not start. Nothing was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StartError {
    /// There is no such rank.
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
    /// The peer is gone; the fault states how.
    Peer(Fault),
    /// There is no private memory for the request.
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
                "tag {tag} is not usable here: tags go from 0 to {}, and only receives take \
                 wildcards",
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

/// The reason why progress stopped. Messages that had not been taken are still in their places.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProgressError {
    /// There is no private memory for an unexpected message. The message waits. Receive a message
    /// or free memory, and call again.
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

/// The reason why an operation keeps its claim on its buffer for now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StillClaimed {
    /// There is no memory for a copy of the rest of a send. Nothing was changed.
    OutOfMemory(OutOfMemory),
    /// The peer is moving a piece of the message and will soon be done. It claims no more pieces:
    /// make progress and ask again. Or the peer is on another node, may start to read the message
    /// at any time, and has been asked not to.
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

/// A message that a send has not handed over completely.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingMessage {
    pub(super) key: Key,
    pub(super) total: usize,
    /// Bytes handed over so far. Zero also means that no packet has left yet.
    pub(super) sent: usize,
    pub(super) data: Cursor,
    pub(super) stage: SendStage,
}

impl OutgoingMessage {
    /// Returns the bytes that were not handed over yet.
    pub(super) const fn left(&self) -> usize {
        self.total - self.sent
    }
}

/// The result of one attempt to hand a message over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pushed {
    /// All of it is on its way.
    Whole,
    /// There is no room now; `OutgoingMessage::sent` tells how far it came.
    Blocked,
    /// The receiver has no room: the message was offered and stays here.
    Offered,
    /// All of it is on its way, and its sender waits for the answer.
    Unmatched,
}

/// The condition under which a send is over (MPI-4.1 §3.4).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SendMode {
    /// Its buffer may be changed.
    #[default]
    Standard,
    /// Its buffer may be changed, and its receive has started.
    Synchronous,
}

impl SendMode {
    /// Returns the first stage of a message that is not announced.
    pub(super) const fn first_stage(self) -> SendStage {
        match self {
            Self::Standard => SendStage::Eager,
            Self::Synchronous => SendStage::Synchronous,
        }
    }
}

/// The contents of the next packet of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SendStage {
    /// Its data, or an offer when the receiver has no room for them.
    Eager,
    /// Its data, if the pair has a bit for the answer; otherwise an offer. The answer or the pull
    /// request tells that the receive has started.
    Synchronous,
    /// None. The data of the synchronous message are with `destination`, which changes the bit
    /// `answer` when the receive has started.
    Unmatched { destination: u32, answer: u32 },
    /// The RTS of the large message `sender`. Nothing else of the message is sent here.
    Announce { sender: u32 },
    /// The RTS of a message that the embedder's method moves. After the RTS nothing is sent, unless
    /// the receiver pulls the message.
    Method { transfer: u32 },
    /// None. The message was offered, and waits until `destination` pulls offer `number`.
    Offered { destination: u32, number: u32 },
    /// None. The message was announced to a rank on another node, which may read it.
    Exposed { announced: u32 },
    /// None. The message is written to the address that its receive gave.
    Writing { writing: u32 },
    /// Its data, which the receiver pulled.
    Called,
}

impl SendStage {
    /// Returns the kind of the packet that is all of a message in this stage, or begins a message
    /// that is not eager.
    pub(super) const fn kind_of_whole(self) -> PacketKind {
        match self {
            Self::Called => PacketKind::Called,
            Self::Synchronous => PacketKind::Synchronous,
            _ => PacketKind::Eager,
        }
    }
}

/// A number that the embedder gives to an operation, so that it can end all operations with that
/// number at once ([`super::Engine::detach_owned`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Owner(pub u32);

impl Owner {
    /// The owner of operations for which the caller waits at once. The caller is inside the
    /// library until they are over.
    pub const BLOCKING: Self = Self(0);

    /// The owner of operations that end one by one, and never all at once.
    pub const UNSCOPED: Self = Self(u32::MAX);
}

/// What an operation under way waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestState {
    /// A send that waits for cells, in its destination's list, or for a pull request.
    Sending {
        message: OutgoingMessage,
        next: Option<u32>,
        /// The engine's own copy of the rest, after the user gave the request up.
        detached: Option<OwnedBuffer>,
    },
    /// A receive in the posted queue. If it has sent an RTR, it already has an entry among the
    /// receivers, or among the invited.
    Posted { handle: u32, buffer: Cursor, asked: Option<PostedRtr> },
    /// A receive with a message that is arriving.
    Receiving { buffer: Cursor, capacity: usize, source: u32, tag: u32, total: usize },
    /// A receive with a message that is arriving in the engine's memory. It goes on to the buffer
    /// when it is complete.
    Due { buffer: Cursor, source: u32 },
    /// A send of an announced message.
    Announced { sender: u32 },
    /// A receive that met an announced message.
    Granted { receiver: u32 },
    /// A receive that reads its message from the memory of a rank on another node.
    Reading { reading: u32 },
    /// A receive that met an announced message and has its sender write it.
    Cleared { cts: u32 },
    /// A receive into which a message is being written by a rank on another node.
    Written { invited: u32 },
    /// A receive that met a message that the embedder's method moves.
    Method { transfer: u32 },
    /// A receive that met an offered message.
    Calling { call: u32 },
    /// Over; kept until its outcome is asked for.
    Done(Outcome),
}
