//! libfabric's structures and numbers, written by hand.
//!
//! A provider gets and gives them by pointer and calls nothing of libfabric's own, whose versioned symbols would bind it to one
//! version of each structure. Sizes and offsets are compared with the headers of Debian's `libfabric-dev` in `tests/layout.rs`. What
//! newer libraries have behind the fields named here is zero where we give it and not looked at where we get it.

mod attr;
mod ops;

pub(crate) use attr::*;
pub(crate) use ops::*;

use core::ffi::c_void;

/// A call's answer: zero, or a negated error number.
pub(crate) type Status = i32;

/// As [`Status`], for calls that move data or count.
pub(crate) type Ssize = isize;

/// How an endpoint's peers are named: an index into its address vector.
pub(crate) type FiAddr = u64;

/// No address, or any.
pub(crate) const ADDR_UNSPEC: FiAddr = u64::MAX;

/// `FI_VERSION(2, 99)`: libfabric passes over a provider older than what its caller asks for.
pub(crate) const API_VERSION: u32 = 2 << 16 | 99;

/// Capabilities, and flags of operations and completions (`rdma/fabric.h`).
pub(crate) mod flag {
    /// Messages without tags.
    pub(crate) const MSG: u64 = 1 << 1;
    /// Reads and writes of remote memory.
    pub(crate) const RMA: u64 = 1 << 2;
    /// Messages with tags.
    pub(crate) const TAGGED: u64 = 1 << 3;
    /// Atomic operations on remote memory.
    pub(crate) const ATOMIC: u64 = 1 << 4;
    /// Reading.
    pub(crate) const READ: u64 = 1 << 8;
    /// Writing.
    pub(crate) const WRITE: u64 = 1 << 9;
    /// Receiving.
    pub(crate) const RECV: u64 = 1 << 10;
    /// Sending.
    pub(crate) const SEND: u64 = 1 << 11;
    /// Being read.
    pub(crate) const REMOTE_READ: u64 = 1 << 12;
    /// Being written.
    pub(crate) const REMOTE_WRITE: u64 = 1 << 13;
    /// A buffer for many messages.
    pub(crate) const MULTI_RECV: u64 = 1 << 16;
    /// Eight bytes that come with a message.
    pub(crate) const REMOTE_CQ_DATA: u64 = 1 << 17;
    /// Look for a message.
    pub(crate) const PEEK: u64 = 1 << 19;
    /// A completion entry is wanted.
    pub(crate) const COMPLETION: u64 = 1 << 24;
    /// The buffer may be reused when the call returns.
    pub(crate) const INJECT: u64 = 1 << 25;
    /// Over when it is in the peer's memory.
    pub(crate) const DELIVERY_COMPLETE: u64 = 1 << 28;
    /// Over when the peer has matched it.
    pub(crate) const MATCH_COMPLETE: u64 = 1 << 31;
    /// Ranks of this process's own node.
    pub(crate) const LOCAL_COMM: u64 = 1 << 51;
    /// Ranks of other nodes.
    pub(crate) const REMOTE_COMM: u64 = 1 << 52;
    /// Only the provider's general attributes are asked for.
    pub(crate) const PROV_ATTR_ONLY: u64 = 1 << 54;
    /// Completions of messages name their source.
    pub(crate) const SOURCE: u64 = 1 << 57;
    /// Receives from one source.
    pub(crate) const DIRECTED_RECV: u64 = 1 << 59;
    /// As a flag of receives: take the message that was found before.
    pub(crate) const CLAIM: u64 = 1 << 59;
    /// As a flag of receives: drop it.
    pub(crate) const DISCARD: u64 = 1 << 58;
    /// As a flag of binding: completions only where [`COMPLETION`] says so.
    pub(crate) const SELECTIVE_COMPLETION: u64 = 1 << 59;
    /// As a flag of `query_atomic`: operations that give the old value.
    pub(crate) const FETCH_ATOMIC: u64 = 1 << 58;
    /// As a flag of `query_atomic`: operations that compare.
    pub(crate) const COMPARE_ATOMIC: u64 = 1 << 59;
    /// As a flag of `av_open`: insertion is told by an event.
    pub(crate) const EVENT: u64 = COMPLETION;
}

/// Error numbers. Those below 256 are those of `errno`.
pub(crate) mod errno {
    /// No entry, no message.
    pub(crate) const ENOENT: i32 = libc::ENOENT;
    /// Try again after making progress.
    pub(crate) const EAGAIN: i32 = libc::EAGAIN;
    /// No right to it.
    pub(crate) const EACCES: i32 = libc::EACCES;
    /// No memory.
    pub(crate) const ENOMEM: i32 = libc::ENOMEM;
    /// An argument that makes no sense.
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
    /// A buffer of the caller's is too small.
    pub(crate) const ETOOSMALL: i32 = 257;
    /// Not in this state of the object.
    /// An error entry waits.
    pub(crate) const EAVAIL: i32 = 259;
    /// A message was longer than its buffer.
    pub(crate) const ETRUNC: i32 = 265;
    /// No address vector is bound.
    pub(crate) const ENOAV: i32 = 267;
}

/// What kind of object a [`Fid`] begins.
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
    /// The user's.
    pub(crate) context: *mut c_void,
    /// What every object can do.
    pub(crate) ops: *const Ops,
}

/// `struct iovec`.
pub(crate) type IoVec = libc::iovec;

#[cfg(test)]
mod tests;
