//! Private memory from the system allocator, and what is in use of it.

use core::alloc::Layout;
use core::ptr::NonNull;

use strait_core::memory::Memory;
use strait_core::progress::{Held, InUse, Rtrs};

use crate::{Error, World};

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

impl World {
    /// Private memory that messages take which nobody has received yet, of all sources together, and the most it has been.
    /// `STRAIT_UNEXPECTED_MAX` bounds it for each source; what that source had handed over by then comes on top.
    #[must_use]
    pub fn held(&self) -> Held {
        self.turn().held()
    }

    /// What became of the requests to receive, by which receivers of large messages that come first ask for them.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.
    #[must_use]
    pub fn rtrs(&self) -> Rtrs {
        self.turn().rtrs()
    }

    /// What the engine has under way: for tests that look for something lost.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`].
    #[doc(hidden)]
    pub fn in_use(&self) -> Result<InUse, Error> {
        self.turn().in_use().map_err(Error::Corrupt)
    }
}
