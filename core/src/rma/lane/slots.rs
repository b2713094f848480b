//! The memory of a lane's requests, which it is lent with its first request.

use core::ptr::NonNull;

use super::{Lane, LaneError, SLOT, SLOTS};
use crate::hca::{HcaError, Sge};

impl Lane {
    /// Returns whether a request could not be posted because the lane has no slots. The caller
    /// lends it some, or breaks it.
    #[must_use]
    pub const fn wants_slots(&self) -> bool {
        self.wants_memory
    }

    /// Lends the lane its slots.
    ///
    /// # Safety
    ///
    /// The [`LENT`](super::LENT) bytes at `slots` are valid, and registered under `key` for this
    /// rank to read and write. Nothing else uses them until the lane's connection is closed.
    pub const unsafe fn lend(&mut self, slots: NonNull<u8>, key: u32) {
        (self.memory, self.wants_memory) = (Some((slots, key)), false);
    }

    /// Ends a lane for which there are no slots, for this reason. No request can be posted.
    pub fn lend_nothing(&mut self, error: HcaError) {
        self.breaks(LaneError::Memory(error));
        self.wants_memory = false;
    }

    /// Returns the slot of a request. It belongs to the request until [`SLOTS`] more are posted.
    /// The device's result in it may be read when the request is done.
    #[must_use]
    pub fn slot(&self, number: u64) -> NonNull<u8> {
        self.lent(number as usize % SLOTS)
    }

    /// Returns a slot by its place. Before slots are lent, no request has one.
    pub(super) const fn lent(&self, place: usize) -> NonNull<u8> {
        match self.memory {
            // SAFETY: the slot lies within the memory lent.
            Some((slots, _)) => unsafe { slots.add(place * SLOT) },
            None => NonNull::dangling(),
        }
    }

    pub(super) const fn key(&self) -> u32 {
        match self.memory {
            Some((_, key)) => key,
            None => 0,
        }
    }

    /// Returns the value that an atomic found. The request is done.
    #[must_use]
    pub fn found(&self, number: u64) -> u64 {
        self.found_in(self.slot(number))
    }

    /// Returns the number in a slot that nothing writes any more.
    pub(super) fn found_in(&self, slot: NonNull<u8>) -> u64 {
        // SAFETY: the slot lies within the memory lent and is aligned. Nothing writes it any more.
        if self.memory.is_some() { unsafe { slot.cast::<u64>().read() } } else { 0 }
    }

    /// Returns a piece of the slot of the next request.
    pub(super) fn piece(&self, length: usize) -> Sge {
        Sge { base: self.slot(self.posted + 1), length: length as u32, key: self.key() }
    }
}
