//! The system allocator with a ledger, for tests. It can refuse requests, and it detects memory
//! that was not released.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;
use std::alloc;
use std::rc::Rc;

use super::Memory;

/// A [`Memory`] that counts requests and lent bytes. Clones share one ledger.
#[derive(Clone, Default)]
pub(crate) struct Counted(Rc<Ledger>);

#[derive(Default)]
struct Ledger {
    asked: Cell<u32>,
    lent_bytes: Cell<usize>,
    refusing: Cell<bool>,
}

impl Counted {
    /// Runs `test` and asserts that all memory it borrowed was released.
    pub(crate) fn lend(test: impl FnOnce(Self)) {
        let memory = Self::default();
        test(memory.clone());
        assert_eq!(memory.0.lent_bytes.get(), 0, "bytes were not released");
    }

    /// Sets whether all later requests are refused.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.0.refusing.set(refuse);
    }

    /// Returns the number of requests for memory, including refused ones.
    pub(crate) fn asked(&self) -> u32 {
        self.0.asked.get()
    }
}

// SAFETY: the memory comes unchanged from the system allocator, with the requested layout.
unsafe impl Memory for Counted {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.asked.update(|count| count + 1);
        if self.0.refusing.get() {
            return None;
        }
        assert_ne!(layout.size(), 0);
        // SAFETY: the size is not zero.
        let memory = NonNull::new(unsafe { alloc::alloc(layout) })?;
        self.0.lent_bytes.update(|bytes| bytes + layout.size());
        Some(memory)
    }

    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
        self.0.lent_bytes.update(|bytes| bytes - layout.size());
        // SAFETY: the caller guarantees that `memory` came from `allocate` with this layout
        // (contract of `release`).
        unsafe { alloc::dealloc(memory.as_ptr(), layout) }
    }
}
