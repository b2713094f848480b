//! The membership of a process in a job, with the engine that runs its part of the protocol.

use core::cell::{Cell, RefCell, RefMut};
use core::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use strait_core::buffer::Cursor;
use strait_core::engine::{
    Engine, MessageId, Owner, Received, SendMode, Sent, SentShort, StartError, Tuning,
};
use strait_core::layout::Segment;
use strait_core::lmt::TransferMethod;
use strait_core::matching::Pattern;
use strait_core::wire::Key;
use strait_platform::backoff::{CallTimer, SpinLimits};
use strait_platform::boot::{InProcess, SharedStore};
use strait_platform::clock::monotonic_ns;
use strait_platform::cma::Cma;
use strait_platform::liveness::LivenessWatch;
use strait_platform::record::RecordMode;
use strait_platform::segment::{Heap, SegmentMap};
use strait_platform::sleep;
use strait_platform::{Nodes, Rank};

use crate::Error;
use crate::memory::SystemMemory;
use crate::network::job::{self as networks, OptionalNetwork};
use crate::progress::context::OsResources;
use crate::progress::place::RankContext;
use crate::progress::rank_engine::{ProgressGuard, RankEngine};
use crate::progress::windows::baseline::Baselines;
use crate::progress::windows::lock_managers::WindowLockManagers;
use crate::warning::Warning;
use groups::GroupRegistry;
use meeting::{CollectiveMemory, MeetingPoint};
use method::OwnedMethod;
use number::WorldNumber;

pub(crate) mod builder;
pub(crate) mod groups;
mod idle;
mod in_process;
mod job;
mod leaving;
mod line_room;
mod line_waits;
pub(crate) mod meeting;
mod method;
mod network;
pub(crate) mod number;
mod prepare;
mod processors;
mod profile;
mod registrations;
mod usage;
mod waiting;

pub(crate) use idle::PollRecord;
pub use idle::PortWait;
pub use waiting::LoopRecord;

/// The membership of this process in a job: the analogue of `MPI_COMM_WORLD` (MPI-4.1 §7.2.4).
///
/// One thread at a time uses a world, which may move between threads. A drop leaves the job as
/// [`World::finalize`] does, without reports. A drop in a panic counts as the death of the rank.
pub struct World {
    /// Dropped first.
    engine: RankEngine,
    number: WorldNumber,
    /// Number of scopes opened so far. It gives each scope its own [`Owner`].
    scopes: Cell<u32>,
    rank: Rank,
    size: u32,
    node: u32,
    nodes: Nodes,
    /// The job's key-value store, which the network uses, too.
    store: SharedStore,
    spin: SpinLimits,
    call_timer: Cell<CallTimer>,
    /// Time of the last check in a wait which ranks are alive.
    checked: Cell<Option<Instant>>,
    /// See [`World::needs_rounds`].
    needs_rounds: Cell<bool>,
    /// Work of the embedder, called while a wait finds nothing to do.
    idle: Option<Box<dyn Fn() + Send>>,
    /// Work of the embedder, called before a wait sleeps.
    before_sleep: Option<Box<dyn Fn() -> bool + Send>>,
    /// The meeting points of all ranks, by context ([`crate::Endpoint::barrier`]).
    meetings: RefCell<Vec<(u32, MeetingPoint)>>,
    groups: RefCell<GroupRegistry>,
    pub(crate) collective_memory: CollectiveMemory,
    /// Warnings of the start that were not taken.
    warnings: RefCell<Vec<Warning>>,
    /// Directory for this rank's profile, written when the rank leaves.
    profile_out: Option<PathBuf>,
    /// Returns the name of the function that the program has called, if an interface above this
    /// one has set it.
    caller: Cell<Option<fn() -> &'static str>>,
    /// Dropped after the engine, which calls it.
    method: OwnedMethod,
    pub(crate) heap: Arc<Heap>,
    map: Arc<SegmentMap>,
}

