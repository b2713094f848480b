//! The addresses at which a rank's remote peers listen.

use std::sync::Arc;

use strait_platform::boot::{Directory, KeyValueStore, PeerAddress, SharedStore};
use strait_platform::{Nodes, Rank};

use crate::NetworkError;

/// The addresses of one rank's remote peers.
#[derive(Debug)]
pub(super) enum AddressBook {
    /// Those of the job's ranks on other nodes, each known by its rank.
    Job(JobAddresses),
    /// Those of processes of other universes, which get numbers of this process's own.
    Universes(Arc<Directory>),
}

/// The addresses of the ranks of a job.
#[derive(Debug)]
pub(super) struct JobAddresses {
    node: Option<u32>,
    nodes: Nodes,
    source: AddressSource,
}

#[derive(Debug)]
enum AddressSource {
    /// The job's store, which is asked for an address when this rank first connects to the peer.
    Store(SharedStore),
    /// All addresses by rank, from a store that is not asked after the start.
    Table(Box<[[u8; PeerAddress::BYTES]]>),
}

impl AddressBook {
    /// Creates the addresses of the job's ranks on other nodes than `me`'s. All ranks have
    /// published theirs in `store` ([`publish`]).
    pub(super) fn of_job(
        store: &SharedStore,
        me: Rank,
        nodes: &Nodes,
    ) -> Result<Self, NetworkError> {
        let mut lent = store.lock();
        let source = if lent.serves_until_finalize() {
            AddressSource::Store(store.clone())
        } else {
            let mut read = |peer| read(lent.as_mut(), peer);
            AddressSource::Table((0..nodes.ranks()).map(&mut read).collect::<Result<_, _>>()?)
        };
        Ok(Self::Job(JobAddresses { node: nodes.node_of(me), nodes: nodes.clone(), source }))
    }

    /// Returns the number of a process that has proved that it has this rank's key, and has given
    /// this address.
    ///
    /// Only ranks of the job can read the key in the job's store, so their ranks are not compared
    /// with the store. `None`: the process is no remote peer.
    pub(super) fn number(&self, from: PeerAddress) -> Option<Rank> {
        match self {
            Self::Job(job) => job.is_remote(from.rank).then_some(from.rank),
            Self::Universes(directory) => directory.number(from).ok(),
        }
    }

    /// Returns the address of a remote peer, or `None` while another user of this rank has the
    /// store.
    pub(super) fn peer_address(&self, peer: Rank) -> Result<Option<PeerAddress>, NetworkError> {
        match self {
            Self::Job(job) => job.peer_address(peer),
            Self::Universes(directory) => {
                directory.peer_address(peer).map(Some).ok_or(NetworkError::Address { peer })
            }
        }
    }
}

impl JobAddresses {
    /// Returns whether `rank` is a rank of the job on another node.
    pub(super) fn is_remote(&self, rank: Rank) -> bool {
        self.nodes.node_of(rank).is_some_and(|node| Some(node) != self.node)
    }

    /// Returns the ranks on other nodes.
    pub(super) fn remote_ranks(&self) -> impl Iterator<Item = Rank> {
        (0..self.nodes.ranks()).filter(|rank| self.is_remote(*rank))
    }

    fn peer_address(&self, peer: Rank) -> Result<Option<PeerAddress>, NetworkError> {
        let bytes = match &self.source {
            AddressSource::Store(store) => match store.try_lock() {
                Some(mut store) => read(store.as_mut(), peer)?,
                None => return Ok(None),
            },
            AddressSource::Table(all) => {
                *all.get(peer as usize).ok_or(NetworkError::Address { peer })?
            }
        };
        Ok(Some(PeerAddress::from_bytes(&bytes)))
    }
}

/// Publishes the address of this rank's listener in the store of a job. A fence must follow.
pub(super) fn publish(
    own: &PeerAddress,
    store: &mut dyn KeyValueStore,
) -> Result<(), NetworkError> {
    store.put(&key(own.rank), &own.to_bytes()).map_err(NetworkError::Store)
}

