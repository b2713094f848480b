//! Work requests and completions.

use core::ptr::NonNull;

use super::{Connection, WorkError};

/// One operation for a device, and its options.
#[derive(Clone, Copy, Debug)]
pub struct WorkRequest<'a> {
    /// The identifier that the completion carries.
    pub id: u64,
    /// The operation.
    pub operation: Operation<'a>,
    /// True if success is reported. Failure is always reported. A device takes at most
    /// [`Capabilities::depth`] consecutive requests with false; the completion of a later request
    /// says that they are done, too.
    ///
    /// [`Capabilities::depth`]: super::Capabilities::depth
    pub signaled: bool,
    /// True if the device reads the data during the post. It applies to writes and sends of at most
    /// [`Capabilities::inline`] bytes.
    ///
    /// [`Capabilities::inline`]: super::Capabilities::inline
    pub inline: bool,
    /// True if the request starts only after the reads and atomics posted before it are complete.
    pub fenced: bool,
}

/// An operation of a device. Its pieces lie in this process and follow each other in the message.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Writes to the peer's memory.
    Write {
        /// The source.
        from: &'a [Sge],
        /// The destination.
        to: RemoteAddress,
    },
    /// Writes to the peer's memory, then completes a receive there with a number. Requires
    /// [`Capabilities::immediate`].
    ///
    /// [`Capabilities::immediate`]: super::Capabilities::immediate
    WriteImmediate {
        /// The source, which may be empty.
        from: &'a [Sge],
        /// The destination.
        to: RemoteAddress,
        /// The number.
        immediate: u32,
    },
    /// Reads the peer's memory.
    Read {
        /// The destination.
        into: &'a [Sge],
        /// The source.
        from: RemoteAddress,
    },
    /// Sends a message into the piece that the peer posted first.
    Send {
        /// The source.
        from: &'a [Sge],
    },
    /// Replaces 8 bytes of the peer's memory by `desired` if they equal `expected`. Stores the old
    /// value in `result`.
    CompareAndSwap {
        /// 8 bytes for the old value.
        result: Sge,
        /// 8 aligned bytes.
        target: RemoteAddress,
        /// The value to compare with.
        expected: u64,
        /// The new value.
        desired: u64,
    },
    /// Adds to 8 bytes of the peer's memory, wrapping. Stores the old value in `result`.
    FetchAndAdd {
        /// 8 bytes for the old value.
        result: Sge,
        /// 8 aligned bytes.
        target: RemoteAddress,
        /// The number to add.
        addend: u64,
    },
}

/// Part of a registered region of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sge {
    /// Address of the first byte.
    pub base: NonNull<u8>,
    /// Length, in bytes.
    pub length: u32,
    /// The region's local key.
    pub key: u32,
}

/// A place in a registered region of a peer. The request determines the length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemoteAddress {
    /// Address in the peer's memory.
    pub address: u64,
    /// The region's remote key.
    pub key: u32,
}

impl RemoteAddress {
    /// Returns the place `bytes` bytes further on.
    #[must_use]
    pub const fn after(self, bytes: usize) -> Self {
        Self { address: self.address.wrapping_add(bytes as u64), key: self.key }
    }
}

/// The completion of a work request or of a receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Completion {
    /// The request's identifier.
    pub id: u64,
    /// The connection of the request.
    pub connection: Connection,
    /// The operation that was done, or the error.
    pub result: Result<Done, WorkError>,
}

/// The operation of a completed request.
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
    /// A message that arrived in the piece of this identifier.
    Receive {
        /// Its length, in bytes.
        length: u32,
    },
    /// A peer's write with an immediate. It used the receive of this identifier and left its piece
    /// unchanged.
    Immediate {
        /// The number.
        immediate: u32,
        /// Number of bytes written.
        length: u32,
    },
}