// SAFETY: a world owns its engine. The engine's pointers lead into the segment, which the world
// keeps mapped, and into buffers that scopes keep borrowed. Scopes, and groups, which share members
// with the registry by `Rc`, borrow the world, so none lives while the world moves.
unsafe impl Send for World {}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl World {
    /// Creates the world of a rank of a universe. The other ranks of a universe come and go.
    pub(crate) fn alone(
        map: Arc<SegmentMap>,
        rank: Rank,
        nodes: Nodes,
        cpus: usize,
        tuning: Tuning,
    ) -> Result<Self, Error> {
        let store = SharedStore::new(Box::new(InProcess::new(1)));
        Self::new(map, rank, nodes, store, None, cpus, tuning)
    }

    fn new(
        map: Arc<SegmentMap>,
        rank: Rank,
        nodes: Nodes,
        store: SharedStore,
        mut network: OptionalNetwork,
        cpus: usize,
        tuning: Tuning,
    ) -> Result<Self, Error> {
        // SAFETY: the world and its progress thread keep the map for as long as the engine.
        let segment = unsafe { map.segment() };
        let (size, node) = (segment.ranks(), nodes.node_of(rank).unwrap_or(0));
        let mut engine = Engine::new(SystemMemory, segment, rank, tuning)?;
        if RecordMode::chosen() == RecordMode::Events {
            engine.record_events(monotonic_ns);
        }
        let sleep = networks::sleep(&network, &segment, rank)?;
        let beside_devices = network.as_ref().is_some_and(|network| network.has_threads());
        let spin = Self::spin_limits(&nodes, node, cpus, beside_devices);
        let elsewhere = |rank: &Rank| nodes.node_of(*rank) != Some(node);
        for rank in (0..size).filter(elsewhere) {
            match network {
                Some(_) => engine.set_remote(rank)?,
                None => engine.set_unreachable(rank)?,
            }
        }
        let heap = Arc::new(Heap::new(Arc::clone(&map), rank));
        if let Some(network) = &mut network {
            network.keep_heap(Arc::clone(&heap));
        }
        let (watch, cma) = (LivenessWatch::new(size), Cma::new(&segment, rank));
        let resources = OsResources { network, watch, cma };
        let place = RankContext { map: Arc::clone(&map), rank, size, sleep, begin: Instant::now() };
        let world = Self {
            engine: RankEngine::new(place, resources, engine),
            number: WorldNumber::next(),
            scopes: Cell::new(0),
            rank,
            size,
            node,
            spin,
            call_timer: Cell::new(CallTimer::new()),
            caller: Cell::new(None),
            checked: Cell::new(Some(Instant::now())),
            needs_rounds: Cell::new(!tuning.bypass),
            idle: None,
            before_sleep: None,
            meetings: RefCell::default(),
            groups: RefCell::default(),
            collective_memory: CollectiveMemory::default(),
            warnings: RefCell::default(),
            profile_out: None,
            method: OwnedMethod::default(),
            heap,
            store,
            nodes,
            map,
        };
        world.suit_parcels(cpus);
        Ok(world)
    }

    /// Returns this process's rank, from 0.
    ///
    /// ```
    /// let worlds = strait::World::in_process(2)?;
    /// assert_eq!((worlds[1].rank(), worlds[1].size()), (1, 2));
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns the number of ranks in the job.
    ///
    /// ```
    /// let worlds = strait::World::in_process(3)?;
    /// assert!(worlds.iter().all(|world| world.size() == 3));
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Does the work of [`World::set_transfer_method`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    pub(crate) unsafe fn give_transfer_method(
        &self,
        method: Box<dyn TransferMethod + Send>,
    ) -> Result<(), Box<dyn TransferMethod + Send>> {
        // SAFETY: the field is dropped after the engine. The caller guarantees the rest (contract
        // of `set_transfer_method`).
        unsafe { self.method.set(method, &mut self.lock_progress()) }
    }

    /// Returns the tuning in force.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// println!("messages above {} bytes are announced", world.tuning().eager_max);
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        self.lock_progress().tuning()
    }

