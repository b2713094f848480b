//! Private memory from the system allocator, and the engine that uses it.

use core::alloc::Layout;
use core::ptr::NonNull;

use strait_core::engine::Engine;
use strait_core::memory::Memory;

/// The engine of a rank.
pub(crate) type ShmEngine = Engine<SystemMemory>;

/// Memory from the process's global allocator, for the data of the core.
#[derive(Clone, Copy, Debug)]
pub struct SystemMemory;

// SAFETY: the global allocator meets the requirements of the trait: aligned, unshared memory of at
// least the size of the layout, until it is released.
unsafe impl Memory for SystemMemory {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the callers of the trait never ask for a zero-sized layout.
        NonNull::new(unsafe { std::alloc::alloc(layout) })
    }

    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that the memory came from `allocate` with this layout
        // (contract of `release`).
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
    }
}
