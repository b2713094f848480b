//! The remote peers and their states: ranks of the job on other nodes, and processes of other
//! universes.
//!
//! A rank of the job is known by the address that it put into the job's key-value store. Addresses
//! of other processes come from the embedder. They get numbers of this process's own
//! ([`Directory`]). The link to a peer is made with the first message to it, or when a message from
//! it is awaited. It is also made when the peer calls at this process's
//! [listener](super::listener). Until then a peer takes no memory.

use std::sync::Arc;

use strait_core::ring::LinkConfig;
use strait_platform::boot::{Directory, SharedStore};
use strait_platform::{Nodes, Rank};

use super::address_book::AddressBook;
use super::calls::{Call, CallReason};
use super::listener::{AcceptedPeer, ConnectionListener};
use super::peer_table::PeerTable;
use crate::NetworkError;

/// The remote peers of one rank.
#[derive(Debug)]
pub(crate) struct RemotePeers {
    pub(super) config: LinkConfig,
    pub(crate) listener: ConnectionListener,
    pub(super) addresses: AddressBook,
    /// The states of the peers that are no longer in [their first](Self::first_state).
    known: PeerTable<RemotePeer>,
    /// Number of peers, if no process can become one later.
    peers: Option<usize>,
    /// Peers that are called as soon as their addresses can be read.
    pub(super) waiting: Vec<(Rank, CallReason)>,
    /// Calls in progress at the listeners of peers.
    pub(super) outgoing: Vec<Call>,
    /// Peers to which an answer was sent, and which have not confirmed their connection.
    pub(super) accepted: Vec<(Rank, AcceptedPeer)>,
    pub(super) looks: u32,
    /// Peers of which the engine has not been told.
    pub(super) newcomers: Vec<Rank>,
    /// Peers with a new link, or one that could not be made, of which the engine has not been told.
    pub(super) linked: Vec<Rank>,
    /// A link has advanced since the last query.
    pub(super) nearer: bool,
    /// The reason why a link could not be made, until it is reported.
    pub(super) refusal: Option<NetworkError>,
    /// The launcher tells this rank of every death.
    pub(super) deaths_are_told: bool,
}

/// The state of a remote peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RemotePeer {
    /// No caller has asked for the peer.
    Unknown,
    /// Messages to the peer are allowed. None has been sent.
    Named,
    /// This side's end could not be opened. The next call reports it.
    Refused,
    /// This side's end of the link is open.
    Linked,
    /// The peer has left or died. It refused a call of this process, which only
    /// [watched over](super::Network::watch_over) it, and has since done so this number of times.
    Silent { watches: u8 },
    /// The peer does not answer or has left, or is not remote.
    Gone,
}

impl RemotePeer {
    /// Returns whether there is no link to the peer, and may be one when it calls.
    pub(super) const fn may_call(self) -> bool {
        matches!(self, Self::Named | Self::Silent { .. })
    }
}

impl RemotePeers {
    /// Creates an empty table, for the process with this listener.
    pub(crate) fn of_unknown_peers(
        config: LinkConfig,
        listener: ConnectionListener,
        directory: Arc<Directory>,
    ) -> Self {
        Self::new(config, listener, AddressBook::Universes(directory), None)
    }

    /// Creates the table of the job's ranks on other nodes than `me`'s. All ranks have published
    /// the addresses of their listeners in `store`.
    pub(crate) fn of_job(
        config: LinkConfig,
        listener: ConnectionListener,
        (me, nodes): (Rank, &Nodes),
        store: &SharedStore,
    ) -> Result<Self, NetworkError> {
        let near = nodes.node_of(me).map_or(0, |node| nodes.ranks_on(node).count());
        let peers = nodes.ranks() as usize - near;
        let addresses = AddressBook::of_job(store, me, nodes)?;
        Ok(Self::new(config, listener, addresses, Some(peers)))
    }

    fn new(
        config: LinkConfig,
        listener: ConnectionListener,
        addresses: AddressBook,
        peers: Option<usize>,
    ) -> Self {
        Self {
            config,
            listener,
            addresses,
            known: PeerTable::default(),
            peers,
            waiting: Vec::new(),
            outgoing: Vec::new(),
            accepted: Vec::new(),
            looks: 0,
            newcomers: Vec::new(),
            linked: Vec::new(),
            nearer: false,
            refusal: None,
            deaths_are_told: false,
        }
    }

    pub(crate) const fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Returns the state of a peer.
    #[inline]
    pub(super) fn state(&self, rank: Rank) -> RemotePeer {
        self.known.get(rank).copied().unwrap_or_else(|| self.first_state(rank))
    }

