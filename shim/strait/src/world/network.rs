//! The network of a world in a job that spans nodes.

use strait_core::engine::{Gone, ProgressError};
use strait_core::layout::{Call, Segment, Wait, WaitRecord};
use strait_core::ring::{Design, LinkConfig};
use strait_hca::DeviceChoice;
use strait_hca::soft::SoftMode;
use strait_platform::Nodes;
use strait_platform::Rank;
use strait_platform::boot::{self, KeyValueStore, PeerAddress};
use strait_platform::record::WaitRecorder;
use strait_platform::sleep::Sleep;

use super::{ShmEngine, World};
use crate::network::{
    self, ConnectionListener, JobDevice, JobNetwork, Network, NetworkError, NetworkResources,
    RemotePeers,
};
use crate::{Error, env};

/// The type of network between nodes.
pub(super) type NetworkDevice = JobNetwork;

/// A network, or `None` on one node and where the environment asks for none.
pub(super) type OptionalNetwork = Option<Box<NetworkDevice>>;

/// The device, and the design of the links over it.
pub(super) type NetworkKind = (DeviceChoice, Design);

/// Returns the device and design that the environment asks for, for ranks in one process.
pub(super) fn env_kind() -> Result<NetworkKind, Error> {
    Ok((env::hca()?.unwrap_or(DeviceChoice::Soft(SoftMode::default())), env::ring()?))
}

/// Creates the networks of a job inside this process, in the order of its ranks.
pub(super) fn in_process(
    (choice, design): NetworkKind,
    nodes: &Nodes,
    store: &mut dyn KeyValueStore,
) -> Result<Vec<OptionalNetwork>, Error> {
    let none = || (0..nodes.ranks()).map(|_| None).collect();
    if nodes.count() <= 1 {
        return Ok(none());
    }
    let Some(resources) = NetworkResources::in_process(choice, nodes.ranks())? else {
        return Ok(none());
    };
    let config = network::config(design);
    let open = |rank| begin(&resources, rank, nodes, config, store);
    let begun = (0..nodes.ranks()).map(open).collect::<Result<Vec<_>, _>>()?;
    let networks = (0..).zip(begun).map(|(rank, begun)| enter(begun, rank, nodes, config, store));
    networks.collect()
}

/// Creates the network of one process. Every rank of the job calls it. `record` is the rank's.
/// `deaths_are_told`: the launcher tells each node of every death.
pub(super) fn of_process(
    rank: Rank,
    nodes: &Nodes,
    store: &mut dyn KeyValueStore,
    record: &WaitRecord,
    deaths_are_told: bool,
) -> Result<OptionalNetwork, Error> {
    let (choice, design) = (env::hca()?, env::ring()?);
    if nodes.count() <= 1 {
        return Ok(None);
    }
    let mut record = WaitRecorder::new(record);
    record.renew(Wait::new(Call::Start), 0);
    let Some(resources) = NetworkResources::of_process(choice, store, rank, nodes)? else {
        return Ok(None);
    };
    let config = network::config(design);
    let begun = begin(&resources, rank, nodes, config, store)?;
    store.fence().map_err(NetworkError::Store)?;
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
    RemotePeers::publish(&listener.own(), store)?;
    Ok((device, listener))
}

/// Creates the network of a rank after all ranks have published their addresses.
fn enter(
    (device, listener): (JobDevice, ConnectionListener),
    rank: Rank,
    nodes: &Nodes,
    config: LinkConfig,
    store: &mut dyn KeyValueStore,
) -> Result<OptionalNetwork, Error> {
    let others = RemotePeers::of_job(config, listener, (rank, nodes), store)?;
    Ok(Some(Box::new(Network::new(device, others))))
}

/// Creates the sleep of a rank, with the events of its network if it has one.
pub(super) fn sleep(
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

/// Registers peers that the network reported and the engine does not know.
pub(super) fn admit(
    engine: &mut ShmEngine,
    network: &mut NetworkDevice,
) -> Result<(), ProgressError> {
    while let Some(rank) = network.next_newcomer() {
        engine.set_remote(rank)?;
    }
    Ok(())
}

impl World {
    /// Runs `act` on the network, if there is one.
    pub(crate) fn with_network<R>(&self, act: impl FnOnce(&mut NetworkDevice) -> R) -> Option<R> {
        self.lock_progress().context().resources.network.as_deref_mut().map(act)
    }

    /// Opens a network to processes outside this segment, which have the numbers from
    /// [`World::size`] on.
    pub(crate) fn enter_network(&self, others: RemotePeers) -> Result<(), Error> {
        let choice = env::hca()?.unwrap_or(DeviceChoice::Soft(SoftMode::default()));
        let device = network::lone(choice, self.rank, self.size, others.config())?;
        let device = device.ok_or(NetworkError::None)?;
        let mut guard = self.lock_progress();
        let context = guard.context();
        let network = Network::new(device, others);
        context.resources.network = Some(Box::new(network));
        Ok(())
    }

    /// Allows messages to the process with this number, if there is a network.
    pub(crate) fn meet(&self, rank: Rank) -> Result<(), Error> {
        let mut guard = self.lock_progress();
        let context = guard.context();
        let Some(network) = context.resources.network.as_deref_mut() else { return Ok(()) };
        network.meet(rank);
        Ok(admit(context.engine, network)?)
    }

    /// Connects to `rank` if it is on another node and has no link yet, so that a waiting caller
    /// learns of its end.
    #[inline(always)]
    pub(crate) fn await_from(&self, rank: Rank) {
        self.with_network(|network| network.call(rank));
    }

    /// Makes this rank and its peers on other nodes tell each other of deaths, unless the launcher
    /// does.
    pub(super) fn tell_deaths_unless(&self, deaths_are_told: bool) {
        if !deaths_are_told {
            self.lock_progress().tell_deaths();
        }
    }

    /// Makes sure that this rank learns of the death of `rank`, whatever its node.
    pub(crate) fn watch_over(&self, rank: Rank) {
        self.with_network(|network| network.watch_over(rank));
    }

    /// Returns whether there are windows that span nodes. Devices write their signals and ring no
    /// doorbell.
    pub(super) fn has_far_windows(&self) -> bool {
        self.with_network(|network| network.has_lanes()).unwrap_or(false)
    }

    /// Tells all peers on other nodes that this rank leaves, and waits until they know or are gone.
    pub(super) fn leave_network(&self) -> Result<(), Error> {
        let unmet = self.with_network(|network| {
            // A peer with a pending connection also learns that this rank leaves.
            network.poll_listener();
            network.unmet()
        });
        if let Some(unmet) = unmet {
            for rank in unmet {
                self.lock_progress().peer_gone(rank, Gone::Finished)?;
            }
            // Operations with these peers end here.
            self.progress()?;
            self.lock_progress().leave_network();
            let what = || self.lock_progress().wait_of_leaving();
            self.wait_until(what, || self.lock_progress().is_flushed().then_some(()))?;
            self.wait_until(what, || self.network_is_drained().then_some(()))?;
        }
        Ok(())
    }

    fn network_is_drained(&self) -> bool {
        self.lock_progress()
            .context()
            .resources
            .network
            .as_deref_mut()
            .is_none_or(NetworkDevice::drain)
    }
}

#[cfg(test)]
mod tests;
