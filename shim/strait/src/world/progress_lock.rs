//! The progress lock, which a world's calls share with its progress thread, where it has one.
//!
//! Without a thread, the progress lock is only a borrow. With a thread, the engine lies beside a
//! mutex, and the world holds an engine that knows no peer. The short paths look only at that
//! engine, so they refuse each message, and the longer paths take the mutex. The cost of the short
//! paths without a thread stays the same.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use strait_platform::cma::Cma;

use super::progress_context::{OsResources, ProgressContext, RankContext};
use super::{ShmEngine, World};

/// The state that a world shares with its progress thread.
pub(super) struct ProgressLock {
    pub(super) place: RankContext,
    /// Locked while a side makes progress, where there is a thread.
    log: Mutex<ProgressLog>,
    /// A call waits for the mutex.
    pub(super) wanted: AtomicBool,
    /// The thread never sleeps.
    pub(super) polls: AtomicBool,
    /// Dropped before the engine.
    resources: UnsafeCell<OsResources>,
    /// The engine, while there is a thread. `None` without one.
    engine: UnsafeCell<Option<ShmEngine>>,
}

/// The data that calls and the thread exchange.
#[derive(Debug, Default)]
pub(super) struct ProgressLog {
    /// Number of calls that have locked the mutex.
    pub(super) calls: u64,
    /// The thread sleeps, and the next call must wake it.
    pub(super) asleep: bool,
    /// The thread must end.
    pub(super) stop: bool,
}

// SAFETY: only the holder of the progress lock reaches the resources and the engine. Without a
// thread, the holder is the one thread that uses the world, which is not `Sync`. With a thread, it
// is the holder of the mutex. Their pointers lead into the segment, which `place` keeps mapped, and
// to a device that any thread may use. They also lead into buffers that scopes keep borrowed until
// no operation has a claim on them. Until then nothing else accesses a receive buffer or writes a
// send buffer, whichever thread works on it.
unsafe impl Send for ProgressLock {}
// SAFETY: the holder of the progress lock alone reaches the resources and the engine, as shown for
// `Send`. All other fields are `Sync`.
unsafe impl Sync for ProgressLock {}

impl ProgressLock {
    pub(super) fn new(place: RankContext, resources: OsResources) -> Self {
        Self {
            place,
            log: Mutex::default(),
            wanted: AtomicBool::new(false),
            polls: AtomicBool::new(false),
            resources: UnsafeCell::new(resources),
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
    /// There is no progress thread, and no guard of the progress lock is live.
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
}

/// A guard of a world's progress lock. A guard within another shares its lock.
pub(crate) struct ProgressGuard<'world> {
    world: &'world World,
    /// The mutex guard, where there is a thread and this guard is the outermost. It is dropped
    /// last.
    log: Option<MutexGuard<'world, ProgressLog>>,
}

impl World {
    /// Takes the progress lock, from the thread if there is one.
    #[inline(always)]
    pub(crate) fn lock_progress(&self) -> ProgressGuard<'_> {
        ProgressGuard {
            log: if self.has_thread() { self.acquire_progress() } else { None },
            world: self,
        }
    }

    #[cold]
    #[inline(never)]
    fn acquire_progress(&self) -> Option<MutexGuard<'_, ProgressLog>> {
        let depth = self.depth.replace(self.depth.get() + 1);
        if depth > 0 {
            return None;
        }
        self.turns.wanted.store(true, Relaxed);
        let mut log = self.turns.lock();
        self.turns.wanted.store(false, Relaxed);
        log.calls += 1;
        // From now on this call polls, so the doorbell need not ring.
        self.turns.place.bell().get().rise();
        Some(log)
    }

    #[cold]
    #[inline(never)]
    fn release_progress(&self, log: Option<MutexGuard<'_, ProgressLog>>) {
        self.depth.set(self.depth.get() - 1);
        let Some(mut log) = log else { return };
        let place = &self.turns.place;
        let asleep = core::mem::take(&mut log.asleep);
        if !asleep {
            // The thread polls again soon, and before it sleeps it makes sure that it misses no
            // ring.
            place.sleep.prepare_briefly(place.bell().get());
        }
        drop(log);
        if asleep {
            place.sleep.wake_own(&place.segment(), place.rank);
        }
    }
}

impl ProgressGuard<'_> {
    /// Returns the progress context.
    #[inline(always)]
    pub(crate) fn context(&mut self) -> ProgressContext<'_> {
        // SAFETY: the guard holds the progress lock, and `self` is borrowed as long as the context
        // lives.
        unsafe { self.world.turns.context(&mut *self.place()) }
    }

    /// Returns the state of cross-memory attach to the peers.
    pub(crate) fn cma(&mut self) -> &mut Cma {
        &mut self.context().resources.cma
    }

    /// Returns a pointer to the engine in use.
    #[inline(always)]
    fn place(&self) -> *mut ShmEngine {
        if self.world.has_thread()
            // SAFETY: the guard holds the progress lock.
            && let Some(engine) = unsafe { self.world.turns.engine() }
        {
            return engine;
        }
        self.world.engine.get()
    }
}

impl Deref for ProgressGuard<'_> {
    type Target = ShmEngine;

    #[inline(always)]
    fn deref(&self) -> &ShmEngine {
        // SAFETY: the guard holds the progress lock. Callers in this crate hold the borrow for one
        // engine call and run no user code meanwhile, so no nested guard is used during it.
        unsafe { &*self.place() }
    }
}

impl DerefMut for ProgressGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ShmEngine {
        // SAFETY: the guard holds the progress lock, and no nested guard is used during the borrow,
        // as shown in `deref`.
        unsafe { &mut *self.place() }
    }
}

impl Drop for ProgressGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.world.has_thread() {
            self.world.release_progress(self.log.take());
        }
    }
}

#[cfg(test)]
mod refused;
