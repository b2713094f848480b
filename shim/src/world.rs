//! A process's place in a job, and the engine that works for it.

use core::cell::{RefCell, RefMut, UnsafeCell};
use core::fmt;
use std::sync::Arc;
use std::time::Instant;

use strait_core::layout::{Config, Life, Plan, Segment};
use strait_core::progress::{
    Cursor, Engine, Gone, Outcome, Owner, ProgressError, RequestId, Sent, SentShort, StartError,
    Tuning,
};
use strait_core::wire::Key;

use crate::boot::{self, BootError, InProcess, KeyValueStore};
use crate::cma::Cma;
use crate::collective::Meeting;
use crate::liveness::{self, Watch};
use crate::memory::SystemMemory;
use crate::nodes::Nodes;
use crate::patience::{Glance, Pass, Patience, Spin};
use crate::segment::{Heap, SegmentError, SegmentMap};
use crate::sleep::{self, Sleep};
use crate::{Endpoint, Error, Rank, topology};

mod job;

/// Pieces of large messages that are moved between two looks at everything else; each takes 100 µs at most.
const JOBS_PER_PROGRESS: u32 = 4;

/// The engine of this crate.
pub(crate) type ShmEngine = Engine<SystemMemory>;

/// This process's place in a job: the analogue of `MPI_COMM_WORLD` (MPI-4.1 §7.2.4).
///
/// One thread at a time uses a world; it may be moved to another thread. Dropping it leaves the job as
/// [`World::finalize`] does, but tells nobody when that fails; dropping it while panicking counts as dying.
pub struct World {
    /// Touched through [`World::engine`] alone, whose callers run no code of the user's while they hold it.
    engine: UnsafeCell<ShmEngine>,
    watch: UnsafeCell<Watch>,
    cma: UnsafeCell<Cma>,
    /// Scopes opened so far: gives each its own [`Owner`].
    scopes: core::cell::Cell<u32>,
    rank: Rank,
    size: u32,
    node: u32,
    nodes: Nodes,
    store: RefCell<Box<dyn KeyValueStore>>,
    spin: Spin,
    glance: core::cell::Cell<Glance>,
    sleep: Sleep,
    /// Where all ranks meet in each context ([`Endpoint::barrier`]).
    meetings: RefCell<Vec<(u32, Meeting)>>,
    /// From when the engine's time is counted.
    begin: Instant,
    pub(crate) heap: Arc<Heap>,
    map: Arc<SegmentMap>,
}

// SAFETY: a world owns its engine, whose pointers lead into the segment, which it keeps mapped, and into buffers that
// scopes keep borrowed: a scope borrows the world, so none is open while the world moves.
unsafe impl Send for World {}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("rank", &self.rank).field("size", &self.size).finish()
    }
}

impl World {
    /// Joins the job that this process was started for, by `strait run` or by another launcher that speaks PMI-1, such as
    /// MPICH's `mpiexec.hydra`. Once per process. Under another launcher all ranks join together: this waits for them.
    ///
    /// # Errors
    ///
    /// [`Error::Boot`] when the process was not started by a launcher, or does not fit it; [`Error::Environment`] when
    /// a `STRAIT_*` variable is unusable.
    ///
    /// # Source
    ///
    /// MPI-4.1 §11.2.1, `MPI_INIT`.
    pub fn init() -> Result<Self, Error> {
        let (tuning, cpus) = (crate::env::tuning()?, crate::env::cpus()?);
        let boot::Membership { rank, nodes, map, store } = boot::join()?;
        Self::new(Arc::new(map), rank, nodes, store, cpus, tuning)
    }

    /// A job of `ranks` ranks inside this process, one world for each, to be used by a thread each: for tests, and
    /// for programs that would rather have threads than processes.
    ///
    /// # Errors
    ///
    /// [`Error::Segment`] when there is not enough memory, or no such job.
    pub fn in_process(ranks: u32) -> Result<Vec<Self>, Error> {
        Self::in_process_with(Config::new(ranks))
    }

    /// As [`World::in_process`], with a segment of another shape.
    ///
    /// # Errors
    ///
    /// As [`World::in_process`].
    pub fn in_process_with(config: Config) -> Result<Vec<Self>, Error> {
        // Before memory is taken for so many ranks.
        Plan::new(config).map_err(SegmentError::from)?;
        Self::in_process_on(config, &Nodes::one(config.ranks))
    }

