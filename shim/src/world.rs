//! A process's place in a job, and the engine that works for it.

use core::cell::{Cell, OnceCell, RefCell, RefMut, UnsafeCell};
use core::fmt;
use std::sync::Arc;
use std::time::Instant;

use strait_core::layout::{Call, Config, Life, Plan, Segment, Wait};
use strait_core::matching::Pattern;
use strait_core::progress::{
    Cursor, Engine, MessageId, Owner, Received, SendMode, Sent, SentShort, StartError, Tuning,
};
use strait_core::wire::Key;

use crate::boot::{self, BootError, InProcess, KeyValueStore};
use crate::cma::Cma;
use crate::collective::{Meeting, Registry};
use crate::liveness::{self, Watch};
use crate::memory::SystemMemory;
use crate::nodes::Nodes;
use crate::patience::{Glance, Spin};
use crate::segment::{Heap, SegmentError, SegmentMap};
use crate::sleep;
use crate::window::{Baselines, Desks};
use crate::{Endpoint, Error, Rank, topology};

mod job;
mod motor;
mod network;
mod registrations;
mod thread;
mod turns;
mod waiting;

pub(crate) use motor::Motor;
use motor::{Gear, Place};
use thread::ProgressThread;
use turns::Turns;

/// The engine of this crate.
pub(crate) type ShmEngine = Engine<SystemMemory>;

/// This process's place in a job: the analogue of `MPI_COMM_WORLD` (MPI-4.1 §7.2.4).
///
/// One thread at a time uses a world; it may be moved to another thread. Dropping it leaves the job as
/// [`World::finalize`] does, but tells nobody when that fails; dropping it while panicking counts as dying.
pub struct World {
    /// Ends first.
    thread: OnceCell<ProgressThread>,
    /// Its device touches buffers that the engine names, so it goes before the engine.
    turns: Arc<Turns>,
    /// Touched through [`World::short_ways`] and turns alone, whose callers run no code of the user's while they hold it. Where there is a
    /// thread, one that is [away](Engine::away).
    engine: UnsafeCell<ShmEngine>,
    /// Turns within each other, where there is a thread.
    depth: Cell<u32>,
    /// Scopes opened so far: gives each its own [`Owner`].
    scopes: Cell<u32>,
    rank: Rank,
    size: u32,
    node: u32,
    nodes: Nodes,
    store: RefCell<Box<dyn KeyValueStore>>,
    spin: Spin,
    glance: Cell<Glance>,
    /// What the embedder does while nothing comes.
    idle: Option<Box<dyn Fn() + Send>>,
    /// Where all ranks meet in each context ([`Endpoint::barrier`]).
    meetings: RefCell<Vec<(u32, Meeting)>>,
    groups: RefCell<Registry>,
    pub(crate) heap: Arc<Heap>,
    map: Arc<SegmentMap>,
}

