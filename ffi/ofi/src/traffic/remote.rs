//! Reading and writing the memory of others, which takes no part of theirs: the kernel copies. For memory elsewhere see
//! [`far`](super::far).

use core::ffi::c_void;
use std::io;

use strait::port::Piece;
use strait_core::lmt::Direction;

use super::{Op, Traffic};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::Buffer;
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
        let error = done.err().map_or(0, |error| {
            let gone = error.raw_os_error() == Some(libc::ESRCH);
            if gone { errno::ECONNRESET } else { errno::EFAULT }
        });
        self.accessed(&access, buffer.length(), error);
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

    /// # Safety
    ///
    /// As for [`Traffic::access`].
    unsafe fn copy(&self, access: Access, buffer: &Buffer) -> io::Result<()> {
        let mut remote = access.address;
        let pieces = buffer.parts().iter().map(|part| {
            let piece = Piece { local: part.base, remote, length: part.length };
            remote = remote.wrapping_add(part.length as u64);
            piece
        });
        let reads = access.op == Op::Read;
        if access.rank == self.port.rank() {
            for Piece { local, remote, length } in pieces {
                let there = core::ptr::with_exposed_provenance_mut::<u8>(remote as usize);
                // SAFETY: by the contract. The two may overlap.
                unsafe {
                    if reads {
                        local.as_ptr().copy_from(there, length);
                    } else {
                        there.copy_from(local.as_ptr(), length);
                    }
                }
            }
            return Ok(());
        }
        let direction = if reads { Direction::Read } else { Direction::Write };
        // SAFETY: by the contract.
        unsafe { self.port.copy(access.rank, direction, pieces) }
    }
}
