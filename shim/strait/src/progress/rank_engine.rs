//! The engine of a rank, as the calls of one thread use it.
//!
//! The short paths use the engine without the progress lock. All other paths take the
//! [lock](RankEngine::lock).

use core::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};

use strait_core::buffer::Part;
use strait_core::engine::{
    Bypass, Engine, LineRoom, Mark, Owner, ProgressError, ReceivedShort, RequestId, SentShort,
    Status, Ticket, Unanswered, Want,
};
use strait_core::matching::Pattern;
use strait_core::wire::Key;
use strait_platform::Rank;
use strait_platform::cma::Cma;
use strait_platform::sleep;

use super::context::{OsResources, ProgressContext};
use super::lock::{ProgressLock, ProgressLog};
use super::place::RankContext;
use super::round::Round;
use super::thread::ProgressThread;
use super::window_thread::WindowThread;
use super::windows::{ServedWindow, WindowServers};
use crate::Error;
use crate::memory::{ShmEngine, SystemMemory};

/// A rank's engine, with the OS resources and the threads that work for it.
pub(crate) struct RankEngine {
    /// Dropped first, as the threads of windows are.
    thread: OnceCell<ProgressThread>,
    window_threads: RefCell<Vec<WindowThread>>,
    /// The rank has a thread, or a window of it has.
    is_shared: Cell<bool>,
    /// Its device accesses buffers that the engine names, so it is dropped before the engine.
    turns: Arc<ProgressLock>,
    /// Accessed only in this file, for one call of the engine at a time. Such a call runs no user
    /// code. With a thread, this engine is [away](Engine::away).
    engine: UnsafeCell<ShmEngine>,
    /// Number of nested progress guards, counted only where there is a thread.
    depth: Cell<u32>,
}

/// Defines methods that make one call of the engine of the short paths, of the same name.
macro_rules! short_paths {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(&self, $($argument: $type),*) -> $result {
            // SAFETY: this is one call of the engine, which runs no other code of this crate.
            unsafe { self.short() }.$name($($argument),*)
        }
    )*};
}

/// The short paths, which take no lock: see the method of the same name of [`Engine`]. With a
/// progress thread they send and receive nothing, so that callers take the lock.
impl RankEngine {
    short_paths! {
        fn send_short(destination: Rank, key: Key, data: &[u8]) -> SentShort;
        fn send_medium(destination: Rank, key: Key, data: &[u8]) -> SentShort;
        fn send_straight(destination: Rank, key: Key, data: &[u8]) -> SentShort;
        fn look_for_room(destination: Rank, length: usize) -> LineRoom;
        fn give_up_waiting(destination: Rank) -> ();
        fn send_marked(destination: Rank, key: Key, data: &[u8]) -> Option<(Mark, SentShort)>;
        fn is_taken(destination: Rank, mark: Mark) -> bool;
        fn tell_taken(source: Rank) -> ();
        fn recv_short(source: Rank, want: Want, buffer: &mut [u8]) -> Bypass;
        fn recv_straight(source: Rank, want: Want, buffer: &mut [u8]) -> Bypass;
        fn prefetch_next(source: Rank, length: usize) -> ();
        fn take_next_short(source: Rank, want: Want, buffer: &mut [u8]) -> Bypass;
        fn take_next_medium(source: Rank, want: Want, buffer: &mut [u8]) -> Bypass;
        fn has_next(source: Rank) -> bool;
        fn has_queued() -> bool;
        fn has_work() -> bool;
        fn inbox(place: usize) -> Option<Rank>;
        fn probe_lines(source: Rank, want: Want) -> Bypass;
        fn recv_short_from_any(want: Want, buffer: &mut [u8]) -> Bypass;
        fn finds_no_lines() -> bool;
        fn is_over(id: RequestId) -> bool;
        fn has_failed(ticket: Ticket) -> bool;
        fn is_transferring() -> bool;
        fn unanswered(ticket: Ticket) -> Option<Unanswered>;
        fn is_answered(unanswered: Unanswered) -> bool;
        fn end_answered(unanswered: Unanswered) -> ();
        fn take_status(ticket: Ticket) -> Option<Status>;
        fn ticket(id: RequestId) -> Ticket;
        fn take_first(ticket: Ticket) -> Option<Status>;
        fn take_first_short(ticket: Ticket) -> Bypass;
        fn is_first(ticket: Ticket) -> bool;
        fn keep_status(status: Status, owner: Owner) -> Option<Ticket>;
        fn has_work_outside_lines() -> bool;
        fn has_unexpected() -> bool;
        fn awaits_several() -> bool;
        fn others_have_lines(source: Rank) -> bool;
        fn serve_context(source: Rank, context: u32) -> Result<bool, ProgressError>;
        fn is_told_to_keep(destination: Rank) -> bool;
        fn is_told_to_keep_from_afar(destination: Rank) -> bool;
    }

