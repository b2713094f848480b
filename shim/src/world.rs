//! A process's place in a job, and the engine that works for it.

use core::cell::{RefCell, RefMut, UnsafeCell};
use core::fmt;
use std::sync::Arc;
use std::time::Instant;

use strait_core::layout::{Config, Life, Plan, Segment};
use strait_core::progress::{
    Cursor, Engine, Owner, ProgressError, Sent, SentShort, StartError, Tuning,
};
use strait_core::wire::Key;

use crate::boot::{self, BootError, InProcess, KeyValueStore};
use crate::cma::Cma;
use crate::collective::Meeting;
use crate::liveness::{self, Watch};
use crate::memory::SystemMemory;
use crate::nodes::Nodes;
use crate::patience::{Glance, Spin};
use crate::segment::{Heap, SegmentError, SegmentMap};
use crate::sleep::{self, Sleep};
use crate::{Endpoint, Error, Rank, topology};

mod job;
mod network;
mod waiting;

/// Pieces of large messages that are moved between two looks at everything else; each takes 100 µs at most.
const JOBS_PER_PROGRESS: u32 = 4;

/// The engine of this crate.
pub(crate) type ShmEngine = Engine<SystemMemory>;

/// This process's place in a job: the analogue of `MPI_COMM_WORLD` (MPI-4.1 §7.2.4).
///
/// One thread at a time uses a world; it may be moved to another thread. Dropping it leaves the job as
/// [`World::finalize`] does, but tells nobody when that fails; dropping it while panicking counts as dying.
pub struct World {
    /// Touches buffers that the engine names, so it goes first.
    network: network::Way,
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
    /// [`Error::Boot`] when the process was not started by a launcher, or does not fit it; [`Error::Network`] when the job
    /// spans nodes and there is no network between them; [`Error::Environment`] when a `STRAIT_*` variable is unusable.
    ///
    /// # Source
    ///
    /// MPI-4.1 §11.2.1, `MPI_INIT`.
    pub fn init() -> Result<Self, Error> {
        let (tuning, cpus) = (crate::env::tuning()?, crate::env::cpus()?);
        let boot::Membership { rank, nodes, map, mut store } = boot::join()?;
        let network = network::of_process(rank, &nodes, store.as_mut())?;
        Self::new(Arc::new(map), rank, nodes, store, network, cpus, tuning)
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
        let mut store = InProcess::new(config.ranks);
        let networks = network::in_process(nodes, &mut store)?;
        (0..config.ranks)
            .zip(networks)
            .map(|(rank, network)| {
                let map = &maps[nodes.node_of(rank).unwrap_or(0) as usize];
                liveness::attach_self(&map.segment().rank_block(rank).liveness);
                let store = Box::new(store.clone());
                Self::new(Arc::clone(map), rank, nodes.clone(), store, network, cpus, tuning)
            })
            .collect()
    }

    fn new(
        map: Arc<SegmentMap>,
        rank: Rank,
        nodes: Nodes,
        store: Box<dyn KeyValueStore>,
        network: network::Way,
        cpus: usize,
        tuning: Tuning,
    ) -> Result<Self, Error> {
        let segment = map.segment();
        let size = segment.ranks();
        let node = nodes.node_of(rank).unwrap_or(0);
        let mut engine = Engine::new(SystemMemory, segment, rank, tuning)?;
        let elsewhere = |rank: &Rank| nodes.node_of(*rank) != Some(node);
        for rank in (0..size).filter(elsewhere) {
            match network {
                Some(_) => engine.set_remote(rank)?,
                None => engine.set_unreachable(rank),
            }
        }
        Ok(Self {
            network,
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
        let told_far = self.leave_network();
        for (_, mut meeting) in self.meetings.take() {
            meeting.leave(self);
        }
        self.end(Life::Finished);
        let told = self.store.borrow_mut().finalize();
        flushed.and(told_far)?;
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

    /// The ways into the peers' memories, to be used by the caller alone until the borrow ends.
    #[expect(clippy::mut_from_ref, reason = "as in `engine`")]
    pub(crate) fn cma(&self) -> &mut Cma {
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

    /// The initial progress call of `[SpecRndv09]` §3.1.1 before a message begins to be sent or received, where what has come may
    /// make a difference.
    pub(crate) fn progress_first(&self, peer: Rank, key: Key, length: usize) {
        if self.engine().speculates(peer, key, length) {
            // An error is met again, and reported, by the next progress.
            let _ = self.progress();
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
        self.progress_first(destination, key, data.remaining());
        let engine = self.engine();
        if engine.wants_ring(destination, data.remaining()) {
            let backed = self.map.back_ring(self.rank, destination).is_ok();
            engine.ring_backed(destination, backed);
        }
        // SAFETY: by the contract.
        let sent = unsafe { engine.isend(destination, key, data, owner) };
        self.serve_wants();
        if self.network.is_some() && matches!(sent, Ok(Sent::Pending(_))) {
            // An error is met again, and reported, by progress.
            let _ = self.poll_network();
        }
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
        let far = self.poll_network();
        self.serve_wants();
        Ok(moved? | carried? | far?)
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
                self.cma().perform(&self.map.segment(), &job)
            };
            self.tell_time();
            self.engine().transfer_done(&job, result)?;
        }
        Ok(true)
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
