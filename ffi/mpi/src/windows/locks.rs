//! Locks for accumulates on what Strait knows no numbers of: pairs, complex numbers, logical
//! values, long floating-point numbers, and numbers at odd addresses.
//!
//! Each process has one lock. A program's accumulates of one type at one place always take the
//! same way, so they are atomic to each other.

use core::cell::Cell;
use core::cell::RefCell;

use strait::{Assert, Error, LockDesign, LockType, Window, World};

use super::pause::let_others_go_on;
use crate::front::shared::Shared;

/// The locks of all processes, as a window.
#[derive(Default)]
pub(crate) struct AccumulateLocks {
    window: RefCell<Option<Shared<Window<'static>>>>,
    /// Whether a call of this process holds a lock, or waits for it.
    is_busy: Cell<bool>,
}

/// A lock that is held.
pub(crate) struct AccumulateGuard<'a> {
    locks: &'a AccumulateLocks,
    window: Shared<Window<'static>>,
    rank: u32,
}

impl AccumulateLocks {
    /// Makes the window. All processes call this. Where it fails, it fails for all of them.
    pub(crate) fn open(&self, world: &World) {
        // SAFETY: the front closes the window before the world ends.
        let world: &'static World = unsafe { &*core::ptr::from_ref(world) };
        let builder = Window::builder(world.endpoint()).locks(LockDesign::TestAndSet);
        *self.window.borrow_mut() = builder.allocate(1).ok().map(Shared::new);
    }

    /// Returns whether there are locks. Without them all windows are the host's.
    pub(crate) fn are_open(&self) -> bool {
        self.window.borrow().is_some()
    }

    pub(crate) fn close(&self) {
        *self.window.borrow_mut() = None;
    }

    /// Takes the lock of a process.
    pub(crate) fn lock(&self, rank: u32) -> Result<AccumulateGuard<'_>, Error> {
        // Another thread may hold the lock while it waits for the host.
        while self.is_busy.get() {
            let_others_go_on();
        }
        let window = self.window.borrow().clone().ok_or(Error::Stopped)?;
        self.is_busy.set(true);
        let guard = AccumulateGuard { locks: self, window, rank };
        guard.window.lock(LockType::Exclusive, rank, Assert::NONE)?;
        // The lock call does not wait for it.
        guard.window.flush(rank)?;
        Ok(guard)
    }
}

impl Drop for AccumulateGuard<'_> {
    fn drop(&mut self) {
        // An error of the lock was reported when it was taken.
        let _ = self.window.unlock(self.rank);
        self.locks.is_busy.set(false);
    }
}
