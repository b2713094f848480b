//! Private memory from the system allocator.

use core::alloc::Layout;
use core::ptr::NonNull;

use strait_core::memory::Memory;

/// Memory from the process's global allocator, for what the core keeps.
#[derive(Clone, Copy, Debug)]
pub struct SystemMemory;

// SAFETY: the global allocator gives what the trait demands.
unsafe impl Memory for SystemMemory {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the trait's callers ask for no zero-sized layout.
        NonNull::new(unsafe { std::alloc::alloc(layout) })
    }

    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: by the trait's contract the memory came from `allocate` with this layout.
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
    }
}
