//! The network of software devices, for nodes that are one host.

use std::io;
use std::os::fd::OwnedFd;

use strait_core::regcache::{Cached, Limits, Unwatched};
use strait_core::ring::{Card, Config};

use super::{Network, NetworkError};
use crate::boot::{self, KeyValueStore};
use crate::hca::soft::{Fabric, Mode, SoftHca};
use crate::{Nodes, Rank, SystemMemory};

/// A software device whose registrations are kept.
pub(crate) type SoftDevice = Cached<SoftHca, Unwatched, SystemMemory>;

/// A network of software devices.
pub(crate) type SoftNetwork = Network<SoftDevice>;

/// Registrations of users' buffers that are kept; fewer than a software device has regions.
const KEPT: Limits = Limits { entries: 256, bytes: u64::MAX };

/// The memory that the devices of `ranks` ranks share.
pub(crate) fn fabric(ranks: u32) -> Result<OwnedFd, NetworkError> {
    Fabric::create(ranks).map_err(NetworkError::Fabric)
}

/// The same for all ranks of a job. Every rank calls it.
pub(crate) fn shared_fabric(
    store: &mut dyn KeyValueStore,
    rank: Rank,
    ranks: u32,
) -> Result<OwnedFd, NetworkError> {
    let make = || Fabric::create(ranks).map_err(io::Error::other);
    boot::share(store, "fabric", (rank, ranks), make).map_err(NetworkError::Share)
}

/// The end of `me` of a network over `fabric`, and the cards for its peers.
pub(crate) fn soft(
    fabric: &OwnedFd,
    mode: Mode,
    me: Rank,
    nodes: &Nodes,
    config: Config,
) -> Result<(SoftNetwork, Vec<(Rank, Card)>), NetworkError> {
    let device = SoftHca::attach(fabric, me, mode).map_err(NetworkError::Fabric)?;
    // SAFETY: a software device reaches memory by its address at the time of a request, so it never reaches what was mapped
    // there before; and no request names what is not mapped.
    let device = unsafe { Cached::new(device, Unwatched, SystemMemory, KEPT) };
    let device = device
        .map_err(|_| NetworkError::Device(strait_core::hca::HcaError::Memory { bytes: 0 }))?;
    Network::open(device, me, nodes, config)
}
