//! libfabric's structures and numbers, written by hand.
//!
//! A provider gets and gives them by pointer. It calls no function of libfabric, because the
//! versioned symbols would bind it to one version of each structure. `tests.rs` compares sizes and
//! offsets with the headers of Debian's `libfabric-dev`.
//!
//! Newer libraries may have more fields behind the fields named here. They are zero in structures
//! that this provider makes, and ignored in structures that it gets.

mod args;
mod attr;
mod ops;

pub(crate) use args::*;
pub(crate) use attr::*;
pub(crate) use ops::*;

use core::ffi::c_void;

use strait::port::PeerAddress;

/// The result of a call: zero, or a negated error number.
pub(crate) type FiStatus = i32;

/// The result of a call that moves or counts data: a number, or a negated error number.
pub(crate) type Ssize = isize;

/// The address of a peer: an index into the endpoint's address vector.
pub(crate) type FiAddr = u64;

/// Maximum size in bytes of the text of an error entry, with the zero at its end.
pub(crate) const ERROR_TEXT_MAX: usize = 256;

/// The first version of libfabric in which an error entry has a buffer of the user's for details.
pub(crate) const WITH_ERROR_BUFFER: u32 = 1 << 16 | 5;

/// Size of an endpoint's name in bytes.
pub(crate) const NAME_BYTES: usize = 8 + PeerAddress::BYTES;

/// The address that stands for no peer, or for any.
pub(crate) const ADDR_UNSPEC: FiAddr = u64::MAX;

/// `FI_VERSION(2, 99)`: libfabric skips a provider older than the version that its caller asks for.
pub(crate) const API_VERSION: u32 = 2 << 16 | 99;

/// Capabilities, and flags of operations and completions (`rdma/fabric.h`).
pub(crate) mod flag {
    /// Messages without tags.
    pub(crate) const MSG: u64 = 1 << 1;
    /// Reads and writes of remote memory.
    pub(crate) const RMA: u64 = 1 << 2;
    /// Messages with tags.
    pub(crate) const TAGGED: u64 = 1 << 3;
    /// Reads.
    pub(crate) const ATOMIC: u64 = 1 << 4;
    /// Writes.
    pub(crate) const READ: u64 = 1 << 8;
    /// Receives.
    pub(crate) const WRITE: u64 = 1 << 9;
    /// Sends.
    pub(crate) const RECV: u64 = 1 << 10;
    /// Memory that peers may read.
    pub(crate) const SEND: u64 = 1 << 11;
    /// Memory that peers may write.
    pub(crate) const REMOTE_READ: u64 = 1 << 12;
    /// Being written.
    pub(crate) const REMOTE_WRITE: u64 = 1 << 13;
    /// A buffer that receives many messages.
    pub(crate) const MULTI_RECV: u64 = 1 << 16;
    /// Eight bytes that come with a message.
    pub(crate) const REMOTE_CQ_DATA: u64 = 1 << 17;
    /// Looks for a message without receiving it.
    pub(crate) const PEEK: u64 = 1 << 19;
    /// The operation writes a completion entry.
    pub(crate) const COMPLETION: u64 = 1 << 24;
    /// The buffer may be reused when the call returns.
    pub(crate) const INJECT: u64 = 1 << 25;
    /// The operation completes when its data are in the peer's memory.
    pub(crate) const DELIVERY_COMPLETE: u64 = 1 << 28;
    /// The operation completes when the peer has matched it.
    pub(crate) const MATCH_COMPLETE: u64 = 1 << 31;
    /// Ranks of this process's own node.
    pub(crate) const LOCAL_COMM: u64 = 1 << 51;
    /// Ranks of other nodes.
    pub(crate) const REMOTE_COMM: u64 = 1 << 52;
    /// The caller asks only for the provider's general attributes.
    pub(crate) const PROV_ATTR_ONLY: u64 = 1 << 54;
    /// CompletionEntries of messages name their source.
    pub(crate) const SOURCE: u64 = 1 << 57;
    /// Receives from one source.
    pub(crate) const DIRECTED_RECV: u64 = 1 << 59;
    /// As a flag of receives: receives the message that a probe has claimed.
    pub(crate) const CLAIM: u64 = 1 << 59;
    /// As a flag of receives: drops the message that a probe has claimed.
    pub(crate) const DISCARD: u64 = 1 << 58;
    /// As a flag of binding: only operations with [`COMPLETION`] write completion entries.
    pub(crate) const SELECTIVE_COMPLETION: u64 = 1 << 59;
    /// As a flag of `query_atomic`: operations that return the old value.
    pub(crate) const FETCH_ATOMIC: u64 = 1 << 58;
    /// As a flag of `query_atomic`: operations that compare.
    pub(crate) const COMPARE_ATOMIC: u64 = 1 << 59;
    /// As a flag of `av_open`: an event reports the insertion.
    pub(crate) const EVENT: u64 = COMPLETION;
}

