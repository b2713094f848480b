//! The resources of a job's network: the kind of its devices, and the device of each rank.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use strait_core::hca::HcaError;
use strait_core::regcache::{CacheLimits, Cached};
use strait_core::ring::{Design, LinkConfig};
use strait_core::rma::OPERAND_BUFFERS;
use strait_hca::soft::{Fabric, SoftHca, SoftMode};
use strait_hca::{Composite, Demand, Device, DeviceChoice, Rail};
use strait_platform::boot::{self, KeyValueStore};
use strait_platform::segment::Heap;
use strait_platform::{Nodes, Rank};

use super::Network;
use super::config::{peers, stride};
use super::device_kinds;
use super::mailboxes::mailboxes;
use super::memory_events::MemoryEvents;
use super::near_groups::NearGroups;
use crate::{NetworkError, SystemMemory, env};

/// The device of a job, with a registration cache.
pub(crate) type JobDevice = Cached<Device, MemoryEvents, SystemMemory>;

/// The network of a job.
pub(crate) type JobNetwork = Network<JobDevice>;

impl JobNetwork {
    /// Returns the device with its registration cache.
    pub(crate) const fn device(&mut self) -> &mut JobDevice {
        &mut self.device
    }

    /// Returns whether the devices of the job have their own threads.
    pub(crate) fn has_threads(&self) -> bool {
        self.device.device().has_threads()
    }

    /// Returns a choice that opens another device, which reaches the same peers.
    pub(crate) fn choice(&self) -> DeviceChoice {
        let mut device = self.device.device();
        while let Device::Composite(composite) = device {
            device = composite.far();
        }
        match device {
            Device::Soft(device) => DeviceChoice::Soft(device.mode()),
            _ => DeviceChoice::Verbs(Vec::new()),
        }
    }

    /// Returns the design of the network's links.
    pub(crate) const fn design(&self) -> Design {
        self.others.config().design
    }

    /// Keeps memory in `heap` registered after its use.
    pub(crate) fn keep_heap(&mut self, heap: Arc<Heap>) {
        heap.report();
        self.device.watch().heap = Some(heap);
    }
}

/// Limits of the registration cache. It has fewer entries than a software device has regions.
/// Entries are also evicted when the system lets no more memory be pinned.
const KEPT: CacheLimits = CacheLimits { entries: 256, bytes: u64::MAX };

/// Number of windows over all ranks at a time. A device of libibverbs has room for the lanes of
/// this many.
const WINDOWS: u32 = 8;

/// The resources from which the network of a job is created.
pub(crate) enum NetworkResources {
    /// Software devices that share this memory.
    Soft(OwnedFd, SoftMode),
    /// RDMA devices, assigned to ranks in turn.
    Verbs(Vec<Rail>),
    /// Software devices in these groups of nodes, and the others between them.
    Composite(SoftMode, Option<NearGroups>, Box<Self>),
}

impl NetworkResources {
    /// Creates the resources of a job inside one process. Returns `None` when the choice is no
    /// network.
    pub(crate) fn in_process(
        choice: DeviceChoice,
        nodes: &Nodes,
    ) -> Result<Option<Self>, crate::Error> {
        let groups = NearGroups::of_hosts(nodes, env::hca_hosts()?);
        let fabric = || Fabric::create(nodes.ranks()).map_err(NetworkError::Fabric);
        Ok(Self::of(choice, Some(groups), fabric)?)
    }

    /// Creates the resources of a job. `choice` is the user's, if the user made one. Every rank
    /// calls it. Returns `None` when the choice is no network.
    pub(crate) fn of_process(
        choice: Option<DeviceChoice>,
        store: &mut dyn KeyValueStore,
        rank: Rank,
        nodes: &Nodes,
        is_dead: impl Fn(Rank) -> bool,
    ) -> Result<Option<Self>, NetworkError> {
        let (choice, groups) = device_kinds::agree(choice, store, rank, nodes)?;
        let make = || Fabric::create(nodes.ranks()).map_err(io::Error::other);
        let fabric = || {
            boot::share(store, "fabric", (rank, nodes.ranks()), is_dead, make)
                .map_err(NetworkError::Share)
        };
        Self::of(choice, groups, fabric)
    }

    fn of(
        choice: DeviceChoice,
        groups: Option<NearGroups>,
        fabric: impl FnOnce() -> Result<OwnedFd, NetworkError>,
    ) -> Result<Option<Self>, NetworkError> {
        Ok(match choice {
            DeviceChoice::None => None,
            DeviceChoice::Soft(mode) => Some(Self::Soft(fabric()?, mode)),
            DeviceChoice::Verbs(rails) => Some(Self::Verbs(rails)),
            DeviceChoice::SoftAnd(mode, far) => {
                let far = Self::of(*far, None, fabric)?;
                far.map(|far| Self::Composite(mode, groups, Box::new(far)))
            }
        })
    }