    /// Returns the state in which a peer begins.
    fn first_state(&self, rank: Rank) -> RemotePeer {
        match &self.addresses {
            AddressBook::Job(job) if job.is_remote(rank) => RemotePeer::Named,
            AddressBook::Universes(directory) if rank >= directory.first() => RemotePeer::Unknown,
            _ => RemotePeer::Gone,
        }
    }

    /// Sets the state of a peer.
    pub(super) fn set(&mut self, rank: Rank, how: RemotePeer) {
        if self.first_state(rank) != RemotePeer::Gone {
            self.known.set(rank, how);
        }
    }

    /// Registers an unknown process as a peer, where such processes may become peers.
    pub(super) fn meet(&mut self, rank: Rank) {
        if self.state(rank) == RemotePeer::Unknown {
            self.set(rank, RemotePeer::Named);
            self.newcomers.push(rank);
        }
    }

    /// Returns whether a link to `rank` may be made when it calls.
    pub(super) fn may_call(&self, rank: Rank) -> bool {
        self.state(rank).may_call()
    }

    /// Returns whether `rank` has no link but may get one, or the reason for the missing link is
    /// not reported yet.
    #[cold]
    #[inline(never)]
    pub(super) fn is_unmet(&self, rank: Rank) -> bool {
        let state = self.state(rank);
        state.may_call() || state == RemotePeer::Refused
    }

    /// Lets `rank` be called as soon as its address can be read.
    pub(super) fn call_later(&mut self, rank: Rank, reason: CallReason) {
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == rank) {
            Some((_, first)) if reason == CallReason::Message => *first = reason,
            Some(_) => {}
            None => self.waiting.push((rank, reason)),
        }
    }

    /// Records that no link to `rank` could be made, and why. The next call reports it.
    pub(super) fn refuse(&mut self, rank: Rank, error: NetworkError) {
        self.linked.push(rank);
        self.set(rank, RemotePeer::Refused);
        self.refusal.get_or_insert(error);
    }

    /// Returns the peers with which no message was exchanged in either direction.
    pub(super) fn unmet(&self) -> Vec<Rank> {
        match &self.addresses {
            AddressBook::Job(job) => {
                job.remote_ranks().filter(|rank| self.may_call(*rank)).collect()
            }
            AddressBook::Universes(_) => {
                let unmet = self.known.iter().filter(|(_, state)| state.may_call());
                unmet.map(|(rank, _)| rank).collect()
            }
        }
    }

    /// Records that the [refused](RemotePeer::Refused) peers are gone.
    pub(super) fn end_refused(&mut self) {
        for state in self.known.values_mut().filter(|state| **state == RemotePeer::Refused) {
            *state = RemotePeer::Gone;
        }
    }

    /// Returns whether a call may arrive that needs an answer.
    pub(super) fn expects_calls(&self) -> bool {
        !self.outgoing.is_empty() || self.peers.is_none_or(|peers| self.known.len() < peers)
    }
}

#[cfg(test)]
mod tests {
    use strait_core::ring::Design;
    use strait_platform::boot::{InProcess, PeerAddress};

    use super::RemotePeer::{Gone, Linked, Named};
    use super::*;
    use crate::network::config::config;

    fn listener() -> ConnectionListener {
        let nonce = strait_platform::boot::nonce().unwrap();
        let own = PeerAddress { nonce, rank: 1, host: 5, address: None, key: [0; 16] };
        ConnectionListener::open(own, false).unwrap()
    }

    #[test]
    fn a_peer_takes_memory_when_its_state_changes() {
        let nodes = Nodes::blocks(10_000, 5_000).unwrap();
        let store = SharedStore::new(Box::new(InProcess::new(1)));
        let job = config(Design::ZeroCopy, 1 << 16);
        let mut peers = RemotePeers::of_job(job, listener(), (1, &nodes), &store).unwrap();
        assert_eq!(peers.known.room(), 0);
        let states = [0, 1, 2, 9_999, 10_000].map(|rank| peers.state(rank));
        assert_eq!(states, [Gone, Gone, Named, Named, Gone]);
        peers.set(9_999, Linked);
        [0, 10_000].into_iter().for_each(|rank| peers.set(rank, Linked));
        assert_eq!([0, 9_999, 10_000].map(|rank| peers.state(rank)), [Gone, Linked, Gone]);
        assert!(peers.known.room() < 8 && size_of::<RemotePeer>() <= 2);
        assert_eq!(peers.unmet().len(), 9_997);
        assert!(peers.expects_calls());
        (2..10_000).for_each(|rank| peers.set(rank, Gone));
        assert!(!peers.expects_calls() && peers.unmet().is_empty());
    }
}
