//! One access to memory elsewhere: which of its bytes are in transfers, and what these name.

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait::port::Port;
use strait_core::hca::{Access as Rights, Region};
use strait_core::progress::Part;

use super::landing::{Landing, SLOT_BYTES, Slot};
use crate::abi::errno;
use crate::traffic::{Access, Op};

/// Number of users' buffers that are registered at a time before the next access waits. The rest of a device's room is for what
/// peers reach.
const REGISTERED_MAX: usize = 64;

/// An access that is under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) access: Access,
    pub(super) length: usize,
    /// The user's memory, or the copy of it.
    pub(super) parts: Box<[Part]>,
    /// Bytes that are in transfers.
    pub(super) begun: usize,
    /// Bytes that are prepared for transfers and not in them: what the device is to read or write next, and its key of it.
    pub(super) next: Option<(Part, u32)>,
    /// What transfers name.
    pub(super) held: VecDeque<Held>,
    /// The last transfer.
    pub(super) last: u64,
    /// The device's word is not enough: the owner has to say that it has what was written.
    pub(super) wants_proof: bool,
    /// Of a buffer that the user has back already.
    pub(super) _copy: Option<Box<[u8]>>,
}

/// Registered memory of an access.
#[derive(Debug)]
pub(super) enum Held {
    Region(Region),
    /// A slot for `length` bytes of the access, from `offset` on, and the last transfer that names it.
    Slot {
        slot: Slot,
        offset: usize,
        length: usize,
        last: u64,
    },
}

impl Running {
    /// Prepares the bytes behind those that are in transfers: registers the user's memory, or takes a slot. False: all of that is
    /// in use.
    pub(super) fn prepare(
        &mut self,
        port: &Port,
        landing: &mut Option<Landing>,
        registered: &mut usize,
    ) -> Result<bool, i32> {
        let offset = self.begun;
        if self.length > SLOT_BYTES {
            // An access that has begun goes on, or each could wait for the others.
            if *registered >= REGISTERED_MAX && self.held.is_empty() {
                return Ok(false);
            }
            let is_read = self.access.op == Op::Read;
            let rights = if is_read { Rights::LOCAL } else { Rights::LOCAL_READ };
            let part = self.rest_of_part(offset);
            // SAFETY: by the contract of `access_far`; it is released when the access is over.
            if let Some(region) = unsafe { port.register(part, rights) } {
                *registered += 1;
                self.next = Some((part, region.local_key));
                self.held.push_back(Held::Region(region));
                return Ok(true);
            }
        }
        if landing.is_none() {
            *landing = Landing::new(port);
        }
        let landing = landing.as_mut().ok_or(errno::ENOMEM)?;
        let Some(slot) = landing.take() else { return Ok(false) };
        let length = (self.length - offset).min(SLOT_BYTES);
        if self.access.op == Op::Write {
            let mut to = &mut landing.bytes(&slot)[..length];
            self.pieces(offset, length, |piece| {
                let (front, rest) = core::mem::take(&mut to).split_at_mut(piece.length);
                // SAFETY: by the contract of `access_far`; a user's buffer does not overlap ours.
                unsafe {
                    let from = piece.base.as_ptr();
                    front.as_mut_ptr().copy_from_nonoverlapping(from, piece.length);
                }
                to = rest;
            });
        }
        self.next = Some(landing.part(&slot, length));
        self.held.push_back(Held::Slot { slot, offset, length, last: 0 });
        Ok(true)
    }

    /// Gives back the slots whose bytes have been moved, so that an access of any length gets through few.
    pub(super) fn take_landed(&mut self, port: &Port, landing: &mut Option<Landing>, rank: u32) {
        let Some(landing) = landing else { return };
        let mut place = 0;
        while let Some(held) = self.held.get(place) {
            let has_landed = matches!(held, Held::Slot { offset, length, last, .. }
                if offset + length <= self.begun && port.is_transferred(rank, *last));
            if !has_landed {
                place += 1;
            } else if let Some(Held::Slot { slot, offset, length, .. }) = self.held.remove(place) {
                self.take_out(landing, &slot, offset, length);
                landing.give_back(slot);
            }
        }
    }

    /// Copies what was read into a slot to the user's memory.
    pub(super) fn take_out(
        &self,
        landing: &mut Landing,
        slot: &Slot,
        offset: usize,
        length: usize,
    ) {
        if self.access.op != Op::Read {
            return;
        }
        let mut from = &landing.bytes(slot)[..length];
        self.pieces(offset, length, |piece| {
            let (front, rest) = from.split_at(piece.length);
            // SAFETY: by the contract of `access_far`; a user's buffer does not overlap ours.
            unsafe { piece.base.as_ptr().copy_from_nonoverlapping(front.as_ptr(), front.len()) };
            from = rest;
        });
    }

    /// What is left of the part of the user's memory in which byte `offset` of the access lies.
    fn rest_of_part(&self, offset: usize) -> Part {
        let mut rest = Part { base: NonNull::dangling(), length: 0 };
        self.pieces(offset, self.length - offset, |piece| {
            if rest.length == 0 {
                rest = piece;
            }
        });
        rest
    }

    /// The pieces of the user's memory in which `length` bytes of the access lie, from `offset` on.
    fn pieces(&self, offset: usize, length: usize, mut act: impl FnMut(Part)) {
        let (mut skip, mut left) = (offset, length);
        for part in &self.parts {
            let before = skip.min(part.length);
            skip -= before;
            let length = (part.length - before).min(left);
            left -= length;
            if length > 0 {
                // SAFETY: within the part.
                act(Part { base: unsafe { part.base.add(before) }, length });
            }
        }
    }
}
