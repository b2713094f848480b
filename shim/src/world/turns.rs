//! Taking turns: a world's calls, and its progress thread where it has one.
//!
//! Without a thread a turn is nothing but a borrow. With one, the engine lies beside a lock, and the world has in its place one
//! that knows no peer: so the short ways, which look at nothing but that, refuse each message, and the longer ones take the lock.
//! They cost the same as ever where there is no thread.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::motor::{Gear, Motor, Place};
use super::{ShmEngine, World};
use crate::cma::Cma;

/// What a world shares with its progress thread.
pub(super) struct Turns {
    pub(super) place: Place,
    /// Held during a turn, when there is a thread.
    log: Mutex<Log>,
    /// A call waits for its turn.
    pub(super) wanted: AtomicBool,
    /// The thread never sleeps.
    pub(super) polls: AtomicBool,
    /// Goes before the engine.
    gear: UnsafeCell<Gear>,
    /// The engine, while there is a thread.
    engine: UnsafeCell<Option<ShmEngine>>,
}

/// What calls and thread tell each other.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Turns of calls.
    pub(super) calls: u64,
    /// The thread sleeps, and is to hear of the next call.
    pub(super) asleep: bool,
    /// The thread is to end.
    pub(super) stop: bool,
}

// SAFETY: gear and engine are reached by whoever has the turn. Without a thread that is the one thread that uses the world, which
// is not `Sync`; with one it is who holds the lock. Their pointers lead into the segment, which `place` keeps mapped, to a device
// that any thread may use, and into buffers that scopes keep borrowed until no operation has a claim on them: nobody else touches
// a buffer of a receive meanwhile, or writes one of a send, whichever thread works on it.
unsafe impl Send for Turns {}
// SAFETY: as above; all else is made to be shared.
unsafe impl Sync for Turns {}

impl Turns {
    pub(super) fn new(place: Place, gear: Gear) -> Self {
        Self {
            place,
            log: Mutex::default(),
            wanted: AtomicBool::new(false),
            polls: AtomicBool::new(false),
            gear: UnsafeCell::new(gear),
            engine: UnsafeCell::new(None),
        }
    }

    /// Waits for the lock. Who panicked with it has left nothing half done that matters: the engine does its work in steps.
    pub(super) fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an engine beside the lock, or takes it from there: gives back what was there.
    ///
    /// # Safety
    ///
    /// There is no thread, and no turn.
    pub(super) unsafe fn exchange(&self, engine: Option<ShmEngine>) -> Option<ShmEngine> {
        // SAFETY: by the contract nobody else is here.
        core::mem::replace(unsafe { &mut *self.engine.get() }, engine)
    }

    /// The engine, if it is here.
    ///
    /// # Safety
    ///
    /// The caller has the turn, and lets go of what it was given before.
    #[expect(clippy::mut_from_ref, reason = "the turn is the exclusive access")]
    pub(super) unsafe fn engine(&self) -> Option<&mut ShmEngine> {
        // SAFETY: by the contract.
        unsafe { &mut *self.engine.get() }.as_mut()
    }

    /// All that makes progress with `engine`, which is this rank's.
    ///
    /// # Safety
    ///
    /// As for [`Turns::engine`].
    pub(super) unsafe fn motor<'a>(&'a self, engine: &'a mut ShmEngine) -> Motor<'a> {
        // SAFETY: by the contract.
        Motor { place: &self.place, engine, gear: unsafe { &mut *self.gear.get() } }
    }
}

/// A world's turn. One within another is the same one.
pub(crate) struct Turn<'world> {
    world: &'world World,
    /// Where there is a thread, and this is the outermost: it ends last.
    log: Option<MutexGuard<'world, Log>>,
}

impl World {
    /// Takes the turn, from the thread if there is one.
    #[inline(always)]
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn { log: if self.has_thread() { self.begin_turn() } else { None }, world: self }
    }

    #[cold]
    #[inline(never)]
    fn begin_turn(&self) -> Option<MutexGuard<'_, Log>> {
        let depth = self.depth.replace(self.depth.get() + 1);
        if depth > 0 {
            return None;
        }
        self.turns.wanted.store(true, Relaxed);
        let mut log = self.turns.lock();
        self.turns.wanted.store(false, Relaxed);
        log.calls += 1;
        // From now on this call looks by itself.
        self.turns.place.bell().get().rise();
        Some(log)
    }

    #[cold]
    #[inline(never)]
    fn end_turn(&self, log: Option<MutexGuard<'_, Log>>) {
        self.depth.set(self.depth.get() - 1);
        let Some(mut log) = log else { return };
        let place = &self.turns.place;
        let asleep = core::mem::take(&mut log.asleep);
        if !asleep {
            // The thread looks again soon, and then makes sure that it misses no ring.
            place.sleep.doze(place.bell().get());
        }
        drop(log);
        if asleep {
            place.sleep.stir(&place.map.segment(), place.rank);
        }
    }
}

impl Turn<'_> {
    /// All that makes progress.
    #[inline(always)]
    pub(crate) fn motor(&mut self) -> Motor<'_> {
        // SAFETY: it is the turn, and `self` is borrowed as long.
        unsafe { self.world.turns.motor(&mut *self.place()) }
    }

    /// The ways into the peers' memories.
    pub(crate) fn cma(&mut self) -> &mut Cma {
        &mut self.motor().gear.cma
    }

    /// Where the engine is.
    #[inline(always)]
    fn place(&self) -> *mut ShmEngine {
        if self.world.has_thread()
            // SAFETY: it is the turn.
            && let Some(engine) = unsafe { self.world.turns.engine() }
        {
            return engine;
        }
        self.world.engine.get()
    }
}

impl Deref for Turn<'_> {
    type Target = ShmEngine;

    #[inline(always)]
    fn deref(&self) -> &ShmEngine {
        // SAFETY: it is the turn. Callers in this crate hold the borrow for one engine call and run no code of the user's
        // meanwhile, so a turn within this one is not used during it.
        unsafe { &*self.place() }
    }
}

impl DerefMut for Turn<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ShmEngine {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.place() }
    }
}

impl Drop for Turn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.world.has_thread() {
            self.world.end_turn(self.log.take());
        }
    }
}
