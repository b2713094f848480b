//! What a job's network is made of: the kind of its devices, and the device of each rank.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

use strait_core::hca::HcaError;
use strait_core::regcache::{Cached, Limits};
use strait_core::ring::Config;
use strait_core::rma::TRAYS;

use super::kept::Kept;
use super::{LARGE, Network, NetworkError, peers, stride};
use crate::boot::{self, KeyValueStore};
use crate::hca::soft::{Fabric, Mode, SoftHca};
use crate::hca::{Choice, Demand, Device, Rail};
use crate::{Nodes, Rank, SystemMemory, env, topology};

/// The device of a job, whose registrations may be kept.
pub(crate) type JobDevice = Cached<Device, Kept, SystemMemory>;

/// The network of a job.
pub(crate) type JobNetwork = Network<JobDevice>;

/// Registrations of users' buffers that are kept, at most; fewer than a software device has regions. They are given up when the
/// system lets no more memory be pinned.
const KEPT: Limits = Limits { entries: 256, bytes: u64::MAX };

/// Windows whose members are all ranks, at a time: a device of libibverbs has room for the lanes of so many.
const WINDOWS: u32 = 8;

/// What the network of a job is made of.
pub(crate) enum Means {
    /// Devices in software that share this memory.
    Soft(OwnedFd, Mode),
    /// RDMA devices, which ranks take in turn.
    Verbs(Vec<Rail>),
}

impl Means {
    /// Those of a job inside one process. `None`: there is to be no network.
    pub(crate) fn in_process(choice: Choice, ranks: u32) -> Result<Option<Self>, NetworkError> {
        Self::of(choice, || Fabric::create(ranks).map_err(NetworkError::Fabric))
    }

    /// Those of a job, of which the user may have asked for some. Every rank calls it. `None`: there is to be no network.
    pub(crate) fn of_process(
        choice: Option<Choice>,
        store: &mut dyn KeyValueStore,
        rank: Rank,
        nodes: &Nodes,
    ) -> Result<Option<Self>, NetworkError> {
        let choice = match choice {
            Some(choice) => choice,
            None if hosts(store, rank, nodes)? == 1 => Choice::Soft(Mode::default()),
            None => Choice::Verbs(Vec::new()),
        };
        let make = || Fabric::create(nodes.ranks()).map_err(io::Error::other);
        let fabric = || {
            boot::share(store, "fabric", (rank, nodes.ranks()), make).map_err(NetworkError::Share)
        };
        Self::of(choice, fabric)
    }

    fn of(
        choice: Choice,
        fabric: impl FnOnce() -> Result<OwnedFd, NetworkError>,
    ) -> Result<Option<Self>, NetworkError> {
        Ok(match choice {
            Choice::None => None,
            Choice::Soft(mode) => Some(Self::Soft(fabric()?, mode)),
            Choice::Verbs(rails) => Some(Self::Verbs(rails)),
        })
    }

    /// Whether the devices reach other hosts.
    pub(crate) const fn reach_further(&self) -> bool {
        matches!(self, Self::Verbs(_))
    }

    /// The device of `me`.
    pub(crate) fn open(
        &self,
        me: Rank,
        nodes: &Nodes,
        config: &Config,
    ) -> Result<JobDevice, crate::Error> {
        let device = match self {
            Self::Soft(fabric, mode) => {
                let device = SoftHca::attach(fabric, me, *mode).map_err(NetworkError::Fabric)?;
                Device::Soft(device)
            }
            Self::Verbs(rails) => {
                let demand = demand(peers(me, nodes).count() as u32, nodes.ranks(), config);
                let device = Device::verbs(rails, env::hca_gid()?, me, demand);
                device.map_err(NetworkError::NoDevice)?
            }
        };
        Ok(cached(device)?)
    }
}

/// A device for `me`, one of `ranks` that may be told of strangers. `None`: there is to be no network.
pub(crate) fn lone(
    choice: Choice,
    me: Rank,
    ranks: u32,
    config: &Config,
) -> Result<Option<JobDevice>, crate::Error> {
    let device = match choice {
        Choice::None => return Ok(None),
        Choice::Soft(mode) => Device::Soft(SoftHca::alone(mode).map_err(NetworkError::Fabric)?),
        Choice::Verbs(rails) => {
            let wants = demand(ranks, 0, config);
            let device = Device::verbs(&rails, env::hca_gid()?, me, wants);
            device.map_err(NetworkError::NoDevice)?
        }
    };
    Ok(Some(cached(device)?))
}

/// A device whose registrations may be kept.
fn cached(device: Device) -> Result<JobDevice, NetworkError> {
    let kept = Kept { everything: matches!(device, Device::Soft(..)), ..Kept::default() };
    // SAFETY: a software device reaches memory by its address at the time of a request, so it never reaches what was mapped
    // there before; and no request names what is not mapped. Of memory for another device the heap reports what it took back,
    // and the program what it unmapped (contract of `World::watch_memory`), before it is used again; until then no use names it.
    let device = unsafe { Cached::new(device, kept, SystemMemory, KEPT) };
    device.map_err(|_| NetworkError::Device(HcaError::Memory { bytes: 0 }))
}

/// What links to so many peers, and windows of so many ranks, want of a device. Links: a connection and a receive each, for the knock.
/// The memory is that of one, for nobody knows how many there are going to be: its own, and of users' memory a large part each way, which
/// goes in pieces where the system allows no more. Windows: a connection to each rank, and a receive for each tray.
fn demand(peers: u32, ranks: u32, config: &Config) -> Demand {
    let each = stride(config) as u64 + 2 * u64::from(LARGE);
    let connections = peers + WINDOWS * ranks;
    let receives = peers + WINDOWS * ranks * TRAYS as u32;
    Demand { connections, receives, memory: each }
}

/// On how many hosts the nodes of the job are. Every rank calls it.
fn hosts(store: &mut dyn KeyValueStore, rank: Rank, nodes: &Nodes) -> Result<usize, NetworkError> {
    let key = |node| format!("strait-node-{node}");
    let mine = nodes.node_of(rank).unwrap_or(0);
    if nodes.leader(mine) == Some(rank) {
        store.put(&key(mine), topology::host().as_bytes()).map_err(NetworkError::Store)?;
    }
    store.fence().map_err(NetworkError::Store)?;
    let host = |node| {
        let found = store.get(&key(node)).map_err(NetworkError::Store)?;
        found.ok_or(NetworkError::Card { peer: nodes.leader(node).unwrap_or(0) })
    };
    Ok((0..nodes.count()).map(host).collect::<Result<HashSet<_>, _>>()?.len())
}
