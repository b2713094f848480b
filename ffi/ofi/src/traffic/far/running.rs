//! One access to memory on another node: the bytes that are in transfers, and the registrations
//! that they use.

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait::port::Port;
use strait_core::buffer::Part;
use strait_core::hca::{Access as Rights, Region};

use super::landing::{LandingBuffer, LandingBuffers, SLOT_BYTES};
use crate::abi::errno;
use crate::operation::OperationKind;
use crate::traffic::access::RemoteAccess;

/// Maximum number of registered user buffers. When it is reached, the next access waits. The rest
/// of a device's room is for regions that peers access.
const REGISTERED_MAX: usize = 64;

/// A pending access.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) access: RemoteAccess,
    pub(super) length: usize,
    /// The user's memory, or the copy of it.
    pub(super) parts: Box<[Part]>,
    /// Number of bytes in transfers.
    pub(super) begun: usize,
    /// Bytes that are prepared for a transfer and in none yet: the memory that the device reads or
    /// writes next, and its key.
    pub(super) next: Option<(Part, u32)>,
    /// Registered memory that transfers name.
    pub(super) held: VecDeque<RegisteredMemory>,
    /// The number of the last transfer.
    pub(super) last: u64,
    /// The report of the device does not suffice: the owner must confirm that the write has
    /// arrived.
    pub(super) wants_proof: bool,
    /// The copy of a buffer that has been returned to the user.
    pub(super) _copy: Option<Box<[u8]>>,
}

/// Registered memory of an access.
#[derive(Debug)]
pub(super) enum RegisteredMemory {
    Region(Region),
    /// A slot for `length` bytes of the access, from `offset` on, and the last transfer that names
    /// it.
    Slot {
        slot: LandingBuffer,
        offset: usize,
        length: usize,
        last: u64,
    },
}

impl Running {
    /// Prepares the bytes behind those in transfers: registers the user's memory, or takes a slot.
    /// Returns false when all registrations and slots are in use.
    pub(super) fn prepare(
        &mut self,
        port: &Port,
        landing: &mut Option<LandingBuffers>,
        registered: &mut usize,
    ) -> Result<bool, i32> {
        let offset = self.begun;
        if self.length > SLOT_BYTES {
            // An access that has begun continues. Otherwise each access could wait for the others.
            if *registered >= REGISTERED_MAX && self.held.is_empty() {
                return Ok(false);
            }
            let is_read = self.access.op == OperationKind::Read;
            let rights = if is_read { Rights::LOCAL } else { Rights::LOCAL_READ };
            let part = self.rest_of_part(offset);
            // SAFETY: the memory is valid until the completion (invariant of `UserBuffer`), and the
            // registration is released before.
            if let Some(region) = unsafe { port.register(part, rights) } {
                *registered += 1;
                self.next = Some((part, region.local_key));
                self.held.push_back(RegisteredMemory::Region(region));
                return Ok(true);
            }
        }
        if landing.is_none() {
            *landing = LandingBuffers::new(port);
        }
        let landing = landing.as_mut().ok_or(errno::ENOMEM)?;
        let Some(slot) = landing.take() else { return Ok(false) };
        let length = (self.length - offset).min(SLOT_BYTES);
        if self.access.op == OperationKind::Write {
            let mut to = &mut landing.bytes(&slot)[..length];
            self.pieces(offset, length, |piece| {
                let (front, rest) = core::mem::take(&mut to).split_at_mut(piece.length);
                // SAFETY: the memory is valid until the completion (invariant of `UserBuffer`), and
                // a user's buffer does not overlap this library's memory.
                unsafe {
                    let from = piece.base.as_ptr();
                    front.as_mut_ptr().copy_from_nonoverlapping(from, piece.length);
                }
                to = rest;
            });
        }
        self.next = Some(landing.part(&slot, length));
        self.held.push_back(RegisteredMemory::Slot { slot, offset, length, last: 0 });
        Ok(true)
    }

    /// Returns the slots after their bytes have been moved, so that an access of any length needs
    /// few slots.
    pub(super) fn take_landed(
        &mut self,
        port: &Port,
        landing: &mut Option<LandingBuffers>,
        rank: u32,
    ) {
        let Some(landing) = landing else { return };
        let mut place = 0;
        while let Some(held) = self.held.get(place) {
            let has_landed = matches!(held, RegisteredMemory::Slot { offset, length, last, .. }
                if offset + length <= self.begun && port.is_transferred(rank, *last));
            if !has_landed {
                place += 1;
            } else if let Some(RegisteredMemory::Slot { slot, offset, length, .. }) =
                self.held.remove(place)
            {
                self.take_out(landing, &slot, offset, length);
                landing.give_back(slot);
            }
        }
    }

    /// Copies the bytes that were read into a slot to the user's memory.
    pub(super) fn take_out(
        &self,
        landing: &mut LandingBuffers,
        slot: &LandingBuffer,
        offset: usize,
        length: usize,
    ) {
        if self.access.op != OperationKind::Read {
            return;
        }
        let mut from = &landing.bytes(slot)[..length];
        self.pieces(offset, length, |piece| {
            let (front, rest) = from.split_at(piece.length);
            // SAFETY: the memory is valid until the completion (invariant of `UserBuffer`), and a
            // user's buffer does not overlap this library's memory.
            unsafe { piece.base.as_ptr().copy_from_nonoverlapping(front.as_ptr(), front.len()) };
            from = rest;
        });
    }

    /// Returns the rest, from byte `offset` of the access on, of the part of the user's memory that
    /// contains this byte.
    fn rest_of_part(&self, offset: usize) -> Part {
        let mut rest = Part { base: NonNull::dangling(), length: 0 };
        self.pieces(offset, self.length - offset, |piece| {
            if rest.length == 0 {
                rest = piece;
            }
        });
        rest
    }

    /// Calls `act` with the pieces of the user's memory that hold `length` bytes of the access,
    /// from `offset` on.
    fn pieces(&self, offset: usize, length: usize, mut act: impl FnMut(Part)) {
        let (mut skip, mut left) = (offset, length);
        for part in &self.parts {
            let before = skip.min(part.length);
            skip -= before;
            let length = (part.length - before).min(left);
            left -= length;
            if length > 0 {
                // SAFETY: the address is within the part.
                act(Part { base: unsafe { part.base.add(before) }, length });
            }
        }
    }
}
