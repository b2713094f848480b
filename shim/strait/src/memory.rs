//! Private memory from the system allocator, and counts of its use.

use core::alloc::Layout;
use core::ptr::NonNull;

use strait_core::engine::{InUse, Rtrs, UnexpectedUsage};
use strait_core::memory::Memory;

use crate::{Error, World};

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

impl World {
    /// Returns the private memory that unexpected messages of all sources take now, and the most
    /// that they have taken. `STRAIT_UNEXPECTED_MAX` bounds it for each source. Messages that the
    /// source had handed over before the limit was reached are additional.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// println!("{:?}", world.held());
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn held(&self) -> UnexpectedUsage {
        self.lock_progress().held()
    }

    /// Returns counts of the outcomes of RTRs. A receiver that comes first asks for a large message
    /// with an RTR.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// println!("{:?}", world.rtrs());
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.
    #[must_use]
    pub fn rtrs(&self) -> Rtrs {
        self.lock_progress().rtrs()
    }

    /// Returns counts of the objects that the engine uses, for tests that look for leaks.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`].
    #[doc(hidden)]
    pub fn in_use(&self) -> Result<InUse, Error> {
        self.lock_progress().in_use().map_err(Error::Corrupt)
    }
}
