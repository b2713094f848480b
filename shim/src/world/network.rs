//! A world whose job spans nodes.

use strait_core::layout::Segment;
use strait_core::layout::{Call, Wait};
use strait_core::progress::{Gone, ProgressError};
use strait_core::ring::{Config, Design};

use super::{ShmEngine, World};
use crate::boot::{self, Contact, KeyValueStore};
use crate::hca::Choice;
use crate::hca::soft::Mode;
use crate::network::{self, Door, JobDevice, JobNetwork, Means, Network, NetworkError, Others};
use crate::nodes::Nodes;
use crate::sleep::Sleep;
use crate::{Error, Rank, env};

/// What is between nodes.
pub(super) type Device = JobNetwork;

/// The way to other nodes; `None` on one node, or when there is to be none.
pub(super) type Way = Option<Box<Device>>;

/// Devices, and links between them.
pub(super) type Kind = (Choice, Design);

/// Those that the environment asks for in one process.
pub(super) fn env_kind() -> Result<Kind, Error> {
    Ok((env::hca()?.unwrap_or(Choice::Soft(Mode::default())), env::ring()?))
}

/// The networks of a job inside this process, for its ranks one after the other.
pub(super) fn in_process(
    (choice, design): Kind,
    nodes: &Nodes,
    store: &mut dyn KeyValueStore,
) -> Result<Vec<Way>, Error> {
    let none = || (0..nodes.ranks()).map(|_| None).collect();
    if nodes.count() <= 1 {
        return Ok(none());
    }
    let Some(means) = Means::in_process(choice, nodes.ranks())? else { return Ok(none()) };
    let config = network::config(design);
    let open = |rank| begin(&means, rank, nodes, config, store);
    let begun = (0..nodes.ranks()).map(open).collect::<Result<Vec<_>, _>>()?;
    let networks = (0..).zip(begun).map(|(rank, begun)| enter(begun, rank, nodes, config, store));
    networks.collect()
}

/// The network of one process. Every rank of the job calls it. `deaths_are_told`: the launcher
/// tells each node of every death.
pub(super) fn of_process(
    rank: Rank,
    nodes: &Nodes,
    store: &mut dyn KeyValueStore,
    deaths_are_told: bool,
) -> Result<Way, Error> {
    let (choice, design) = (env::hca()?, env::ring()?);
    if nodes.count() <= 1 {
        return Ok(None);
    }
    let Some(means) = Means::of_process(choice, store, rank, nodes)? else { return Ok(None) };
    let config = network::config(design);
    let begun = begin(&means, rank, nodes, config, store)?;
    store.fence().map_err(NetworkError::Store)?;
    let mut way = enter(begun, rank, nodes, config, store)?;
    if let Some(network) = &mut way {
        network.set_deaths_are_told(deaths_are_told);
    }
    Ok(way)
}

/// Opens device and door of a rank, and says in the job's store where that is.
fn begin(
    means: &Means,
    rank: Rank,
    nodes: &Nodes,
    config: Config,
    store: &mut dyn KeyValueStore,
) -> Result<(JobDevice, Door), Error> {
    let device = means.open(rank, nodes, &config)?;
    let nonce = boot::nonce()?;
    let own = Contact { nonce, rank, host: boot::host(), address: None, key: [0; 16] };
    let door = Door::open(own, means.reach_further()).map_err(NetworkError::Door)?;
    Others::publish(&door.own(), store)?;
    Ok((device, door))
}

/// The network of a rank, when all have said where they are.
fn enter(
    (device, door): (JobDevice, Door),
    rank: Rank,
    nodes: &Nodes,
    config: Config,
    store: &mut dyn KeyValueStore,
) -> Result<Way, Error> {
    let others = Others::of_job(config, door, (rank, nodes), store)?;
    Ok(Some(Box::new(Network::new(device, others))))
}

/// How a rank sleeps that has such a way to other nodes.
pub(super) fn sleep(way: &Way, segment: &Segment, rank: Rank) -> Result<Sleep, NetworkError> {
    let sleep = Sleep::register();
    match way {
        Some(network) => {
            let events = network.events().map_err(NetworkError::Socket)?;
            sleep.beside(events, segment, rank).map_err(NetworkError::Socket)
        }
        None => Ok(sleep),
    }
}

/// Tells the engine of whom it has not heard.
pub(super) fn admit(engine: &mut ShmEngine, network: &mut Device) -> Result<(), ProgressError> {
    while let Some(rank) = network.next_newcomer() {
        engine.set_remote(rank)?;
    }
    Ok(())
}

impl World {
    /// Has `act` use the network, if there is one.
    pub(crate) fn with_network<R>(&self, act: impl FnOnce(&mut Device) -> R) -> Option<R> {
        self.turn().motor().gear.network.as_deref_mut().map(act)
    }

    /// Has messages go to processes that are not of this segment. Those of the first number on are such.
    pub(crate) fn enter_network(&self, others: Others) -> Result<(), Error> {
        let choice = env::hca()?.unwrap_or(Choice::Soft(Mode::default()));
        let device = network::lone(choice, self.rank, self.size, others.config())?;
        let device = device.ok_or(NetworkError::None)?;
        let mut turn = self.turn();
        let motor = turn.motor();
        let network = Network::new(device, others);
        motor.gear.network = Some(Box::new(network));
        Ok(())
    }

    /// Has messages go to the stranger of this number, if there is a network.
    pub(crate) fn meet(&self, rank: Rank) -> Result<(), Error> {
        let mut turn = self.turn();
        let motor = turn.motor();
        let Some(network) = motor.gear.network.as_deref_mut() else { return Ok(()) };
        network.meet(rank);
        Ok(admit(motor.engine, network)?)
    }

    /// Has `rank` be called, if it is elsewhere and was not talked to: for who waits for it, and wants to hear of its end.
    #[inline(always)]
    pub(crate) fn await_from(&self, rank: Rank) {
        self.with_network(|network| network.call(rank));
    }

    /// Makes sure that this rank learns of the death of `rank`, on whatever node that is.
    pub(crate) fn watch_over(&self, rank: Rank) {
        self.with_network(|network| network.watch_over(rank));
    }

    /// Whether there are windows that span nodes: their signals are written by devices, and ring nothing.
    pub(super) fn has_far_windows(&self) -> bool {
        self.with_network(|network| network.has_lanes()).unwrap_or(false)
    }

    /// Says to all peers on other nodes that this rank leaves, and waits until they know or are gone.
    pub(super) fn leave_network(&self) -> Result<(), Error> {
        let unmet = self.with_network(|network| {
            // Who has called, though it was not looked at, is to hear that we leave.
            network.look_at_door();
            network.unmet()
        });
        if let Some(unmet) = unmet {
            for rank in unmet {
                self.turn().peer_gone(rank, Gone::Finished)?;
            }
            // Those end here.
            self.progress()?;
            self.turn().leave_network();
            let what = || Wait::new(Call::Finalize);
            self.wait_until(what, || self.turn().is_flushed().then_some(()))?;
            self.wait_until(what, || self.network_is_drained().then_some(()))?;
        }
        Ok(())
    }

    fn network_is_drained(&self) -> bool {
        self.turn().motor().gear.network.as_deref_mut().is_none_or(Device::drain)
    }
}

#[cfg(test)]
mod tests;
