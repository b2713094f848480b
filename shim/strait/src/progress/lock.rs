//! The progress lock, which a rank's calls share with its progress thread and with the threads of
//! its windows, where it has any.
//!
//! Without a thread, the progress lock is only a borrow. With a thread, the engine lies beside a
//! mutex, and the short paths have an engine that knows no peer. They look only at that engine, so
//! they refuse each message, and the longer paths take the mutex. The cost of the short paths
//! without a thread stays the same.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::context::{OsResources, ProgressContext};
use super::place::RankContext;
use super::round::Round;
use super::windows::WindowServers;
use crate::memory::ShmEngine;

/// The state that a rank's calls share with its threads.
pub(super) struct ProgressLock {
    pub(super) place: RankContext,
    /// Locked while a side makes progress, where there is a thread.
    log: Mutex<ProgressLog>,
    /// A call waits for the mutex.
    pub(super) wanted: AtomicBool,
    /// The progress thread never sleeps.
    pub(super) polls: AtomicBool,
    /// Dropped before the engine.
    resources: UnsafeCell<OsResources>,
    windows: UnsafeCell<WindowServers>,
    /// The engine, while there is a thread. `None` without one.
    engine: UnsafeCell<Option<ShmEngine>>,
}

/// The data that calls and the threads exchange.
#[derive(Debug, Default)]
pub(super) struct ProgressLog {
    /// Number of calls that have locked the mutex.
    pub(super) calls: u64,
    /// The progress thread sleeps, and the next call must wake it.
    pub(super) asleep: bool,
    /// The progress thread must end.
    pub(super) stop: bool,
    /// Numbers of the lock managers of the windows that have their own thread. The thread of a
    /// window that is not among them must end.
    pub(super) windows: Vec<u64>,
    /// The time at which a thread of a window last looked for ranks that have died.
    pub(super) checked: Option<Instant>,
}

// SAFETY: only the holder of the progress lock reaches the resources, the servers of windows and
// the engine. Without a thread, the holder is the one thread that uses the world, which is not
// `Sync`. With a thread, it is the holder of the mutex. Their pointers lead into the segment, which
// `place` keeps mapped, and to a device that any thread may use. They also lead into buffers that
// scopes keep borrowed until no operation has a claim on them. Until then nothing else accesses a
// receive buffer or writes a send buffer, whichever thread works on it.
unsafe impl Send for ProgressLock {}
// SAFETY: the holder of the progress lock alone reaches these cells, as shown for `Send`. All other
// fields are `Sync`.
unsafe impl Sync for ProgressLock {}

impl ProgressLock {
    pub(super) fn new(place: RankContext, resources: OsResources) -> Self {
        Self {
            place,
            log: Mutex::default(),
            wanted: AtomicBool::new(false),
            polls: AtomicBool::new(false),
            resources: UnsafeCell::new(resources),
            windows: UnsafeCell::default(),
            engine: UnsafeCell::new(None),
        }
    }

    /// Locks the mutex. A holder that panicked has left the engine consistent, because the engine
    /// works in complete steps.
    pub(super) fn lock(&self) -> MutexGuard<'_, ProgressLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the engine beside the mutex and returns the previous one.
    ///
    /// # Safety
    ///
    /// The rank has no threads, and no guard of the progress lock is live.
    pub(super) unsafe fn exchange(&self, engine: Option<ShmEngine>) -> Option<ShmEngine> {
        // SAFETY: the caller guarantees that no other access is live (contract of `exchange`).
        core::mem::replace(unsafe { &mut *self.engine.get() }, engine)
    }

    /// Returns the engine, if it lies here.
    ///
    /// # Safety
    ///
    /// The caller holds the progress lock, and no longer uses a reference that an earlier call
    /// returned.
    #[expect(clippy::mut_from_ref, reason = "the progress lock gives exclusive access")]
    pub(super) unsafe fn engine(&self) -> Option<&mut ShmEngine> {
        // SAFETY: the caller guarantees the same (contract of `engine`).
        unsafe { &mut *self.engine.get() }.as_mut()
    }

    /// Returns the progress context with `engine`, the engine of this rank.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`ProgressLock::engine`].
    pub(super) unsafe fn context<'a>(&'a self, engine: &'a mut ShmEngine) -> ProgressContext<'a> {
        // SAFETY: the caller holds the progress lock (contract of `context`).
        let resources = unsafe { &mut *self.resources.get() };
        ProgressContext { place: &self.place, engine, resources }
    }

    /// Returns everything that makes progress, with `engine`, the engine of this rank.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`ProgressLock::engine`].
    pub(super) unsafe fn round<'a>(&'a self, engine: &'a mut ShmEngine) -> Round<'a> {
        // SAFETY: the caller holds the progress lock (contract of `round`).
        let windows = unsafe { &mut *self.windows.get() };
        // SAFETY: the caller guarantees the same (contract of `round`).
        Round { context: unsafe { self.context(engine) }, windows }
    }
}