    /// Receives from the head of the queue ([`Engine::recv_queued`]).
    #[inline(always)]
    pub(crate) fn recv_queued(&self, source: Rank, want: Want, buffer: &mut [u8]) -> Bypass {
        self.and_wake(|engine| engine.recv_queued(source, want, buffer))
    }

    /// Receives a message in lines or in a parcel ([`Engine::recv_medium`]).
    #[inline(always)]
    pub(crate) fn recv_medium(&self, source: Rank, want: Want, buffer: &mut [u8]) -> Bypass {
        // SAFETY: this is one call of the engine, which runs no other code of this crate.
        let found = unsafe { self.short() }.recv_medium(source, want, buffer);
        if let Bypass::Received(_) = found {
            self.wake_waiting();
        }
        found
    }

    /// Receives a message that lies in lines ([`Engine::recv_lines`]).
    #[inline(always)]
    pub(crate) fn recv_lines(&self, pattern: Pattern, buffer: &mut [u8]) -> Bypass {
        self.and_wake(|engine| engine.recv_lines(pattern, buffer))
    }

    /// Takes what lies in lines ([`Engine::serve_lines`]).
    #[inline(always)]
    pub(crate) fn serve_lines(&self) -> bool {
        self.and_wake(Engine::serve_lines)
    }

    /// Makes one call of the engine, and wakes the ranks that wait for what it did.
    #[inline(always)]
    fn and_wake<T>(&self, call: impl FnOnce(&mut ShmEngine) -> T) -> T {
        // SAFETY: this is one call of the engine, which runs no other code of this crate.
        let result = call(unsafe { self.short() });
        self.wake_waiting();
        result
    }

    /// Wakes the ranks that wait for what the last call of the engine did.
    #[inline(always)]
    fn wake_waiting(&self) {
        // SAFETY: this is one call of the engine, which runs no other code of this crate.
        if unsafe { self.short() }.has_bells() {
            self.ring_bells();
        }
    }

    #[cold]
    #[inline(never)]
    fn ring_bells(&self) {
        // SAFETY: this is one call of the engine, which runs no other code of this crate.
        while let Some(peer) = unsafe { self.short() }.poll_bell() {
            sleep::wake(&self.place().segment(), peer);
        }
    }

    /// Receives a message of a known length ([`Engine::recv_exactly`]).
    #[inline(always)]
    pub(crate) fn recv_exactly<const BYTES: usize>(
        &self,
        source: Rank,
        want: Want,
        buffer: &mut [u8; BYTES],
    ) -> Bypass {
        // SAFETY: this is one call of the engine, which runs no other code of this crate.
        unsafe { self.short() }.recv_exactly(source, want, buffer)
    }

    /// Receives a message of a known length from any source ([`Engine::recv_exactly_from_any`]).
    #[inline(always)]
    pub(crate) fn recv_exactly_from_any<const BYTES: usize>(
        &self,
        want: Want,
        buffer: &mut [u8; BYTES],
    ) -> Option<Status> {
        // SAFETY: this is one call of the engine, which runs no other code of this crate.
        unsafe { self.short() }.recv_exactly_from_any(want, buffer)
    }

    /// Starts a receive of a short message ([`Engine::irecv_short`]).
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    #[inline(always)]
    pub(crate) unsafe fn irecv_short(
        &self,
        pattern: Pattern,
        buffer: Part,
        owner: Owner,
    ) -> ReceivedShort {
        // SAFETY: this is one call of the engine, which runs no other code of this crate. The
        // caller guarantees the rest (contract of `irecv_short`).
        let received = unsafe { self.short().irecv_short(pattern, buffer, owner) };
        self.wake_waiting();
        received
    }

    /// Posts a receive that needs nothing else ([`Engine::post_first`]).
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    #[inline(always)]
    pub(crate) unsafe fn post_first(
        &self,
        pattern: Pattern,
        buffer: Part,
        owner: Owner,
    ) -> Option<(RequestId, Ticket)> {
        // SAFETY: this is one call of the engine, which runs no other code of this crate. The
        // caller guarantees the rest (contract of `post_first`).
        unsafe { self.short().post_first(pattern, buffer, owner) }
    }

