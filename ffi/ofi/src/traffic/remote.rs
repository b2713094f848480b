//! Reading and writing the memory of others, which takes no part of theirs: the kernel copies, when the access has been checked
//! against the region of its key. For memory elsewhere see [`far`](super::far).

use core::ffi::c_void;

use strait::port::CopyError;
use strait_core::hca::Access as Rights;
use strait_core::lmt::Direction;

use super::{Op, Traffic};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::Buffer;
use crate::regions::{self, Registered};
use crate::wire::{HAS_DATA, Head, Kind};

/// A read or write of remote memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) op: Op,
    pub(crate) rank: u32,
    /// The first byte, by the address that it has for its owner.
    pub(crate) address: u64,
    /// The owner's name of the region.
    pub(crate) key: u64,
    /// What its owner is told.
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
    /// Without a completion entry.
    pub(crate) quiet: bool,
    /// The buffer may be reused when the call returns.
    pub(crate) inject: bool,
}

impl Traffic {
    /// Does all of it; if the memory is elsewhere, begins.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion, of an injected one until this returns; and for an access to this process's own,
    /// that too.
    pub(crate) unsafe fn access(&mut self, access: Access, buffer: &Buffer) -> Ssize {
        // The access would overtake them.
        if self.has_atomics(access.rank) {
            self.progress();
            return -(errno::EAGAIN as Ssize);
        }
        if self.port.is_elsewhere(access.rank) {
            // SAFETY: by the contract.
            return unsafe { self.access_far(access, buffer) };
        }
        // SAFETY: by the contract.
        let done = unsafe { self.copy(access, buffer) };
        self.accessed(&access, buffer.length(), done.err().unwrap_or(0));
        0
    }

    /// An access is over, well if `error` is zero.
    pub(super) fn accessed(&mut self, access: &Access, length: usize, error: i32) {
        let direction = if access.op == Op::Read { flag::READ } else { flag::WRITE };
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
            let head = Head { tag: length as u64, data };
            // Whoever is gone need not know.
            let _ = self.tell(access.rank, Kind::Written.key(HAS_DATA), head, &[]);
        }
        self.out.complete(access.op, entry, access.quiet, access.rank);
    }

    /// Copies, if the access suits the region of its key.
    ///
    /// # Errors
    ///
    /// One of libfabric's.
    ///
    /// # Safety
    ///
    /// As for [`Traffic::access`].
    unsafe fn copy(&self, access: Access, buffer: &Buffer) -> Result<(), i32> {
        let Access { op, rank, address, key, .. } = access;
        if rank == self.port.rank() {
            // SAFETY: a domain outlives what was made in it.
            let found = unsafe { &*self.domain }.region(key);
            let suits = |it: &Registered| it.holds(address, buffer.length()) && op.may(it.access);
            found.filter(suits).ok_or(errno::EACCES)?;
            // SAFETY: by the contract, and registered.
            unsafe { copy_own(op, address, buffer) };
            return Ok(());
        }
        let direction = if op == Op::Read { Direction::Read } else { Direction::Write };
        // SAFETY: by the contract.
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

impl Op {
    /// Whether these rights allow it.
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
/// Both are valid for it.
unsafe fn copy_own(op: Op, address: u64, buffer: &Buffer) {
    let mut there = core::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    for part in buffer.parts() {
        // SAFETY: by the contract.
        unsafe {
            if op == Op::Read {
                part.base.as_ptr().copy_from(there, part.length);
            } else {
                there.copy_from(part.base.as_ptr(), part.length);
            }
            there = there.add(part.length);
        }
    }
}