/// Error numbers. Numbers below 256 are those of `errno`.
pub(crate) mod errno {
    /// No such entry or message.
    pub(crate) const ENOENT: i32 = libc::ENOENT;
    /// The call must be repeated after progress has been made.
    pub(crate) const EAGAIN: i32 = libc::EAGAIN;
    /// The caller lacks the right.
    pub(crate) const EACCES: i32 = libc::EACCES;
    /// No memory.
    pub(crate) const ENOMEM: i32 = libc::ENOMEM;
    /// Invalid argument.
    pub(crate) const EINVAL: i32 = libc::EINVAL;
    /// Not implemented.
    pub(crate) const ENOSYS: i32 = libc::ENOSYS;
    /// The hints cannot be satisfied.
    pub(crate) const ENODATA: i32 = libc::ENODATA;
    /// Not supported.
    pub(crate) const EOPNOTSUPP: i32 = libc::EOPNOTSUPP;
    /// No message of the kind that was looked for.
    pub(crate) const ENOMSG: i32 = libc::ENOMSG;
    /// The peer is gone.
    pub(crate) const ECONNRESET: i32 = libc::ECONNRESET;
    /// The peer cannot be reached.
    pub(crate) const EHOSTUNREACH: i32 = libc::EHOSTUNREACH;
    /// The transport failed.
    pub(crate) const EIO: i32 = libc::EIO;
    /// The peer's memory cannot be reached.
    pub(crate) const EFAULT: i32 = libc::EFAULT;
    /// The operation was cancelled.
    pub(crate) const ECANCELED: i32 = libc::ECANCELED;
    /// The caller's buffer is too small.
    pub(crate) const ETOOSMALL: i32 = 257;
    /// An error entry is available.
    pub(crate) const EAVAIL: i32 = 259;
    /// The message was longer than its buffer.
    pub(crate) const ETRUNC: i32 = 265;
    /// The endpoint is bound to no address vector.
    pub(crate) const ENOAV: i32 = 267;
}

/// The class of the object that a [`Fid`] begins.
pub(crate) mod class {
    /// A fabric.
    pub(crate) const FABRIC: usize = 1;
    /// A domain.
    pub(crate) const DOMAIN: usize = 2;
    /// An endpoint.
    pub(crate) const EP: usize = 3;
    /// An address vector.
    pub(crate) const AV: usize = 11;
    /// A memory region.
    pub(crate) const MR: usize = 12;
    /// An event queue.
    pub(crate) const EQ: usize = 13;
    /// A completion queue.
    pub(crate) const CQ: usize = 14;
    /// A counter.
    pub(crate) const CNTR: usize = 15;
}

/// Commands of `fi_control`.
pub(crate) mod command {
    /// Sets flags of an endpoint's operations.
    pub(crate) const SETOPSFLAG: i32 = 3;
    /// Asks for flags of an endpoint's operations.
    pub(crate) const GETOPSFLAG: i32 = 2;
    /// Enables an endpoint.
    pub(crate) const ENABLE: i32 = 6;
}

/// `struct fid`, with which every object begins.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Fid {
    /// One of [`class`].
    pub(crate) fclass: usize,
    /// The user's context.
    pub(crate) context: *mut c_void,
    /// The functions that every object has.
    pub(crate) ops: *const Ops,
}

/// `struct iovec`.
pub(crate) type IoVec = libc::iovec;

#[cfg(test)]
mod tests;
