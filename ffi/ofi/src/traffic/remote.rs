//! Reads and writes of the memory of other processes on this node, in which the owners take no
//! part: the kernel copies after the access has been checked against the region of its key. The
//! module [`far`](super::far) is for memory on other nodes.

use strait::port::CopyError;
use strait_core::buffer::Direction;

use super::Traffic;
use super::access::RemoteAccess;
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::UserBuffer;
use crate::cause::ErrorCause;
use crate::operation::OperationKind;
use crate::regions::{self, MrEntry};
use crate::wire::{HAS_DATA, HeadKind, ProviderHead};

impl Traffic {
    /// Performs the access, or starts it if the memory is on another node.
    pub(crate) fn access(&mut self, access: RemoteAccess, buffer: &UserBuffer) -> Ssize {
        // The access would overtake the atomic operations.
        if self.has_atomics(access.rank) {
            self.progress();
            return -(errno::EAGAIN as Ssize);
        }
        if self.port.is_elsewhere(access.rank) {
            return self.access_far(access, buffer);
        }
        let done = self.copy(access, buffer);
        self.accesses = self.accesses.wrapping_add(1);
        self.accessed(&access, buffer.length(), done.err());
        0
    }

    /// Ends an access, which failed if there is a cause.
    pub(super) fn accessed(
        &mut self,
        access: &RemoteAccess,
        length: usize,
        cause: Option<ErrorCause>,
    ) {
        let direction = if access.op == OperationKind::Read { flag::READ } else { flag::WRITE };
        let entry = CqEntry {
            op_context: access.context,
            flags: flag::RMA | direction,
            len: length,
            buf: core::ptr::null_mut(),
            data: 0,
            tag: 0,
        };
        if let Some(cause) = cause {
            self.out.fail(access.op, entry, 0, cause);
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
    fn copy(&self, access: RemoteAccess, buffer: &UserBuffer) -> Result<(), ErrorCause> {
        let RemoteAccess { op, rank, address, key, .. } = access;
        if rank == self.port.rank() {
            let found = self.domain.region(key);
            let suits = |it: &MrEntry| it.holds(address, buffer.length()) && op.may(it.access);
            found.filter(suits).ok_or(ErrorCause::Access)?;
            // SAFETY: the user registered the memory.
            unsafe { copy_own(op, address, buffer) };
            return Ok(());
        }
        let direction = if op == OperationKind::Read { Direction::Read } else { Direction::Write };
        // SAFETY: the buffer is valid until the operation ends (invariant of `UserBuffer`).
        let copied = unsafe {
            self.port.copy(rank, direction, (regions::place(key), address), buffer.parts())
        };
        copied.map_err(|error| match error {
            CopyError::Region(_) if self.port.gone(rank).is_some() => self.cause_of_end(rank),
            CopyError::Region(_) => ErrorCause::Access,
            CopyError::Refused(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                self.cause_of_end(rank)
            }
            CopyError::Refused(_) => ErrorCause::Number(errno::EFAULT),
        })
    }
}

/// Copies between a buffer and memory of this process from `address` on. The two may overlap.
///
/// # Safety
///
/// This process's own memory is valid for the copy.
unsafe fn copy_own(op: OperationKind, address: u64, buffer: &UserBuffer) {
    let mut there = core::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    for part in buffer.parts() {
        // SAFETY: both are valid (contract of `copy_own`, invariant of `UserBuffer`).
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
