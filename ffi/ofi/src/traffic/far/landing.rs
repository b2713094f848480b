//! Registered memory of the provider, through which short accesses go.
//!
//! A registration costs more than a copy of a few kilobytes, and a device has room for a limited
//! number of registrations. So a short access goes through a slot of memory that is registered
//! once. So does a long access if its own memory cannot be registered. When all slots are in use,
//! accesses wait until one is free.

use core::ptr::NonNull;

use strait::port::Port;
use strait_core::buffer::Part;
use strait_core::hca::{Access as Rights, Region};

/// Size of a slot in bytes.
pub(super) const SLOT_BYTES: usize = 4096;

const SLOTS: usize = 64;

/// A slot, by its number.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct LandingBuffer(usize);

/// All slots.
#[derive(Debug)]
pub(super) struct LandingBuffers {
    memory: Box<[u8]>,
    region: Region,
    free: Vec<usize>,
}

impl LandingBuffers {
    /// Registers the slots. Returns `None` when the device refuses.
    pub(super) fn new(port: &Port) -> Option<Self> {
        let mut memory = vec![0; SLOTS * SLOT_BYTES].into_boxed_slice();
        let part = Part { base: NonNull::from(&mut *memory).cast(), length: memory.len() };
        // SAFETY: the memory lives until `close`, and is not accessed while a transfer names it.
        let region = unsafe { port.register(part, Rights::LOCAL) }?;
        Some(Self { memory, region, free: (0..SLOTS).rev().collect() })
    }

    /// Takes a free slot.
    pub(super) fn take(&mut self) -> Option<LandingBuffer> {
        self.free.pop().map(LandingBuffer)
    }

    /// Returns a slot that no transfer names any more.
    pub(super) fn give_back(&mut self, LandingBuffer(number): LandingBuffer) {
        self.free.push(number);
    }

    /// Returns the bytes of a slot that no transfer names.
    pub(super) fn bytes(&mut self, LandingBuffer(number): &LandingBuffer) -> &mut [u8] {
        &mut self.memory[number * SLOT_BYTES..][..SLOT_BYTES]
    }

    /// Returns the first `length` bytes of a slot, and the device's key for them.
    pub(super) fn part(&mut self, slot: &LandingBuffer, length: usize) -> (Part, u32) {
        let base = NonNull::from(self.bytes(slot)).cast();
        (Part { base, length }, self.region.local_key)
    }

    /// Releases the registration. No transfer names a slot any more.
    pub(super) fn close(self, port: &Port) {
        port.release(self.region);
    }
}