    /// Changes the tuning for messages that begin from now on. Ranks need not agree on it.
    ///
    /// ```
    /// use strait::Tuning;
    ///
    /// let world = &strait::World::in_process(1)?[0];
    /// world.retune(Tuning { eager_max: 1 << 16, ..world.tuning() });
    /// assert_eq!(world.tuning().eager_max, 1 << 16);
    /// # Ok::<(), strait::Error>(())
    /// ```
    pub fn retune(&self, tuning: Tuning) {
        let mut progress = self.lock_progress();
        progress.retune(tuning);
        self.choose_rounds(&mut progress);
    }

    /// Has each wait call `idle` before it would yield or sleep. `idle` runs other work, such as a
    /// thread of the embedder, and returns. It may call this world, except collectively.
    ///
    /// ```
    /// let mut worlds = strait::World::in_process(2)?;
    /// worlds[1].set_idle(std::thread::yield_now);
    /// # Ok::<(), strait::Error>(())
    /// ```
    pub fn set_idle(&mut self, idle: impl Fn() + Send + 'static) {
        self.spin = self.spin.without_yields();
        self.idle = Some(Box::new(idle));
    }

    /// Has each wait call `work` before it sleeps, such as progress of another library of the
    /// embedder. Where `work` returns true, the wait looks again at once. `work` may call this
    /// world, except collectively, and so may other threads of the embedder that take turns with
    /// the waiting one.
    ///
    /// ```
    /// let mut worlds = strait::World::in_process(2)?;
    /// worlds[1].set_before_sleep(|| false);
    /// # Ok::<(), strait::Error>(())
    /// ```
    pub fn set_before_sleep(&mut self, work: impl Fn() -> bool + Send + 'static) {
        self.before_sleep = Some(Box::new(work));
    }

    /// Has each wait call the work of [`World::set_before_sleep`], or sleep, after `polls` polls
    /// that found nothing. It serves an embedder with several threads that take turns: while one
    /// waits here, the others wait for its turn to end.
    ///
    /// ```
    /// let mut worlds = strait::World::in_process(2)?;
    /// worlds[1].set_polls_before_sleep(64);
    /// # Ok::<(), strait::Error>(())
    /// ```
    pub fn set_polls_before_sleep(&mut self, polls: u32) {
        self.spin = SpinLimits::after(polls);
    }

    /// Calls the work of the embedder before a sleep. Returns whether the wait need not sleep.
    pub(crate) fn is_kept_awake(&self) -> bool {
        self.before_sleep.as_ref().is_some_and(|work| work())
    }

    /// Starts a thread that makes progress while the program computes, as `STRAIT_PROGRESS=thread`
    /// does. The thread ends with the world. Calls then take a mutex, and short messages cost about
    /// 100 ns more.
    ///
    /// ```
    /// let mut worlds = strait::World::in_process(2)?;
    /// worlds[0].start_progress_thread()?;
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the system refuses the thread; [`Error::OutOfMemory`] without memory
    /// for its engine.
    pub fn start_progress_thread(&mut self) -> Result<(), Error> {
        self.engine.start_thread()
    }

    /// Returns the engine, for the short paths. All other paths use [`World::lock_progress`].
    #[inline(always)]
    pub(crate) const fn engine(&self) -> &RankEngine {
        &self.engine
    }