    /// Returns whether `rank` is known to be present without use of the progress lock.
    #[inline(always)]
    pub(crate) fn is_plainly_here(&self, rank: Rank) -> bool {
        // SAFETY: this is one call of the engine, which runs no other code of this crate.
        !self.has_thread() && unsafe { self.short() }.gone(rank).is_none()
    }

    /// Returns the engine of the short paths.
    ///
    /// # Safety
    ///
    /// The caller uses the reference for one call of the engine, which runs no other code of this
    /// crate or of its users.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the cell is the exclusive access; see SAFETY")]
    unsafe fn short(&self) -> &mut ShmEngine {
        // SAFETY: this type is not `Sync`, so only one thread is here, and a progress thread uses
        // another engine. The caller's reference lives for one call of the engine (contract of
        // `short`), and so does each reference that a guard gives. So no second one exists.
        unsafe { &mut *self.engine.get() }
    }
}

impl RankEngine {
    /// Creates a rank's engine without a progress thread.
    pub(crate) fn new(place: RankContext, resources: OsResources, engine: ShmEngine) -> Self {
        Self {
            thread: OnceCell::new(),
            window_threads: RefCell::default(),
            is_shared: Cell::new(false),
            turns: Arc::new(ProgressLock::new(place, resources)),
            engine: UnsafeCell::new(engine),
            depth: Cell::new(0),
        }
    }

    /// Returns the place of this rank.
    pub(crate) fn place(&self) -> &RankContext {
        &self.turns.place
    }

    /// Returns the place of this rank, for a test that changes its sleep.
    #[cfg(test)]
    pub(crate) fn place_mut(&mut self) -> &mut RankContext {
        &mut Arc::get_mut(&mut self.turns).expect("no progress thread").place
    }

    /// Returns the state that this rank's calls share with its progress thread.
    #[cfg(test)]
    pub(super) const fn turns(&self) -> &Arc<ProgressLock> {
        &self.turns
    }

    /// Returns whether a thread shares the progress lock with this rank's calls: the progress
    /// thread, or that of a window.
    #[inline(always)]
    pub(crate) const fn has_thread(&self) -> bool {
        self.is_shared.get()
    }

    /// Starts the progress thread, also while operations are in progress.
    pub(crate) fn start_thread(&self) -> Result<(), Error> {
        if self.thread.get().is_some() {
            return Ok(());
        }
        self.share_engine()?;
        let thread = ProgressThread::start(&self.turns).map(|thread| drop(self.thread.set(thread)));
        self.take_engine_back();
        thread.map_err(Error::Thread)
    }

    /// Starts the thread of a window, also while operations are in progress.
    pub(crate) fn start_window_thread(&self, window: ServedWindow) -> Result<(), Error> {
        self.share_engine()?;
        let thread = WindowThread::start(&self.turns, window)
            .map(|thread| self.window_threads.borrow_mut().push(thread));
        self.take_engine_back();
        thread.map_err(Error::Thread)
    }

    /// Stops the thread of the window with this lock manager, if it has one. No guard of the
    /// progress lock is live.
    pub(crate) fn stop_window_thread(&self, lock_manager: u64) {
        let mut threads = self.window_threads.borrow_mut();
        let Some(place) = threads.iter().position(|thread| thread.is_of(lock_manager)) else {
            return;
        };
        drop(threads.swap_remove(place));
        drop(threads);
        self.take_engine_back();
    }

    /// Moves the engine beside the progress lock, where threads reach it.
    fn share_engine(&self) -> Result<(), Error> {
        if self.has_thread() {
            return Ok(());
        }
        let (place, tuning) = (self.place(), self.lock().tuning());
        let away = Engine::away(SystemMemory, place.segment(), place.rank, tuning)?;
        // SAFETY: the exchange runs no other code.
        let engine = core::mem::replace(unsafe { self.short() }, away);
        // SAFETY: this is the thread that uses the engine, none of its guards is live here, and
        // the rank has no other thread yet.
        drop(unsafe { self.turns.exchange(Some(engine)) });
        self.is_shared.set(true);
        Ok(())
    }

