//! The creation of the networks of a job.

use strait_core::layout::{Call, Segment, Wait};
use strait_core::ring::{Design, LinkConfig};
use strait_hca::DeviceChoice;
use strait_hca::soft::SoftMode;
use strait_platform::boot::{self, KeyValueStore, PeerAddress, SharedStore};
use strait_platform::record::{RecordPlace, WaitRecorder};
use strait_platform::sleep::Sleep;
use strait_platform::{Nodes, Rank};

use super::config::config;
use super::listener::ConnectionListener;
use super::remote_peers::RemotePeers;
use super::resources::{JobDevice, JobNetwork, NetworkResources};
use super::{Network, address_book};
use crate::{Error, NetworkError, env};

/// A network, or `None` on one node and where the environment asks for none.
pub(crate) type OptionalNetwork = Option<Box<JobNetwork>>;

/// The device, and the design of the links over it.
pub(crate) type NetworkKind = (DeviceChoice, Design);

/// The device of ranks in one process for which neither program nor environment chooses one.
pub(crate) const DEFAULT_DEVICE: DeviceChoice = DeviceChoice::Soft(SoftMode::Inline);

/// Creates the networks of a job inside this process, in the order of its ranks. `stores` are
/// those of the ranks.
pub(crate) fn in_process(
    (choice, design): NetworkKind,
    nodes: &Nodes,
    stores: &[SharedStore],
) -> Result<Vec<OptionalNetwork>, Error> {
    let none = || (0..nodes.ranks()).map(|_| None).collect();
    if nodes.count() <= 1 {
        return Ok(none());
    }
    let Some(resources) = NetworkResources::in_process(choice, nodes)? else {
        return Ok(none());
    };
    let config = config(design, env::ring_copy_max()?);
    let open = |(rank, store): (Rank, &SharedStore)| {
        begin(&resources, rank, nodes, config, store.lock().as_mut())
    };
    let begun = (0..).zip(stores).map(open).collect::<Result<Vec<_>, _>>()?;
    let networks = (0..).zip(stores).zip(begun);
    networks.map(|((rank, store), begun)| enter(begun, rank, nodes, config, store)).collect()
}

/// Creates the network of one process. Every rank of the job calls it. `record` is the rank's.
/// `deaths_are_told`: the launcher tells each node of every death. `is_dead` tells whether a rank
/// is known to be dead.
pub(crate) fn of_process(
    (choice, design): (Option<DeviceChoice>, Design),
    rank: Rank,
    nodes: &Nodes,
    store: &SharedStore,
    record: RecordPlace<'_>,
    deaths_are_told: bool,
    is_dead: impl Fn(Rank) -> bool,
) -> Result<OptionalNetwork, Error> {
    if nodes.count() <= 1 {
        return Ok(None);
    }
    let mut record = WaitRecorder::new(record);
    record.renew_alone(Wait::new(Call::Start));
    let mut lent = store.lock();
    let resources = NetworkResources::of_process(choice, lent.as_mut(), rank, nodes, is_dead)?;
    let Some(resources) = resources else { return Ok(None) };
    let config = config(design, env::ring_copy_max()?);
    let begun = begin(&resources, rank, nodes, config, lent.as_mut())?;
    lent.fence().map_err(NetworkError::Store)?;
    drop(lent);
    let mut way = enter(begun, rank, nodes, config, store)?;
    if let Some(network) = &mut way {
        network.set_deaths_are_told(deaths_are_told);
    }
    Ok(way)
}

/// Opens the device and the listener of a rank, and publishes its address in the job's store.
fn begin(
    resources: &NetworkResources,
    rank: Rank,
    nodes: &Nodes,
    config: LinkConfig,
    store: &mut dyn KeyValueStore,
) -> Result<(JobDevice, ConnectionListener), Error> {
    let device = resources.open(rank, nodes, &config)?;
    let nonce = boot::nonce()?;
    let own = PeerAddress { nonce, rank, host: boot::host(), address: None, key: [0; 16] };
    let listener =
        ConnectionListener::open(own, resources.reach_further()).map_err(NetworkError::Listener)?;
    address_book::publish(&listener.own(), store)?;
    Ok((device, listener))
}

/// Creates the network of a rank after all ranks have published their addresses.
fn enter(
    (device, listener): (JobDevice, ConnectionListener),
    rank: Rank,
    nodes: &Nodes,
    config: LinkConfig,
    store: &SharedStore,
) -> Result<OptionalNetwork, Error> {
    let others = RemotePeers::of_job(config, listener, (rank, nodes), store)?;
    Ok(Some(Box::new(Network::new(device, others))))
}

/// Creates the sleep of a rank, with the events of its network if it has one.
pub(crate) fn sleep(
    way: &OptionalNetwork,
    segment: &Segment,
    rank: Rank,
) -> Result<Sleep, NetworkError> {
    let sleep = Sleep::register();
    match way {
        Some(network) => {
            let events = network.events().map_err(NetworkError::Socket)?;
            sleep.beside(events, segment, rank).map_err(NetworkError::Socket)
        }
        None => Ok(sleep),
    }
}
