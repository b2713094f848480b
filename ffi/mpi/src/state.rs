//! The state of the front, behind a [lock].

use core::cell::{Cell, OnceCell, RefCell};
use core::ops::Deref;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::MutexGuard;

use super::allocated::AllocatedMemory;
use super::base::Base;
use super::comms::CommTable;
use super::lock;
use super::messages::MessageTable;
use super::requests::RequestTable;
use super::windows::{AccumulateLocks, WinTable};
use crate::abi::Handle;

/// Everything that the front knows while MPI is initialised.
pub(crate) struct Front {
    pub(crate) comms: CommTable,
    pub(crate) requests: RequestTable,
    pub(crate) messages: MessageTable,
    /// Number of the host's operations that are known to be open.
    pub(crate) host_open: Cell<u32>,
    /// The count of tests since the last that let the host progress.
    pub(crate) tests: Cell<u32>,
    /// Whether the next test is to let the host progress.
    pub(crate) is_host_due: Cell<bool>,
    /// Whether this node has fewer processors than ranks.
    pub(crate) is_crowded: bool,
    /// Number of tests that found nothing and went the longer way.
    pub(crate) in_vain: Cell<u32>,
    /// A receive of the host's that is never matched: to ask for its status makes the host
    /// progress.
    pub(crate) standing: Cell<Handle>,
    /// The communicator of `standing`, which no program has.
    pub(crate) private: Handle,
    /// Whether the host reports an operation with one buffer for both sides, once it was asked.
    pub(crate) refuses_aliases: OnceCell<bool>,
    /// Codes of errors that were reported, by their text.
    pub(crate) codes: RefCell<std::collections::HashMap<String, core::ffi::c_int>>,
    /// The memory that the program has from MPI, outside windows.
    pub(crate) memory: AllocatedMemory,
    pub(crate) windows: WinTable,
    pub(crate) accumulate_locks: AccumulateLocks,
    /// Dropped last.
    pub(crate) base: Base,
}

impl Deref for Front {
    type Target = Base;

    #[inline(always)]
    fn deref(&self) -> &Base {
        &self.base
    }
}

/// The front, while MPI is initialised. A thread that calls MPI has synchronised with the thread
/// that initialised it (MPI-5.0 §11.6.1), so `Relaxed` suffices.
static FRONT: AtomicPtr<Front> = AtomicPtr::new(core::ptr::null_mut());

/// The front, while its calls need no lock.
static UNLOCKED: AtomicPtr<Front> = AtomicPtr::new(core::ptr::null_mut());

/// Begins to serve the program's calls.
pub(crate) fn open(front: Box<Front>, multiple: bool) {
    let front = Box::into_raw(front);
    lock::set_locked(multiple);
    FRONT.store(front, Relaxed);
    UNLOCKED.store(if multiple { core::ptr::null_mut() } else { front }, Relaxed);
}

/// Ends serving the program's calls, and returns what served them.
pub(crate) fn close() -> Option<Box<Front>> {
    UNLOCKED.store(core::ptr::null_mut(), Relaxed);
    let front = FRONT.swap(core::ptr::null_mut(), Relaxed);
    // SAFETY: the pointer comes from `Box::into_raw` in `open`. No other call is under way: a
    // program finalises MPI after all its calls have ended (MPI-5.0 §11.2.2).
    (!front.is_null()).then(|| unsafe { Box::from_raw(front) })
}

/// Makes all calls take the lock, or again only as many as the program asked for. Returns whether
/// they did before.
pub(crate) fn set_locked(locked: bool) -> bool {
    let before = lock::set_locked(locked);
    let front = if locked { core::ptr::null_mut() } else { FRONT.load(Relaxed) };
    UNLOCKED.store(front, Relaxed);
    before
}

/// Returns the front, if its calls need no lock.
#[inline(always)]
pub(crate) fn unlocked() -> Option<&'static Front> {
    // SAFETY: the pointer is null or leads to the front, which lives until the program finalises
    // MPI. Only this thread uses it: the program asked for no more.
    unsafe { UNLOCKED.load(Relaxed).as_ref() }
}

/// A call that uses the front.
pub(crate) struct Entered {
    front: &'static Front,
    pub(super) guard: Option<MutexGuard<'static, ()>>,
}

impl Deref for Entered {
    type Target = Front;

    #[inline(always)]
    fn deref(&self) -> &Front {
        self.front
    }
}

impl Entered {
    /// Returns the front for as long as the caller holds the lock by other means.
    #[inline(always)]
    pub(crate) const fn front(&self) -> &'static Front {
        self.front
    }
}

/// Begins a call. Returns `None` while MPI is not initialised, or the host serves everything.
#[inline]
pub(crate) fn enter() -> Option<Entered> {
    if let Some(front) = unlocked() {
        return Some(Entered { front, guard: None });
    }
    enter_locked()
}

#[cold]
#[inline(never)]
fn enter_locked() -> Option<Entered> {
    let guard = lock::lock();
    let front = FRONT.load(Relaxed);
    // SAFETY: the pointer is null or leads to the front, which lives until the program finalises
    // MPI. This thread holds the lock.
    let front = unsafe { front.as_ref() }?;
    let guard = lock::is_locked().then_some(guard);
    Some(Entered { front, guard })
}

/// Calls `use_front` with the front, if there is one. The caller holds the lock.
pub(crate) fn with_lock_held<R>(use_front: impl FnOnce(&Front) -> R) -> Option<R> {
    // SAFETY: as in `enter_locked`.
    unsafe { FRONT.load(Relaxed).as_ref() }.map(use_front)
}