    /// Starts a progress thread that never sleeps.
    pub(crate) fn start_polling_thread(&self) -> Result<(), Error> {
        self.start_thread()?;
        self.turns.polls.store(true, Relaxed);
        // A thread that already sleeps wakes up and reads the flag.
        drop(self.lock());
        Ok(())
    }

    /// Stops the progress thread, and those of windows, if there are any.
    pub(crate) fn stop_threads(&mut self) {
        drop(self.thread.take());
        self.window_threads.get_mut().clear();
        self.take_engine_back();
    }

    /// Moves the engine back to the short paths when no thread is left and no guard is live.
    fn take_engine_back(&self) {
        let is_last = self.thread.get().is_none() && self.window_threads.borrow().is_empty();
        if !is_last || self.depth.get() > 0 || !self.is_shared.replace(false) {
            return;
        }
        // SAFETY: no guard is live, and there is no thread any more.
        if let Some(engine) = unsafe { self.turns.exchange(None) } {
            // SAFETY: the exchange runs no other code.
            let away = core::mem::replace(unsafe { self.short() }, engine);
            drop(away);
        }
    }

    /// Takes the progress lock, from the thread if there is one.
    #[inline(always)]
    pub(crate) fn lock(&self) -> ProgressGuard<'_> {
        ProgressGuard { log: if self.has_thread() { self.acquire() } else { None }, rank: self }
    }

    #[cold]
    #[inline(never)]
    fn acquire(&self) -> Option<MutexGuard<'_, ProgressLog>> {
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
    fn release(&self, log: Option<MutexGuard<'_, ProgressLog>>) {
        self.depth.set(self.depth.get() - 1);
        let Some(mut log) = log else { return };
        let place = &self.turns.place;
        let asleep = core::mem::take(&mut log.asleep);
        if !asleep && self.thread.get().is_some() {
            // The progress thread polls again soon, and before it sleeps it makes sure that it
            // misses no ring. Threads of windows never sleep.
            place.sleep.prepare_briefly(place.bell().get());
        }
        drop(log);
        if asleep {
            place.sleep.wake_own(&place.segment(), place.rank);
        }
    }
}

/// A guard of a rank's progress lock. A guard within another shares its lock.
pub(crate) struct ProgressGuard<'rank> {
    rank: &'rank RankEngine,
    /// The mutex guard, where there are threads and this guard is the outermost. It is dropped
    /// last.
    log: Option<MutexGuard<'rank, ProgressLog>>,
}

impl ProgressGuard<'_> {
    /// Returns the progress context.
    #[inline(always)]
    pub(crate) fn context(&mut self) -> ProgressContext<'_> {
        // SAFETY: the guard holds the progress lock, and `self` is borrowed as long as the context
        // lives.
        unsafe { self.rank.turns.context(&mut *self.engine()) }
    }

    /// Returns everything that makes progress.
    #[inline(always)]
    pub(crate) fn round(&mut self) -> Round<'_> {
        // SAFETY: the guard holds the progress lock, and `self` is borrowed as long as the round
        // lives.
        unsafe { self.rank.turns.round(&mut *self.engine()) }
    }

    /// Returns the servers of this rank's windows.
    #[inline(always)]
    pub(crate) fn windows(&mut self) -> &mut WindowServers {
        self.round().windows
    }

    /// Returns the state of cross-memory attach to the peers.
    pub(crate) fn cma(&mut self) -> &mut Cma {
        &mut self.context().resources.cma
    }

    /// Returns a pointer to the engine in use.
    #[inline(always)]
    fn engine(&self) -> *mut ShmEngine {
        if self.rank.has_thread()
            // SAFETY: the guard holds the progress lock.
            && let Some(engine) = unsafe { self.rank.turns.engine() }
        {
            return engine;
        }
        self.rank.engine.get()
    }
}

impl Deref for ProgressGuard<'_> {
    type Target = ShmEngine;

    #[inline(always)]
    fn deref(&self) -> &ShmEngine {
        // SAFETY: the guard holds the progress lock. Callers in this crate hold the borrow for one
        // engine call and run no user code meanwhile, so no nested guard is used during it.
        unsafe { &*self.engine() }
    }
}

impl DerefMut for ProgressGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ShmEngine {
        // SAFETY: the guard holds the progress lock, and no nested guard is used during the borrow,
        // as shown in `deref`.
        unsafe { &mut *self.engine() }
    }
}

impl Drop for ProgressGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.rank.has_thread() {
            self.rank.release(self.log.take());
        }
    }
}
