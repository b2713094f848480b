//! What is posted to a device, and what comes back.

use core::ptr::NonNull;

use super::{Connection, WorkError};

/// One operation for a device, and how to treat it.
#[derive(Clone, Copy, Debug)]
pub struct WorkRequest<'a> {
    /// Comes back in the completion.
    pub id: u64,
    /// What to do.
    pub operation: Operation<'a>,
    /// Whether success is reported. Failure always is. A device takes at most [`Capabilities::depth`] requests in a row that are
    /// not: the completion of a later one says that these are done, too.
    ///
    /// [`Capabilities::depth`]: super::Capabilities::depth
    pub signaled: bool,
    /// Take the data at once. For writes and sends of at most [`Capabilities::inline`] bytes.
    ///
    /// [`Capabilities::inline`]: super::Capabilities::inline
    pub inline: bool,
    /// Start only after the reads and atomics posted before are done.
    pub fenced: bool,
}

/// What a device can be asked to do. The pieces lie in this process, one after the other in the message.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Writes to the peer's memory.
    Write {
        /// From here.
        from: &'a [Piece],
        /// To there.
        to: Remote,
    },
    /// Writes to the peer's memory, then completes a receive there with a number. Where [`Capabilities::immediate`] says so.
    ///
    /// [`Capabilities::immediate`]: super::Capabilities::immediate
    WriteImmediate {
        /// From here; may be nothing.
        from: &'a [Piece],
        /// To there.
        to: Remote,
        /// The number.
        immediate: u32,
    },
    /// Reads the peer's memory.
    Read {
        /// To here.
        into: &'a [Piece],
        /// From there.
        from: Remote,
    },
    /// Sends a message, into the piece that the peer posted first.
    Send {
        /// From here.
        from: &'a [Piece],
    },
    /// Replaces 8 bytes of the peer's by `desired` if they are `expected`. Leaves what was there in `result`.
    CompareAndSwap {
        /// 8 bytes for the old value.
        result: Piece,
        /// 8 bytes, aligned.
        target: Remote,
        /// What has to be there.
        expected: u64,
        /// What shall be there.
        desired: u64,
    },
    /// Adds to 8 bytes of the peer's, wrapping. Leaves what was there in `result`.
    FetchAndAdd {
        /// 8 bytes for the old value.
        result: Piece,
        /// 8 bytes, aligned.
        target: Remote,
        /// What to add.
        addend: u64,
    },
}

/// Part of a registered region of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// First byte.
    pub base: NonNull<u8>,
    /// Length, bytes.
    pub length: u32,
    /// The region's local key.
    pub key: u32,
}

/// A place in a registered region of a peer. How long it is says the request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Remote {
    /// Address in the peer.
    pub address: u64,
    /// The region's remote key.
    pub key: u32,
}

impl Remote {
    /// What lies `bytes` further on.
    #[must_use]
    pub const fn after(self, bytes: usize) -> Self {
        Self { address: self.address.wrapping_add(bytes as u64), key: self.key }
    }
}

/// The end of a work request, or of a receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Completion {
    /// The request's.
    pub id: u64,
    /// On which connection.
    pub connection: Connection,
    /// What was done, or why it was not.
    pub result: Result<Done, WorkError>,
}

/// What a completed request did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Done {
    /// A write, with or without an immediate.
    Write,
    /// A read.
    Read,
    /// A send.
    Send,
    /// A compare-and-swap or fetch-and-add.
    Atomic,
    /// A message arrived in the piece of this id.
    Receive {
        /// Its length.
        length: u32,
    },
    /// A peer's write with an immediate is done. It took the piece of this id, and left it as it was.
    Immediate {
        /// The number.
        immediate: u32,
        /// Bytes that were written.
        length: u32,
    },
}
