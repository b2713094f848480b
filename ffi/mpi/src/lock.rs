//! The lock before the state of the front.
//!
//! A program that asked for `MPI_THREAD_MULTIPLE` takes the lock in each call. It is let go before
//! each call of the host that may run code of the program, and between the looks of a wait.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether calls take the lock.
static LOCKED: AtomicBool = AtomicBool::new(false);

static LOCK: Mutex<()> = Mutex::new(());

/// Takes the lock, whatever a thread that held it did.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether calls take the lock.
#[inline(always)]
pub(crate) fn is_locked() -> bool {
    LOCKED.load(Relaxed)
}

/// Makes calls take the lock, or not. Returns whether they did before.
pub(crate) fn set_locked(locked: bool) -> bool {
    LOCKED.swap(locked, Relaxed)
}