    /// Returns whether the devices reach other hosts.
    pub(crate) const fn reach_further(&self) -> bool {
        match self {
            Self::Soft(..) => false,
            Self::Verbs(_) => true,
            Self::Composite(_, _, far) => far.reach_further(),
        }
    }

    /// Opens the device of `me`.
    pub(crate) fn open(
        &self,
        me: Rank,
        nodes: &Nodes,
        config: &LinkConfig,
    ) -> Result<JobDevice, crate::Error> {
        Ok(cached(self.open_plain(me, nodes, config)?)?)
    }

    /// Opens the device of `me` without a registration cache.
    fn open_plain(
        &self,
        me: Rank,
        nodes: &Nodes,
        config: &LinkConfig,
    ) -> Result<Device, crate::Error> {
        Ok(match self {
            Self::Soft(fabric, mode) => {
                let device = SoftHca::attach(fabric, me, *mode).map_err(NetworkError::Fabric)?;
                Device::Soft(device)
            }
            Self::Verbs(rails) => {
                let demand = demand(peers(me, nodes).count() as u32, nodes.ranks(), config);
                let device = Device::verbs(rails, env::hca_gid()?, me, demand);
                device.map_err(NetworkError::NoDevice)?
            }
            Self::Composite(mode, groups, far) => {
                // Each host has its own, so the devices find each other by their addresses.
                let near = SoftHca::alone(*mode).map_err(NetworkError::Fabric)?;
                let far = far.open_plain(me, nodes, config)?;
                let near_peers = groups.as_ref().map(|groups| groups.near(me, nodes));
                let composite = Composite::new(near, far, near_peers.unwrap_or_default());
                Device::Composite(Box::new(composite.map_err(NetworkError::Device)?))
            }
        })
    }
}

/// Opens a device for `me`, with room for links to `ranks` peers that it may meet later. Returns
/// `None` when the choice is no network.
pub(crate) fn lone(
    choice: DeviceChoice,
    me: Rank,
    ranks: u32,
    config: &LinkConfig,
) -> Result<Option<JobDevice>, crate::Error> {
    // Other processes may be on any host.
    let device = match choice.far() {
        DeviceChoice::None | DeviceChoice::SoftAnd(..) => return Ok(None),
        DeviceChoice::Soft(mode) => {
            Device::Soft(SoftHca::alone(mode).map_err(NetworkError::Fabric)?)
        }
        DeviceChoice::Verbs(rails) => {
            let wants = demand(ranks, 0, config);
            let device = Device::verbs(&rails, env::hca_gid()?, me, wants);
            device.map_err(NetworkError::NoDevice)?
        }
    };
    Ok(Some(cached(device)?))
}

/// Adds a registration cache to a device.
fn cached(device: Device) -> Result<JobDevice, NetworkError> {
    let kept =
        MemoryEvents { everything: matches!(device, Device::Soft(..)), ..MemoryEvents::default() };
    // SAFETY: a software device reaches memory by its address at the time of a request, so it never
    // reaches memory that was mapped there before. No request names unmapped memory. For other
    // devices, the heap reports ranges that it took back. The program reports ranges that it
    // unmapped (contract of `World::watch_memory`). Both report them before the next use, and until
    // then no operation names them.
    let device = unsafe { Cached::new(device, kept, SystemMemory, KEPT) };
    device.map_err(|_| NetworkError::Device(HcaError::Memory { bytes: 0 }))
}

/// Returns what links to `peers` peers and windows of `ranks` ranks need of a device. A link needs
/// a connection, and a receive for its wake-up. The memory is that of one link, because the number
/// of links is not known in advance. It is the link's own memory and a large part of user memory
/// each way. Large transfers go in pieces where the system allows no more. A window needs a
/// connection to each rank, and a receive for each operand buffer. A group with mailboxes needs a
/// connection to each leader.
fn demand(peers: u32, ranks: u32, config: &LinkConfig) -> Demand {
    let each = stride(config) as u64 + 2 * u64::from(env::RING_COPY_DEFAULT);
    let connections = peers + WINDOWS * ranks + mailboxes(ranks);
    let receives = peers + WINDOWS * ranks * OPERAND_BUFFERS as u32;
    Demand { connections, receives, memory: each }
}
