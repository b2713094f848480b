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

/// Context of the window of the locks. No communicator has it.
pub(crate) const CONTEXT: u32 = 2;

/// The locks of all processes of this node, as a window.
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
    /// The place of the process in the window.
    place: u32,
}

impl AccumulateLocks {
    /// Makes the window. All processes call this. Where it fails, it fails for all of the node.
    pub(crate) fn open(&self, world: &World) {
        // SAFETY: the front closes the window before the world ends.
        let world: &'static World = unsafe { &*core::ptr::from_ref(world) };
        let here: Vec<u32> = world.nodes().ranks_on(world.node()).collect();
        let group = world.endpoint().with_context(CONTEXT).group(&here);
        let make = |group| {
            Window::builder(&group).locks(LockDesign::TestAndSet).allocate(1).map(Shared::new)
        };
        *self.window.borrow_mut() = group.map_err(Error::from).and_then(make).ok();
    }

    /// Returns whether there are locks. Without them all windows are the host's.
    pub(crate) fn are_open(&self) -> bool {
        self.window.borrow().is_some()
    }

    pub(crate) fn close(&self) {
        *self.window.borrow_mut() = None;
    }

    /// Takes the lock of a process of this node.
    pub(crate) fn lock(&self, rank: u32) -> Result<AccumulateGuard<'_>, Error> {
        // Another thread may hold the lock while it waits for the host.
        while self.is_busy.get() {
            let_others_go_on();
        }
        let window = self.window.borrow().clone().ok_or(Error::Stopped)?;
        let place = window.group().ranks().iter().position(|other| *other == rank);
        let place = place.ok_or(Error::Stopped)? as u32;
        self.is_busy.set(true);
        let guard = AccumulateGuard { locks: self, window, place };
        guard.window.lock(LockType::Exclusive, place, Assert::NONE)?;
        // The lock call does not wait for it.
        guard.window.flush(place)?;
        Ok(guard)
    }
}

impl Drop for AccumulateGuard<'_> {
    fn drop(&mut self) {
        // An error of the lock was reported when it was taken.
        let _ = self.window.unlock(self.place);
        self.locks.is_busy.set(false);
    }
}