// SAFETY: a world owns its engine, whose pointers lead into the segment, which it keeps mapped, and into buffers that
// scopes keep borrowed: a scope borrows the world, so none is open while the world moves. The groups, which share their members
// with the registry by `Rc`, borrow the world, too.
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
    /// A `STRAIT_*` variable that does not exist has no effect, and is most likely mistyped. `strait run` warns of it;
    /// under another launcher, rank 0 writes one line to standard error.
    ///
    /// # Source
    ///
    /// MPI-4.1 §11.2.1, `MPI_INIT`.
    pub fn init() -> Result<Self, Error> {
        let world = Self::begin(boot::join)?;
        crate::env::warn_as(world.rank());
        Ok(world)
    }

    /// Joins a job of `size` ranks as `rank`, without a launcher: its ranks find each other by a store of the embedder's.
    /// `nodes` says which rank is on which node; without, ranks of one host and boot are. All ranks join together.
    ///
    /// # Errors
    ///
    /// As [`World::init`].
    ///
    /// # Panics
    ///
    /// When `rank` is none of the job, or `nodes` has another number of ranks.
    pub fn init_with(
        rank: Rank,
        size: u32,
        store: Box<dyn KeyValueStore>,
        nodes: Option<Nodes>,
    ) -> Result<Self, Error> {
        assert!(rank < size, "rank {rank} of a job of {size} ranks");
        assert!(nodes.as_ref().is_none_or(|nodes| nodes.ranks() == size), "ranks on nodes");
        Self::begin(|| boot::join_with(store, rank, size, nodes))
    }

    fn begin(join: impl FnOnce() -> Result<boot::Membership, BootError>) -> Result<Self, Error> {
        crate::env::check()?;
        let (tuning, cpus) = (crate::env::tuning()?, crate::env::cpus()?);
        let boot::Membership { rank, nodes, map, mut store, deaths_are_told } = join()?;
        let network = network::of_process(rank, &nodes, store.as_mut(), deaths_are_told)?;
        let mut world = Self::new(Arc::new(map), rank, nodes, store, network, cpus, tuning)?;
        if crate::env::progress_thread()? {
            world.start_progress_thread()?;
        }
        Ok(world)
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
        let mut worlds = Self::in_process_by(network::env_kind()?, config, nodes)?;
        if crate::env::progress_thread()? {
            worlds.iter_mut().try_for_each(Self::start_progress_thread)?;
        }
        Ok(worlds)
    }

    fn in_process_by(
        kind: network::Kind,
        config: Config,
        nodes: &Nodes,
    ) -> Result<Vec<Self>, Error> {
        assert_eq!(config.ranks, nodes.ranks(), "ranks of the segment and ranks on nodes");
        crate::env::check()?;
        let tuning = crate::env::tuning()?;
        let nonce = boot::nonce()?;
        let maps = (0..nodes.count().max(1))
            .map(|node| SegmentMap::create_on(config, nonce, nodes, node).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let cpus = topology::allowed_cpu_count();
        let mut store = InProcess::new(config.ranks);
        let networks = network::in_process(kind, nodes, &mut store)?;
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

    /// A rank of a universe, whose others come and go.
    pub(crate) fn alone(
        map: Arc<SegmentMap>,
        rank: Rank,
        nodes: Nodes,
        cpus: usize,
        tuning: Tuning,
    ) -> Result<Self, Error> {
        Self::new(map, rank, nodes, Box::new(InProcess::new(1)), None, cpus, tuning)
    }

    fn new(
        map: Arc<SegmentMap>,
        rank: Rank,
        nodes: Nodes,
        store: Box<dyn KeyValueStore>,
        mut network: network::Way,
        cpus: usize,
        tuning: Tuning,
    ) -> Result<Self, Error> {
        let segment = map.segment();
        let size = segment.ranks();
        let node = nodes.node_of(rank).unwrap_or(0);
        let mut engine = Engine::new(SystemMemory, segment, rank, tuning)?;
        let sleep = network::sleep(&network, &segment, rank)?;
        let spin = Spin::new(nodes.ranks_on(node).count() as u32, cpus);
        let spin = match &network {
            Some(network) if network.has_threads() => spin.beside_devices(size, cpus),
            _ => spin,
        };
        let elsewhere = |rank: &Rank| nodes.node_of(*rank) != Some(node);
        for rank in (0..size).filter(elsewhere) {
            match network {
                Some(_) => engine.set_remote(rank)?,
                None => engine.set_unreachable(rank),
            }
        }
        let heap = Arc::new(Heap::new(Arc::clone(&map), rank));
        if let Some(network) = &mut network {
            network.keep_heap(Arc::clone(&heap));
        }
        let (watch, cma) = (Watch::new(size), Cma::new(&segment, rank));
        let (desks, baselines) = (Desks::default(), Baselines::default());
        let gear = Gear { network, watch, cma, desks, baselines };
        let place = Place { map: Arc::clone(&map), rank, size, sleep, begin: Instant::now() };
        Ok(Self {
            thread: OnceCell::new(),
            turns: Arc::new(Turns::new(place, gear)),
            engine: UnsafeCell::new(engine),
            depth: Cell::new(0),
            scopes: Cell::new(0),
            rank,
            size,
            node,
            spin,
            glance: Cell::new(Glance::new()),
            idle: None,
            meetings: RefCell::default(),
            groups: RefCell::default(),
            heap,
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
        self.turn().tuning()
    }

    /// Puts other numbers in force, for messages that begin from now on. Ranks need not agree on them.
    pub fn retune(&self, tuning: Tuning) {
        self.turn().retune(tuning);
    }

    /// Has `idle` called whenever a wait would give up the processor or sleep: it may run other work, such as a thread of the
    /// embedder's own, and returns. It may make calls on this world again, but none that all ranks make together.
    pub fn set_idle(&mut self, idle: impl Fn() + Send + 'static) {
        self.spin = self.spin.without_yields();
        self.idle = Some(Box::new(idle));
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
    pub fn finalize(mut self) -> Result<(), Error> {
        self.leave()
    }

    fn leave(&mut self) -> Result<(), Error> {
        self.stop_progress_thread();
        if self.map.segment().rank_block(self.rank).liveness.state() >= Life::Dead {
            return Ok(());
        }
        let what = || Wait::new(Call::Finalize);
        self.with_baselines(Baselines::press_all);
        let is_flushed =
            || self.with_baselines(|all| all.is_handed_over()) && self.turn().is_flushed();
        let flushed = self.wait_until(what, || is_flushed().then_some(()));
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

    /// The engine for the short ways, to be used by the caller alone until the borrow ends: one that may be away, and then sends
    /// and receives nothing. Else use [`World::turn`].
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the cell is the exclusive access; see SAFETY")]
    pub(crate) fn short_ways(&self) -> &mut ShmEngine {
        // SAFETY: a world is not `Sync`, so one thread is here, and a progress thread has an engine elsewhere. Callers in this
        // crate hold the borrow for one engine call and run no code of the user's meanwhile, so no second borrow exists.
        unsafe { &mut *self.engine.get() }
    }

    /// Whether a progress thread takes turns with this world's calls.
    #[inline(always)]
    fn has_thread(&self) -> bool {
        self.thread.get().is_some()
    }

    /// Whether a rank is not known to be gone; false, too, where that takes a turn to find out.
    #[inline(always)]
    pub(crate) fn is_plainly_here(&self, rank: Rank) -> bool {
        !self.has_thread() && self.short_ways().gone(rank).is_none()
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

    /// Begins to send.
    ///
    /// # Safety
    ///
    /// As for [`Engine::isend`].
    pub(crate) unsafe fn isend(
        &self,
        mode: SendMode,
        destination: Rank,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        // SAFETY: by the contract.
        unsafe { self.turn().motor().isend(mode, destination, key, data, owner) }
    }

    /// Begins to receive. An RTR leaves at once.
    ///
    /// # Safety
    ///
    /// As for [`Engine::irecv`].
    pub(crate) unsafe fn irecv(
        &self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        // SAFETY: by the contract.
        unsafe { self.turn().motor().irecv(pattern, buffer, owner) }
    }

    /// Begins to receive a message that a probe has matched.
    ///
    /// # Safety
    ///
    /// As for [`Engine::imrecv`].
    pub(crate) unsafe fn imrecv(
        &self,
        message: MessageId,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        // SAFETY: by the contract.
        unsafe { self.turn().motor().imrecv(message, buffer, owner) }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&self, rank: Rank) {
        sleep::wake(&self.map.segment(), rank);
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

    /// Has `act` use the lock managers of this rank's windows.
    pub(crate) fn with_desks<R>(&self, act: impl FnOnce(&mut Desks) -> R) -> R {
        act(&mut self.turn().motor().gear.desks)
    }

    /// Has `act` use the windows of this rank that go by messages.
    pub(crate) fn with_baselines<R>(&self, act: impl FnOnce(&mut Baselines) -> R) -> R {
        act(&mut self.turn().motor().gear.baselines)
    }

    /// Moves everything that can move without waiting, and some of the large messages. Says whether anything did.
    pub(crate) fn progress(&self) -> Result<bool, Error> {
        let mut turn = self.turn();
        let mut motor = turn.motor();
        let moved = motor.progress()?;
        motor.refusal()?;
        Ok(moved)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop_progress_thread();
            // Peers learn at once that nothing more comes; waiting for them could hide the panic for ever.
            self.end(Life::Dead);
        } else {
            let _ = self.leave();
        }
    }
}
