//! What a wait of a window does before it sleeps: it lets the host progress, and other threads call
//! MPI.

use core::cell::RefCell;
use std::sync::MutexGuard;

use crate::front::state::{self, Entered};

thread_local! {
    /// The lock of the call of a window that this thread is in.
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Lets the host progress. Returns whether the wait need not sleep: while it let the lock go,
/// another thread may have changed what it waits for.
pub(crate) fn before_sleep() -> bool {
    let held = HELD.with(RefCell::take);
    let is_locked = held.is_some();
    // A wait that has no lock to let go is in a program without other threads that call MPI, or
    // the front has ended.
    state::with_lock_held(|front| {
        drop(held);
        front.poll_host();
        if !is_locked {
            front.requests.look_at_orphans(front);
        }
    });
    if is_locked {
        std::thread::yield_now();
        let again = crate::front::lock::lock();
        HELD.with(|place| place.replace(Some(again)));
    }
    is_locked
}

/// Calls a function of the program or of the host without the lock of the call that this thread is
/// in.
pub(crate) fn without_lock<R>(act: impl FnOnce() -> R) -> R {
    let is_locked = HELD.with(RefCell::take).is_some();
    let result = act();
    if is_locked {
        let again = crate::front::lock::lock();
        HELD.with(|place| place.replace(Some(again)));
    }
    result
}

/// A call that may wait in Strait. [`before_sleep`] may let its lock go.
pub(crate) struct Waiting {
    front: Entered,
}

impl Waiting {
    pub(crate) fn begin(mut front: Entered) -> Self {
        if let Some(guard) = front.guard.take() {
            HELD.with(|place| place.replace(Some(guard)));
        }
        Self { front }
    }
}

impl core::ops::Deref for Waiting {
    type Target = Entered;

    fn deref(&self) -> &Entered {
        &self.front
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(HELD.with(RefCell::take));
    }
}

/// Lets another thread go on that has something which this one waits for.
pub(crate) fn let_others_go_on() {
    if !before_sleep() {
        std::thread::yield_now();
    }
}
