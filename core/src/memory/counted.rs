//! The system allocator with a ledger, for tests: it can refuse, and it tells when something was kept.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;
use std::alloc;
use std::rc::Rc;

use super::Memory;

/// A [`Memory`] that counts. Clones share one ledger.
#[derive(Clone, Default)]
pub(crate) struct Counted(Rc<Ledger>);

#[derive(Default)]
struct Ledger {
    asked: Cell<u32>,
    lent_bytes: Cell<usize>,
    refusing: Cell<bool>,
}

impl Counted {
    /// Runs `test` and asserts that whatever it borrowed was released.
    pub(crate) fn lend(test: impl FnOnce(Self)) {
        let memory = Self::default();
        test(memory.clone());
        assert_eq!(memory.0.lent_bytes.get(), 0, "bytes were not released");
    }

    /// Whether to refuse all memory from now on.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.0.refusing.set(refuse);
    }

    /// How often memory was asked for, refusals included.
    pub(crate) fn asked(&self) -> u32 {
        self.0.asked.get()
    }
}

// SAFETY: memory is passed on from the system allocator as it is, with the layout that was asked for.
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
        // SAFETY: by the contract of `release`, from `allocate` above with this layout.
        unsafe { alloc::dealloc(memory.as_ptr(), layout) }
    }
}
