//! A thread that makes progress of ours while the program waits inside a function of the host's.
//!
//! A peer may need our progress before it can enter that function too: it waits until a large
//! message of ours, or to us, has gone. So the thread runs while an operation of ours is open, or
//! the job spans nodes ([`needs_progress`](state::Front::needs_progress)), and only then. It looks
//! every now and then, since it may share the processor with the wait.

use core::cell::RefCell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
use core::time::Duration;
use std::sync::OnceLock;
use std::thread::{self, Thread};

use super::state;

/// Time between two looks.
const PAUSE: Duration = Duration::from_micros(20);

/// Number of calls for which the thread makes progress. It reads it while it holds the lock.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Whether calls took the lock before the first of these.
static LOCKED_BEFORE: AtomicBool = AtomicBool::new(false);

/// Whether the thread shall end.
static ENDED: AtomicBool = AtomicBool::new(false);

static THREAD: OnceLock<Option<Thread>> = OnceLock::new();

thread_local! {
    static HANDLE: RefCell<Option<thread::JoinHandle<()>>> = const { RefCell::new(None) };
}

fn work() {
    while !ENDED.load(Relaxed) {
        let guard = crate::front::lock::lock();
        if CALLS.load(Relaxed) > 0 {
            // The call that waits for an operation that fails reports it.
            state::with_lock_held(|front| front.poll().ok());
            drop(guard);
            thread::sleep(PAUSE);
        } else {
            drop(guard);
            thread::park();
        }
    }
}

fn thread() -> Option<&'static Thread> {
    let start = || {
        let handle = thread::Builder::new().name("strait-mpi".to_owned()).spawn(work).ok()?;
        let thread = handle.thread().clone();
        HANDLE.with(|place| place.replace(Some(handle)));
        Some(thread)
    };
    THREAD.get_or_init(start).as_ref()
}

/// The time that this thread spends inside a function of the host's.
#[must_use]
pub(crate) struct InsideHost {
    has_helper: bool,
}

/// Begins a call of the host's that may wait for peers. The caller holds no lock.
#[inline]
pub(crate) fn inside_host() -> InsideHost {
    let needs_helper = state::enter().is_some_and(|front| front.needs_progress());
    InsideHost { has_helper: needs_helper && begin() }
}

/// Lets the thread make progress. Returns false if the system refuses it.
#[cold]
#[inline(never)]
fn begin() -> bool {
    let Some(thread) = thread() else { return false };
    let guard = crate::front::lock::lock();
    if CALLS.fetch_add(1, Relaxed) == 0 {
        LOCKED_BEFORE.store(state::set_locked(true), Relaxed);
    }
    drop(guard);
    thread.unpark();
    true
}

impl Drop for InsideHost {
    fn drop(&mut self) {
        if !self.has_helper {
            return;
        }
        let _guard = crate::front::lock::lock();
        if CALLS.fetch_sub(1, Relaxed) == 1 {
            state::set_locked(LOCKED_BEFORE.load(Relaxed));
        }
    }
}

/// Ends the thread.
pub(crate) fn stop_for_ever() {
    ENDED.store(true, Relaxed);
    let Some(Some(thread)) = THREAD.get() else { return };
    thread.unpark();
    if let Some(handle) = HANDLE.with(RefCell::take) {
        // A panic of the thread has been printed.
        let _ = handle.join();
    }
}
