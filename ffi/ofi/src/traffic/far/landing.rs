//! Registered memory of the provider's own, through which short accesses go.
//!
//! To register memory costs more than to copy a few kilobytes, and a device has room for a limited number of registrations. So a
//! short access goes through a slot of memory that is registered once, and a long one does where its own memory cannot be
//! registered. When all slots are in use, accesses wait until one is free.

use core::ptr::NonNull;

use strait::port::Port;
use strait_core::hca::{Access as Rights, Region};
use strait_core::progress::Part;

/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = 4096;

const SLOTS: usize = 64;

/// A slot, by its number.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Slot(usize);

/// All slots.
#[derive(Debug)]
pub(super) struct Landing {
    memory: Box<[u8]>,
    region: Region,
    free: Vec<usize>,
}

impl Landing {
    /// Registers the slots. `None`: the device does not let it.
    pub(super) fn new(port: &Port) -> Option<Self> {
        let mut memory = vec![0; SLOTS * SLOT_BYTES].into_boxed_slice();
        let part = Part { base: NonNull::from(&mut *memory).cast(), length: memory.len() };
        // SAFETY: the memory is kept until `close`, and is touched while no transfer names it.
        let region = unsafe { port.register(part, Rights::LOCAL) }?;
        Some(Self { memory, region, free: (0..SLOTS).rev().collect() })
    }

    /// Takes a free slot.
    pub(super) fn take(&mut self) -> Option<Slot> {
        self.free.pop().map(Slot)
    }

    /// Gives a slot back that no transfer names any more.
    pub(super) fn give_back(&mut self, Slot(number): Slot) {
        self.free.push(number);
    }

    /// The bytes of a slot that no transfer names.
    pub(super) fn bytes(&mut self, Slot(number): &Slot) -> &mut [u8] {
        &mut self.memory[number * SLOT_BYTES..][..SLOT_BYTES]
    }

    /// The first `length` bytes of a slot, and the device's key of them.
    pub(super) fn part(&mut self, slot: &Slot, length: usize) -> (Part, u32) {
        let base = NonNull::from(self.bytes(slot)).cast();
        (Part { base, length }, self.region.local_key)
    }

    /// Gives the registration back. No transfer names a slot any more.
    pub(super) fn close(self, port: &Port) {
        port.release(self.region);
    }
}