    /// Takes the progress lock, from the thread if there is one.
    #[inline(always)]
    pub(crate) fn lock_progress(&self) -> ProgressGuard<'_> {
        self.engine.lock()
    }

    /// Returns the number that tells this world from the others of this process.
    #[inline]
    pub(crate) const fn number(&self) -> WorldNumber {
        self.number
    }

    pub(crate) const fn spin(&self) -> SpinLimits {
        self.spin
    }

    /// Returns an owner that no other scope of this world has.
    pub(crate) fn next_owner(&self) -> Owner {
        self.scopes.set(self.scopes.get().wrapping_add(1));
        Owner(self.scopes.get())
    }

    /// Returns true when the engine sent the message at once. Wakes the destination if it sleeps.
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

    /// Starts a send.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`Engine::isend`].
    pub(crate) unsafe fn isend(
        &self,
        mode: SendMode,
        destination: Rank,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        // SAFETY: the caller guarantees the same (contract of `isend`).
        unsafe { self.lock_progress().context().isend(mode, destination, key, data, owner) }
    }

    /// Starts a receive. An RTR leaves at once.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`Engine::irecv`].
    pub(crate) unsafe fn irecv(
        &self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        // SAFETY: the caller guarantees the same (contract of `irecv`).
        unsafe { self.lock_progress().context().irecv(pattern, buffer, owner) }
    }

    /// Starts the receive of a message that a probe has matched.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`Engine::imrecv`].
    pub(crate) unsafe fn imrecv(
        &self,
        message: MessageId,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        // SAFETY: the caller guarantees the same (contract of `imrecv`).
        unsafe { self.lock_progress().context().imrecv(message, buffer, owner) }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&self, rank: Rank) {
        sleep::wake(&self.segment(), rank);
    }

    /// Wakes the sleeping ranks among `ranks`, after an event that is not a message.
    #[inline(always)]
    pub(crate) fn wake_sleepers(&self, ranks: impl Iterator<Item = Rank>) {
        let is_asleep = |rank: &Rank| self.map.rank_block(*rank).doorbell.is_wanted();
        ranks.filter(is_asleep).for_each(|rank| self.wake(rank));
    }

    /// Returns the meeting points of all ranks. The borrow lasts for one operation.
    #[inline(always)]
    pub(crate) fn meetings(&self) -> RefMut<'_, Vec<(u32, MeetingPoint)>> {
        self.meetings.borrow_mut()
    }

    /// Returns the view of the segment. This crate uses none after the world is dropped.
    #[inline(always)]
    pub(crate) fn segment(&self) -> Segment {
        // SAFETY: the world keeps the map, and no view is used later (contract of this function).
        unsafe { self.map.segment() }
    }

    /// Runs `act` on the lock managers of this rank's windows.
    pub(crate) fn with_lock_managers<R>(
        &self,
        act: impl FnOnce(&mut WindowLockManagers) -> R,
    ) -> R {
        let mut progress = self.lock_progress();
        let result = act(&mut progress.windows().lock_managers);
        self.choose_rounds(&mut progress);
        result
    }

    /// Runs `act` on this rank's windows by messages.
    pub(crate) fn with_baselines<R>(&self, act: impl FnOnce(&mut Baselines) -> R) -> R {
        let mut progress = self.lock_progress();
        let result = act(&mut progress.windows().baselines);
        self.choose_rounds(&mut progress);
        result
    }

    fn choose_rounds(&self, progress: &mut ProgressGuard<'_>) {
        let has_windows = progress.windows().is_open();
        self.needs_rounds.set(has_windows || !progress.tuning().bypass);
    }

    /// Returns whether receives need rounds of progress. Other ranks may send this one messages for
    /// its windows, which only rounds serve, so calls that find what they want must not go without.
    /// Or the bypass is off ([`Tuning::bypass`]).
    #[inline(always)]
    pub(crate) fn needs_rounds(&self) -> bool {
        self.needs_rounds.get()
    }

    /// Makes one [round](crate::progress) of progress. Returns whether anything moved.
    pub(crate) fn progress(&self) -> Result<bool, Error> {
        let mut guard = self.lock_progress();
        let mut round = guard.round();
        let moved = round.progress()?;
        round.context.refusal()?;
        Ok(moved)
    }
}

#[cfg(test)]
mod refused;
