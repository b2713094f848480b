//! A world whose job spans nodes.

use core::cell::UnsafeCell;

use strait_core::layout::Segment;
use strait_core::progress::ProgressError;
use strait_core::ring::Design;

use super::World;
use crate::boot::KeyValueStore;
use crate::hca::soft::Mode;
use crate::network::{self, NetworkError, SoftNetwork};
use crate::nodes::Nodes;
use crate::sleep::Sleep;
use crate::{Error, Rank, env};

/// The way to other nodes; `None` on one node, or when there is to be none.
pub(super) type Way = Option<Box<UnsafeCell<SoftNetwork>>>;

/// Devices, and links between them.
pub(super) type Kind = (Mode, Design);

/// Those that the environment asks for.
pub(super) fn env_kind() -> Result<Option<Kind>, Error> {
    let design = env::ring()?;
    Ok(env::network()?.map(|mode| (mode, design)))
}

/// The networks of a job inside this process, for its ranks one after the other.
pub(super) fn in_process(
    kind: Option<Kind>,
    nodes: &Nodes,
    store: &mut dyn KeyValueStore,
) -> Result<Vec<Way>, Error> {
    let none = || (0..nodes.ranks()).map(|_| None).collect();
    let Some((mode, design)) = kind.filter(|_| nodes.count() > 1) else { return Ok(none()) };
    let (fabric, config) = (network::fabric(nodes.ranks())?, network::config(design));
    let mut networks = Vec::new();
    for rank in 0..nodes.ranks() {
        let (network, cards) = network::soft(&fabric, mode, rank, nodes, config)?;
        network.publish(&cards, store)?;
        networks.push(network);
    }
    for network in &mut networks {
        network.connect(store)?;
    }
    Ok(networks.into_iter().map(|network| Some(Box::new(UnsafeCell::new(network)))).collect())
}

/// The network of one process. Every rank of the job calls it.
pub(super) fn of_process(
    rank: Rank,
    nodes: &Nodes,
    store: &mut dyn KeyValueStore,
) -> Result<Way, Error> {
    let kind = env_kind()?.filter(|_| nodes.count() > 1);
    let Some((mode, design)) = kind else { return Ok(None) };
    let fabric = network::shared_fabric(store, rank, nodes.ranks())?;
    let config = network::config(design);
    let (mut network, cards) = network::soft(&fabric, mode, rank, nodes, config)?;
    network.publish(&cards, store)?;
    store.fence().map_err(NetworkError::Store)?;
    network.connect(store)?;
    Ok(Some(Box::new(UnsafeCell::new(network))))
}

/// How a rank sleeps that has such a way to other nodes.
pub(super) fn sleep(way: &Way, segment: &Segment, rank: Rank) -> Result<Sleep, NetworkError> {
    let sleep = Sleep::register();
    match way {
        Some(network) => {
            // SAFETY: nobody else has the network yet.
            let events = unsafe { &*network.get() }.events();
            sleep.beside(events, segment, rank).map_err(NetworkError::Socket)
        }
        None => Ok(sleep),
    }
}

impl World {
    /// The network, to be used by the caller alone until the borrow ends.
    #[expect(clippy::mut_from_ref, reason = "as in `engine`")]
    pub(super) fn network(&self) -> Option<&mut SoftNetwork> {
        // SAFETY: as in `engine`: one thread is here, and no caller runs code of the user's while it holds the borrow.
        self.network.as_deref().map(|network| unsafe { &mut *network.get() })
    }

    /// Moves messages from and to other nodes, as far as they go. Says whether any did.
    #[inline(always)]
    pub(super) fn poll_network(&self) -> Result<bool, ProgressError> {
        match self.network() {
            Some(network) => poll(self, network),
            None => Ok(false),
        }
    }

    /// Says to all peers on other nodes that this rank leaves, and waits until they know or are gone.
    pub(super) fn leave_network(&self) -> Result<(), Error> {
        if self.network.is_some() {
            self.engine().leave_network();
            self.wait_until(|| self.engine().is_flushed().then_some(()))?;
            self.wait_until(|| network_is_drained(self).then_some(()))?;
        }
        Ok(())
    }
}

#[inline(never)]
fn poll(world: &World, network: &mut SoftNetwork) -> Result<bool, ProgressError> {
    network.poll();
    world.engine().poll_network(network)
}

fn network_is_drained(world: &World) -> bool {
    world.network().is_none_or(SoftNetwork::drain)
}