    /// As [`World::in_process_with`], as if the ranks were on these nodes.
    ///
    /// # Errors
    ///
    /// As [`World::in_process`].
    ///
    /// # Panics
    ///
    /// When `config` and `nodes` have different numbers of ranks.
    pub fn in_process_on(config: Config, nodes: &Nodes) -> Result<Vec<Self>, Error> {
        assert_eq!(config.ranks, nodes.ranks(), "ranks of the segment and ranks on nodes");
        let tuning = crate::env::tuning()?;
        let nonce = boot::nonce()?;
        let maps = (0..nodes.count().max(1))
            .map(|node| SegmentMap::create_on(config, nonce, nodes, node).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let cpus = topology::allowed_cpu_count();
        let store = InProcess::new(config.ranks);
        (0..config.ranks)
            .map(|rank| {
                let map = &maps[nodes.node_of(rank).unwrap_or(0) as usize];
                liveness::attach_self(&map.segment().rank_block(rank).liveness);
                let store = Box::new(store.clone());
                Self::new(Arc::clone(map), rank, nodes.clone(), store, cpus, tuning)
            })
            .collect()
    }

    fn new(
        map: Arc<SegmentMap>,
        rank: Rank,
        nodes: Nodes,
        store: Box<dyn KeyValueStore>,
        cpus: usize,
        tuning: Tuning,
    ) -> Result<Self, Error> {
        let segment = map.segment();
        let size = segment.ranks();
        let node = nodes.node_of(rank).unwrap_or(0);
        let mut engine = Engine::new(SystemMemory, segment, rank, tuning)?;
        let elsewhere = |rank: &Rank| nodes.node_of(*rank) != Some(node);
        (0..size).filter(elsewhere).for_each(|rank| engine.set_unreachable(rank));
        Ok(Self {
            engine: UnsafeCell::new(engine),
            watch: UnsafeCell::new(Watch::new(size)),
            cma: UnsafeCell::new(Cma::new(&segment, rank)),
            scopes: core::cell::Cell::new(0),
            rank,
            size,
            node,
            spin: Spin::new(nodes.ranks_on(node).count() as u32, cpus),
            glance: core::cell::Cell::new(Glance::new()),
            sleep: Sleep::register(),
            meetings: RefCell::default(),
            begin: Instant::now(),
            heap: Arc::new(Heap::new(Arc::clone(&map), rank)),
            store: RefCell::new(store),
            nodes,
            map,
        })
    }

    /// This process's rank, from 0.
    #[inline]
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.rank
    }

