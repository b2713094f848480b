//! How a world is made: what the program asks for, under what the environment asks for.

use std::path::PathBuf;

use strait_core::engine::Tuning;
use strait_core::layout::SegmentConfig;
use strait_core::ring::Design;
use strait_hca::DeviceChoice;
use strait_platform::boot::{self, BootError, KeyValueStore, SharedStore};
use strait_platform::record::RecordPlace;
use strait_platform::{Nodes, Rank, liveness};

use super::World;
use crate::network::job as networks;
use crate::{Error, env, warning};

/// What makes progress on messages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// The calls of the program.
    #[default]
    Calls,
    /// The calls, and a thread while the program computes: see [`World::start_progress_thread`].
    Thread,
}

/// The settings of a world: [`World::builder`].
///
/// Each setting has an environment variable. A variable that is set wins over the program, so that
/// a user can tune a program without changing it. A setting that neither gives has its default.
///
/// | method | variable |
/// |---|---|
/// | [`tuning`](Self::tuning) | one for each field: see `docs/settings.md` |
/// | [`device`](Self::device) | `STRAIT_HCA` |
/// | [`ring`](Self::ring) | `STRAIT_RING` |
/// | [`progress`](Self::progress) | `STRAIT_PROGRESS` |
/// | [`rendezvous_profile`](Self::rendezvous_profile) | `STRAIT_RENDEZVOUS_PROFILE` |
///
/// ```
/// use strait::{Progress, Tuning, World};
///
/// # fn main() -> Result<(), strait::Error> {
/// let tuning = Tuning { eager_max: 4096, ..Tuning::default() };
/// let worlds = World::builder().tuning(tuning).progress(Progress::Thread).in_process(2)?;
/// # if std::env::var_os("STRAIT_EAGER_MAX").is_none() {
/// assert_eq!(worlds[0].tuning().eager_max, 4096);
/// # }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes a world only when `init` or `in_process` is called"]
pub struct WorldBuilder {
    tuning: Tuning,
    device: Option<DeviceChoice>,
    ring: Design,
    progress: Progress,
    profile: Option<PathBuf>,
    segment: Option<SegmentConfig>,
    nodes: Option<Nodes>,
}

impl World {
    /// Returns the settings of a world, with their defaults.
    ///
    /// ```no_run
    /// let world = strait::World::builder().progress(strait::Progress::Thread).init()?;
    /// # Ok::<(), strait::Error>(())
    /// ```
    pub fn builder() -> WorldBuilder {
        WorldBuilder {
            tuning: Tuning::default(),
            device: None,
            ring: Design::ZeroCopy,
            progress: Progress::Calls,
            profile: None,
            segment: None,
            nodes: None,
        }
    }

    /// Joins the job for which a launcher started this process: `strait run`, or another one with
    /// PMI-1, such as MPICH's `mpiexec.hydra`, where it waits for all ranks. Call it once.
    ///
    /// ```no_run
    /// let world = strait::World::init()?;
    /// println!("rank {} of {}", world.rank(), world.size());
    /// world.finalize()?;
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Boot`] when no launcher started the process, or the process does not match the job;
    /// [`Error::Network`] when the job spans nodes without a network; [`Error::Environment`] when a
    /// `STRAIT_*` variable is unusable.
    ///
    /// An unknown `STRAIT_*` variable has no effect. [`World::take_warnings`] of rank 0 names it.
    ///
    /// # Source
    ///
    /// MPI-4.1 §11.2.1, `MPI_INIT`.
    pub fn init() -> Result<Self, Error> {
        Self::builder().init()
    }

    /// Joins a job of `size` ranks as `rank`, without a launcher. The ranks find each other through
    /// a store of the embedder. `None` as `nodes` makes a node of each host and boot. It waits for
    /// all ranks.
    ///
    /// ```no_run
    /// use strait::boot::KeyValueStore;
    ///
    /// fn join(rank: u32, size: u32, store: Box<dyn KeyValueStore>) -> Result<(), strait::Error> {
    ///     let world = strait::World::init_with(rank, size, store, None)?;
    ///     world.endpoint().barrier()?;
    ///     world.finalize()
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`World::init`].
    ///
    /// # Panics
    ///
    /// When `rank` is not below `size`, or `nodes` has another number of ranks.
    pub fn init_with(
        rank: Rank,
        size: u32,
        store: Box<dyn KeyValueStore>,
        nodes: Option<Nodes>,
    ) -> Result<Self, Error> {
        Self::builder().init_with(rank, size, store, nodes)
    }
}

