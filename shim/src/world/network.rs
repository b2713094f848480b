//! A world whose job spans nodes.

use core::cell::UnsafeCell;

use strait_core::progress::ProgressError;

use super::World;
use crate::boot::KeyValueStore;
use crate::network::{self, SoftNetwork};
use crate::nodes::Nodes;
use crate::{Error, Rank, env};

/// The way to other nodes; `None` on one node, or when there is to be none.
pub(super) type Way = Option<Box<UnsafeCell<SoftNetwork>>>;

/// The networks of a job inside this process, for its ranks one after the other.
pub(super) fn in_process(nodes: &Nodes, store: &mut dyn KeyValueStore) -> Result<Vec<Way>, Error> {
    let none = || (0..nodes.ranks()).map(|_| None).collect();
    let Some(mode) = env::network()?.filter(|_| nodes.count() > 1) else { return Ok(none()) };
    let (fabric, config) = (network::fabric(nodes.ranks())?, network::config(env::ring()?));
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
    let Some(mode) = env::network()?.filter(|_| nodes.count() > 1) else { return Ok(None) };
    let fabric = network::shared_fabric(store, rank, nodes.ranks())?;
    let config = network::config(env::ring()?);
    let (mut network, cards) = network::soft(&fabric, mode, rank, nodes, config)?;
    network.publish(&cards, store)?;
    store.fence().map_err(network::NetworkError::Store)?;
    network.connect(store)?;
    Ok(Some(Box::new(UnsafeCell::new(network))))
}

impl World {
    /// The network, to be used by the caller alone until the borrow ends.
    #[expect(clippy::mut_from_ref, reason = "as in `engine`")]
    pub(crate) fn network(&self) -> Option<&mut SoftNetwork> {
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