    /// Number of ranks in the job.
    #[inline]
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The world's endpoint: context 0.
    #[inline]
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint<'_> {
        Endpoint::new(self, 0)
    }

    /// The numbers in force.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        self.engine().tuning()
    }

    /// Puts other numbers in force, for messages that begin from now on. Ranks need not agree on them.
    pub fn retune(&self, tuning: Tuning) {
        self.engine().retune(tuning);
    }

    /// Leaves the job: waits until everything that was sent has been handed over, then says so to the peers.
    ///
    /// # Errors
    ///
    /// [`Error`] when what was sent could not be handed over; the job is left all the same.
    ///
    /// # Source
    ///
    /// MPI-4.1 §11.2.2, `MPI_FINALIZE`.
    pub fn finalize(self) -> Result<(), Error> {
        self.leave()
    }

    fn leave(&self) -> Result<(), Error> {
        if self.map.segment().rank_block(self.rank).liveness.state() >= Life::Dead {
            return Ok(());
        }
        let flushed = self.wait_until(|| self.engine().is_flushed().then_some(()));
        for (_, mut meeting) in self.meetings.take() {
            meeting.leave(self);
        }
        self.end(Life::Finished);
        let told = self.store.borrow_mut().finalize();
        flushed?;
        Ok(told.map_err(BootError::Store)?)
    }

    /// Says how this rank ends, to sleepers too.
    fn end(&self, how: Life) {
        self.map.segment().rank_block(self.rank).liveness.end(how);
        self.wake_sleepers(0..self.size);
    }

    /// The engine, to be used by the caller alone until the borrow ends.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the cell is the exclusive access; see SAFETY")]
    pub(crate) fn engine(&self) -> &mut ShmEngine {
        // SAFETY: a world is not `Sync`, so one thread is here. Callers in this crate hold the borrow for one engine
        // call and run no code of the user's meanwhile, so no second borrow exists.
        unsafe { &mut *self.engine.get() }
    }

    /// The ways into the peers' memories, for tests that bar them.
    #[cfg(test)]
    #[expect(clippy::mut_from_ref, reason = "as in `engine`")]
    pub(crate) fn cma_for_test(&self) -> &mut Cma {
        // SAFETY: as in `engine`.
        unsafe { &mut *self.cma.get() }
    }

    pub(crate) const fn spin(&self) -> Spin {
        self.spin
    }

    /// An owner that no other scope of this world has.
    pub(crate) fn next_owner(&self) -> Owner {
        self.scopes.set(self.scopes.get().wrapping_add(1));
        Owner(self.scopes.get())
    }

    /// True when the engine sent something at once, which the destination then gets to see.
    #[inline(always)]
    pub(crate) fn wake_after(&self, sent: SentShort, destination: Rank) -> bool {
        match sent {
            SentShort::Yes => true,
            SentShort::No => false,
            SentShort::ToSleeper => {
                self.wake(destination);
                true
            }
        }
    }

    /// Begins to send, after the copy ring is backed if the message is the first that wants it.
    ///
    /// # Safety
    ///
    /// As for [`Engine::isend`].
    pub(crate) unsafe fn isend(
        &self,
        destination: Rank,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        let engine = self.engine();
        if engine.wants_ring(destination, data.remaining()) {
            let backed = self.map.back_ring(self.rank, destination).is_ok();
            engine.ring_backed(destination, backed);
        }
        // SAFETY: by the contract.
        let sent = unsafe { engine.isend(destination, key, data, owner) };
        self.serve_wants();
        sent
    }

    /// Backs the fastboxes that the engine wants, and wakes whom it wants awake.
    pub(crate) fn serve_wants(&self) {
        while let Some(peer) = self.engine().poll_want() {
            let backed = self.map.back_fastbox(self.rank, peer).is_ok();
            self.engine().fastbox_backed(peer, backed);
        }
        while let Some(peer) = self.engine().poll_bell() {
            self.wake(peer);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, rank: Rank) {
        sleep::wake(&self.map.segment().rank_block(rank).doorbell);
    }

    /// Wakes those of `ranks` that sleep: something that they may wait for has come, and not by a message.
    #[inline(always)]
    pub(crate) fn wake_sleepers(&self, ranks: impl Iterator<Item = Rank>) {
        let segment = self.map.segment();
        for rank in ranks {
            if segment.rank_block(rank).doorbell.is_wanted() {
                self.wake(rank);
            }
        }
    }

    /// Where all ranks meet in each context. Held during one operation.
    #[inline(always)]
    pub(crate) fn meetings(&self) -> RefMut<'_, Vec<(u32, Meeting)>> {
        self.meetings.borrow_mut()
    }

    /// The segment, for as long as the world lives.
    #[inline(always)]
    pub(crate) fn segment(&self) -> Segment {
        self.map.segment()
    }

    /// Moves everything that can move without waiting, and some of the large messages. Says whether anything did.
    pub(crate) fn progress(&self) -> Result<bool, ProgressError> {
        self.tell_time();
        let moved = self.engine().progress();
        let carried = self.move_large();
        self.serve_wants();
        Ok(moved? | carried?)
    }

    /// Tells the engine the time, if it wants to know.
    #[inline(always)]
    fn tell_time(&self) {
        if self.engine().wants_time() {
            // Over 500 years fit.
            self.engine().tell_time(self.begin.elapsed().as_nanos() as u64);
        }
    }

    /// Moves pieces of large messages, few enough that the queues are not kept waiting.
    fn move_large(&self) -> Result<bool, ProgressError> {
        for number in 0..JOBS_PER_PROGRESS {
            let Some(job) = self.engine().poll_transfer()? else { return Ok(number > 0) };
            // SAFETY: the engine gave it just now.
            let result = if unsafe { job.copy() } {
                Ok(())
            } else {
                // SAFETY: as in `engine`.
                unsafe { &mut *self.cma.get() }.perform(&self.map.segment(), &job)
            };
            self.tell_time();
            self.engine().transfer_done(&job, result)?;
        }
        Ok(true)
    }

    /// Makes progress for a call that does not wait. A program that makes only such calls learns of deaths here.
    pub(crate) fn poll(&self) -> Result<(), Error> {
        let moved = self.progress()?;
        let mut glance = self.glance.get();
        let due = !moved && glance.is_due();
        self.glance.set(glance);
        if due {
            self.look_for_the_gone()?;
        }
        Ok(())
    }

    /// Makes progress until `look` finds what it looks for. What that is comes by progress, by the end of a peer, or with
    /// a ring of the doorbell.
    pub(crate) fn wait_until<T>(&self, mut look: impl FnMut() -> Option<T>) -> Result<T, Error> {
        let mut patience = Patience::new(self.spin);
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if self.progress()? {
                patience.reset();
                continue;
            }
            match patience.pass() {
                Pass::Again => {}
                Pass::LookForTheGone => {
                    if !self.look_for_the_gone()? {
                        patience.wonder();
                        std::thread::yield_now();
                    }
                }
                Pass::Sleep => {
                    let segment = self.map.segment();
                    let bell = &segment.rank_block(self.rank).doorbell;
                    let mut found = None;
                    let awake = self.sleep.sleep(bell, || {
                        found = look();
                        Ok::<_, ProgressError>(found.is_some() || self.progress()?)
                    })?;
                    if let Some(found) = found {
                        return Ok(found);
                    }
                    if awake {
                        patience.reset();
                    } else {
                        patience.glance();
                    }
                }
            }
        }
    }

    /// Waits for an operation, and ends its claim on its buffer whatever happens.
    pub(crate) fn wait(&self, id: RequestId) -> Result<Outcome, Error> {
        let outcome = self.wait_until(|| self.engine().test(id));
        if outcome.is_err() {
            self.settle(id);
        }
        outcome
    }

    /// Ends an operation's claim on its buffer without its outcome.
    pub(crate) fn settle(&self, id: RequestId) {
        self.settle_by(|engine| engine.detach(id).is_ok());
    }

    /// As [`World::settle`], for all operations of a scope.
    pub(crate) fn settle_owned(&self, owner: Owner) {
        self.settle_by(|engine| engine.detach_owned(owner).is_ok());
    }

    /// Ends claims by `detach`, which may have to wait: for a peer that is in the middle of moving a piece of a large message,
    /// or, when there is no memory to copy the rest of a send, until it has left from where it is.
    fn settle_by(&self, detach: impl Fn(&mut ShmEngine) -> bool) {
        if self.wait_until(|| detach(self.engine()).then_some(())).is_ok() {
            return;
        }
        // No progress can be made any more: nothing may touch the buffers all the same.
        let segment = self.map.segment();
        let is_gone = |rank| segment.rank_block(rank).liveness.state() >= Life::Dead;
        while !self.engine().stop(is_gone) {
            // SAFETY: as in `engine`.
            unsafe { &mut *self.watch.get() }.check(&segment, self.rank);
            std::thread::yield_now();
        }
    }

    /// Tells the engine who died or left since the last look. False: not all of it could be settled yet.
    pub(crate) fn look_for_the_gone(&self) -> Result<bool, Error> {
        let segment = self.map.segment();
        // SAFETY: as in `engine`.
        let watch = unsafe { &mut *self.watch.get() };
        watch.check(&segment, self.rank);
        let mut settled = true;
        for rank in (0..self.size).filter(|rank| *rank != self.rank) {
            let how = match segment.rank_block(rank).liveness.state() {
                Life::Unborn | Life::Alive => continue,
                Life::Finished => Gone::Finished,
                Life::Dead => Gone::Failed,
            };
            settled &= self.engine().peer_gone(rank, how)?;
        }
        self.serve_wants();
        Ok(settled)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Peers learn at once that nothing more comes; waiting for them could hide the panic for ever.
            self.end(Life::Dead);
        } else {
            let _ = self.leave();
        }
    }
}