impl WorldBuilder {
    /// Chooses the limits between the ways of messages. [`World::retune`] changes them later.
    pub fn tuning(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// Chooses the device between nodes. The default is a software device on one host, and RDMA
    /// devices on several.
    pub fn device(self, device: DeviceChoice) -> Self {
        Self { device: Some(device), ..self }
    }

    /// Chooses the design of the RDMA channel between nodes. All ranks choose the same.
    pub fn ring(self, ring: Design) -> Self {
        Self { ring, ..self }
    }

    /// Chooses what makes progress.
    pub fn progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    /// Follows the rendezvous profile that a run of as many ranks wrote into `directory`.
    /// If most receives of an envelope came first, it asks from the first message on. If not, it
    /// never asks. Ranks may follow different profiles, or none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = std::env::temp_dir().join(format!("follow.{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// # let text = "strait rendezvous profile 1: rank 0 of 1\n";
    /// # std::fs::write(directory.join("rank.0"), text)?;
    /// let worlds = strait::World::builder().rendezvous_profile(&directory).in_process(1)?;
    /// # drop(worlds);
    /// # std::fs::remove_dir_all(&directory)?;
    /// # Ok(()) }
    /// ```
    ///
    /// `strait tune --profile` writes a profile ([`crate::profile`]). A file that is missing or
    /// wrong is an error of the call that makes the world.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.6, static adaptation.
    pub fn rendezvous_profile(self, directory: impl Into<PathBuf>) -> Self {
        Self { profile: Some(directory.into()), ..self }
    }

    /// Chooses the shape of the segment of a job [inside this process](Self::in_process).
    /// Launchers choose that of other jobs.
    pub fn segment(self, segment: SegmentConfig) -> Self {
        Self { segment: Some(segment), ..self }
    }

    /// Places the ranks of a job [inside this process](Self::in_process) as if on these nodes.
    pub fn nodes(self, nodes: Nodes) -> Self {
        Self { nodes: Some(nodes), ..self }
    }

    /// Joins the job for which a launcher started this process, as [`World::init`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`World::init`].
    pub fn init(self) -> Result<World, Error> {
        self.begin(boot::join)
    }

    /// Joins a job without a launcher, as [`World::init_with`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`World::init`].
    ///
    /// # Panics
    ///
    /// When `rank` is not below `size`, or `nodes` has another number of ranks.
    pub fn init_with(
        self,
        rank: Rank,
        size: u32,
        store: Box<dyn KeyValueStore>,
        nodes: Option<Nodes>,
    ) -> Result<World, Error> {
        assert!(rank < size, "rank {rank} of a job of {size} ranks");
        assert!(nodes.as_ref().is_none_or(|nodes| nodes.ranks() == size), "ranks on nodes");
        self.begin(|| boot::join_with(store, rank, size, nodes))
    }

    fn begin(
        self,
        join: impl FnOnce() -> Result<boot::Membership, BootError>,
    ) -> Result<World, Error> {
        let Self { tuning, device, ring, progress, profile, .. } = self.under_environment()?;
        let cpus = env::cpus()?;
        let boot::Membership { rank, nodes, map, store, deaths_are_told } = join()?;
        let (kind, store) = ((device, ring), SharedStore::new(store));
        let record = RecordPlace::of(&map, rank);
        let is_dead = |rank| liveness::is_dead(&map.rank_block(rank).liveness);
        let network =
            networks::of_process(kind, rank, &nodes, &store, record, deaths_are_told, is_dead)?;
        let mut world =
            World::new(std::sync::Arc::new(map), rank, nodes, store, network, cpus, tuning)?;
        if rank == 0 {
            world.warnings = warning::of_environment().into();
        }
        world.tell_deaths_unless(deaths_are_told);
        world.begin_profiles(profile)?;
        if progress == Progress::Thread {
            world.start_progress_thread()?;
        }
        Ok(world)
    }

    /// Creates a job of `ranks` ranks inside this process, as [`World::in_process`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`World::in_process`].
    ///
    /// # Panics
    ///
    /// When the [segment](Self::segment) or the [nodes](Self::nodes) have another number of ranks.
    pub fn in_process(self, ranks: u32) -> Result<Vec<World>, Error> {
        let Self { tuning, device, ring, progress, profile, segment, nodes } =
            self.under_environment()?;
        let config = segment.unwrap_or(SegmentConfig::new(ranks));
        assert_eq!(config.ranks, ranks, "ranks of the segment");
        World::check_shape(config)?;
        let nodes = nodes.unwrap_or_else(|| Nodes::one(ranks));
        let kind = (device.unwrap_or(networks::DEFAULT_DEVICE), ring);
        let mut worlds = World::in_process_by(kind, tuning, config, &nodes)?;
        worlds.iter_mut().try_for_each(|world| world.begin_profiles(profile.clone()))?;
        if progress == Progress::Thread {
            worlds.iter_mut().try_for_each(World::start_progress_thread)?;
        }
        Ok(worlds)
    }

    /// Returns these settings, with those of the environment in place of the program's.
    fn under_environment(self) -> Result<Self, Error> {
        env::check()?;
        if let Some(mode) = env::record_asked()? {
            mode.choose();
        }
        Ok(Self {
            tuning: env::tuning_over(self.tuning)?,
            device: env::hca()?.or(self.device),
            ring: env::ring_asked()?.unwrap_or(self.ring),
            progress: match env::progress_asked()? {
                Some(true) => Progress::Thread,
                Some(false) => Progress::Calls,
                None => self.progress,
            },
            ..self
        })
    }
}
