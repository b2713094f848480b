//! Reads and writes of the memory of other processes on this node, in which the owners take no
//! part: the kernel copies after the access has been checked against the region of its key. The
//! module [`far`](super::far) is for memory on other nodes.

use core::ffi::c_void;

use strait::port::CopyError;
use strait_core::buffer::Direction;
use strait_core::hca::Access as Rights;

use super::{OperationKind, Traffic};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::UserBuffer;
use crate::regions::{self, MrEntry};
use crate::wire::{HAS_DATA, HeadKind, ProviderHead};

/// A read or write of remote memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAccess {
    pub(crate) op: OperationKind,
    pub(crate) rank: u32,
    /// The address of the first byte in the owner's process.
    pub(crate) address: u64,
    /// The owner's key of the region.
    pub(crate) key: u64,
    /// The data that the owner's completion reports.
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
    /// The buffer may be reused when the call returns.
    pub(crate) inject: bool,
}

impl Traffic {
    /// Performs the access, or starts it if the memory is on another node.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion, or until this returns if the access
    /// injects. For an access to this process's own memory, that memory is valid as well.
    pub(crate) unsafe fn access(&mut self, access: RemoteAccess, buffer: &UserBuffer) -> Ssize {
        // The access would overtake the atomic operations.
        if self.has_atomics(access.rank) {
            self.progress();
            return -(errno::EAGAIN as Ssize);
        }
        if self.port.is_elsewhere(access.rank) {
            // SAFETY: the user's memory is valid for as long as `access_far` asks (contract of
            // `access`).
            return unsafe { self.access_far(access, buffer) };
        }
        // SAFETY: the user's memory is valid (contract of `access`).
        let done = unsafe { self.copy(access, buffer) };
        self.accessed(&access, buffer.length(), done.err().unwrap_or(0));
        0
    }

    /// Ends an access, which succeeded if `error` is zero.
    pub(super) fn accessed(&mut self, access: &RemoteAccess, length: usize, error: i32) {
        let direction = if access.op == OperationKind::Read { flag::READ } else { flag::WRITE };
        let entry = CqEntry {
            op_context: access.context,
            flags: flag::RMA | direction,
            len: length,
            buf: core::ptr::null_mut(),
            data: 0,
            tag: 0,
        };
        if error != 0 {
            self.out.fail(access.op, entry, 0, error);
            return;
        }
        if let Some(data) = access.data {
            let head = ProviderHead { tag: length as u64, data };
            // A peer that is gone needs no message.
            let _ = self.tell(access.rank, HeadKind::Written.key(HAS_DATA), head, &[]);
        }
        self.out.complete(access.op, entry, access.quiet, access.rank);
    }

    /// Copies, if the access fits the region of its key.
    ///
    /// # Errors
    ///
    /// One of libfabric's.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until this returns, and so is this process's own memory if the
    /// access reaches it.
    unsafe fn copy(&self, access: RemoteAccess, buffer: &UserBuffer) -> Result<(), i32> {
        let RemoteAccess { op, rank, address, key, .. } = access;
        if rank == self.port.rank() {
            // SAFETY: a domain outlives its endpoints.
            let found = unsafe { &*self.domain }.region(key);
            let suits = |it: &MrEntry| it.holds(address, buffer.length()) && op.may(it.access);
            found.filter(suits).ok_or(errno::EACCES)?;
            // SAFETY: the buffer is valid (contract of `copy`), and the memory is registered.
            unsafe { copy_own(op, address, buffer) };
            return Ok(());
        }
        let direction = if op == OperationKind::Read { Direction::Read } else { Direction::Write };
        // SAFETY: the buffer is valid (contract of `copy`).
        let copied = unsafe {
            self.port.copy(rank, direction, (regions::place(key), address), buffer.parts())
        };
        copied.map_err(|error| match error {
            CopyError::Region(_) if self.port.gone(rank).is_some() => errno::ECONNRESET,
            CopyError::Region(_) => errno::EACCES,
            CopyError::Refused(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                errno::ECONNRESET
            }
            CopyError::Refused(_) => errno::EFAULT,
        })
    }
}

impl OperationKind {
    /// Returns whether these rights allow it.
    pub(super) const fn may(self, rights: Rights) -> bool {
        match self {
            Self::Read => rights.remote_read,
            _ => rights.remote_write,
        }
    }
}

/// Copies between a buffer and memory of this process from `address` on. The two may overlap.
///
/// # Safety
///
/// Both are valid for the copy.
unsafe fn copy_own(op: OperationKind, address: u64, buffer: &UserBuffer) {
    let mut there = core::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    for part in buffer.parts() {
        // SAFETY: both are valid (contract of `copy_own`).
        unsafe {
            if op == OperationKind::Read {
                part.base.as_ptr().copy_from(there, part.length);
            } else {
                there.copy_from(part.base.as_ptr(), part.length);
            }
            there = there.add(part.length);
        }
    }
}