fn read(
    store: &mut dyn KeyValueStore,
    peer: Rank,
) -> Result<[u8; PeerAddress::BYTES], NetworkError> {
    let unread = |error| NetworkError::NoAddress { peer, error };
    let found = store.get(&key(peer)).map_err(unread)?;
    found.and_then(|bytes| bytes.try_into().ok()).ok_or(NetworkError::Address { peer })
}

/// Returns the key of the peer address of `rank` in the store.
fn key(rank: Rank) -> String {
    format!("strait-door-{rank}")
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::collections::HashMap;

    use strait_platform::boot::StoreError;

    use super::*;

    /// A store that counts how often it is asked.
    #[derive(Debug, Default)]
    struct Counted {
        values: HashMap<String, Vec<u8>>,
        gets: Arc<AtomicUsize>,
        serves: bool,
    }

    impl KeyValueStore for Counted {
        fn put(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
            self.values.insert(key.to_owned(), value.to_owned());
            Ok(())
        }

        fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
            self.gets.fetch_add(1, Ordering::Relaxed);
            Ok(self.values.get(key).cloned())
        }

        fn fence(&mut self) -> Result<(), StoreError> {
            Ok(())
        }

        fn finalize(&mut self) -> Result<(), StoreError> {
            Ok(())
        }

        fn abort(&mut self, _: i32) {}

        fn serves_until_finalize(&self) -> bool {
            self.serves
        }
    }

    fn peer_address(rank: Rank) -> PeerAddress {
        PeerAddress { nonce: u64::from(rank), rank, host: 5, address: None, key: [rank as u8; 16] }
    }

    /// Returns the addresses of a job of nodes with two ranks each, for rank 1, and the number of
    /// questions to the store so far.
    fn of_job(ranks: u32, serves: bool) -> (AddressBook, Arc<AtomicUsize>, SharedStore) {
        let mut store = Counted { serves, ..Counted::default() };
        (0..ranks).for_each(|rank| publish(&peer_address(rank), &mut store).unwrap());
        let (gets, store) = (Arc::clone(&store.gets), SharedStore::new(Box::new(store)));
        let nodes = Nodes::blocks(ranks, ranks / 2).unwrap();
        (AddressBook::of_job(&store, 1, &nodes).unwrap(), gets, store)
    }

    #[test]
    fn the_store_is_asked_for_the_addresses_of_called_peers_alone() {
        let (book, gets, store) = of_job(10_000, true);
        assert_eq!(gets.load(Ordering::Relaxed), 0, "the start of a job asks for no address");
        assert_eq!(book.peer_address(9_999).unwrap(), Some(peer_address(9_999)));
        assert_eq!(gets.load(Ordering::Relaxed), 1);
        let held = store.lock();
        assert_eq!(book.peer_address(7).unwrap(), None, "the store is in use");
        drop(held);
        let absent = book.peer_address(10_000);
        assert!(matches!(absent, Err(NetworkError::Address { peer: 10_000 })), "{absent:?}");
    }

    #[test]
    fn a_store_that_does_not_last_is_read_at_the_start() {
        let (book, gets, store) = of_job(100, false);
        assert_eq!(gets.load(Ordering::Relaxed), 100);
        let _held = store.lock();
        assert_eq!(book.peer_address(99).unwrap(), Some(peer_address(99)));
        assert_eq!(gets.load(Ordering::Relaxed), 100);
    }

    #[test]
    fn ranks_on_other_nodes_are_peers_and_no_other_process_is() {
        let (book, ..) = of_job(6, true);
        let numbers = [0, 1, 2, 5, 6].map(|rank| book.number(peer_address(rank)));
        assert_eq!(numbers, [None, None, Some(2), Some(5), None]);
        let AddressBook::Job(job) = book else { unreachable!() };
        assert!(job.remote_ranks().eq(2..6));
    }
}
