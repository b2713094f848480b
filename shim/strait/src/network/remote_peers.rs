//! The remote peers and their states: ranks of the job on other nodes, and processes of other
//! universes.
//!
//! A rank of the job is known by the address that it put into the job's key-value store. Addresses
//! of other processes ([`PeerAddress`]) come from the embedder,
//! and get numbers of this process's own ([`Directory`]). The link to a peer is made with the first
//! message to it, or when a message from it is awaited. It is also made when the peer calls at this
//! process's [listener](super::listener). Until then a peer costs nothing.

use std::sync::Arc;

use strait_core::ring::{LinkAddress, LinkConfig};
use strait_platform::boot::{Directory, KeyValueStore, PeerAddress};
use strait_platform::{Nodes, Rank};

use super::calls::Call;
use super::config::peers;
use super::listener::{AcceptedPeer, ConnectionListener};
use crate::NetworkError;

/// The remote peers of one rank.
#[derive(Debug)]
pub(crate) struct RemotePeers {
    pub(super) config: LinkConfig,
    pub(crate) listener: ConnectionListener,
    pub(super) directory: Arc<Directory>,
    /// The states of the peers, by number, from the directory's first number on.
    pub(super) known: Vec<RemotePeer>,
    /// Unknown processes may call.
    open: bool,
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
#[derive(Debug)]
pub(super) enum RemotePeer {
    /// No caller has asked for the peer.
    Unknown,
    /// Messages to the peer are allowed. None has been sent.
    Named,
    /// This side's end could not be opened. The next call reports it.
    Refused,
    /// This side's end of the link is open, and has this address.
    Linked(LinkAddress),
    /// The peer has left or died. It refused a call of this process, which only
    /// [watched over](super::Network::watch_over) it, and has since done so this number of times.
    Silent { watches: u8 },
    /// The peer does not answer or has left, or is not remote.
    Gone,
}

impl RemotePeer {
    /// Returns whether there is no link to the peer, and may be one when it calls.
    pub(super) const fn may_call(&self) -> bool {
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
        Self::new(config, listener, directory, Vec::new(), true)
    }

    /// Creates the table of the job's ranks on other nodes than `me`'s. All ranks have published
    /// the addresses of their listeners in `store` ([`RemotePeers::publish`]).
    pub(crate) fn of_job(
        config: LinkConfig,
        listener: ConnectionListener,
        (me, nodes): (Rank, &Nodes),
        store: &mut dyn KeyValueStore,
    ) -> Result<Self, NetworkError> {
        let mut peer_address = |peer| {
            let found = store.get(&key(peer)).map_err(NetworkError::Store)?;
            let bytes = found.and_then(|bytes| bytes.try_into().ok());
            bytes.map(|bytes| PeerAddress::from_bytes(&bytes)).ok_or(NetworkError::Address { peer })
        };
        let peer_addresses = (0..nodes.ranks()).map(&mut peer_address).collect::<Result<_, _>>()?;
        let directory = Arc::new(Directory::of_job(listener.own(), peer_addresses));
        let mut known: Vec<_> = (0..nodes.ranks()).map(|_| RemotePeer::Gone).collect();
        peers(me, nodes).for_each(|peer| known[peer as usize] = RemotePeer::Named);
        Ok(Self::new(config, listener, directory, known, false))
    }

    fn new(
        config: LinkConfig,
        listener: ConnectionListener,
        directory: Arc<Directory>,
        known: Vec<RemotePeer>,
        open: bool,
    ) -> Self {
        Self {
            config,
            listener,
            directory,
            known,
            open,
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

    /// Publishes the address of this rank's listener in the store of a job. A fence must follow.
    pub(crate) fn publish(
        own: &PeerAddress,
        store: &mut dyn KeyValueStore,
    ) -> Result<(), NetworkError> {
        store.put(&key(own.rank), &own.to_bytes()).map_err(NetworkError::Store)
    }

    pub(crate) const fn config(&self) -> &LinkConfig {
        &self.config
    }

    pub(super) fn get_mut(&mut self, rank: Rank) -> Option<&mut RemotePeer> {
        let place = rank.checked_sub(self.directory.first())?;
        self.known.get_mut(place as usize)
    }

    pub(super) fn set(&mut self, rank: Rank, how: RemotePeer) {
        if let Some(other) = self.get_mut(rank) {
            *other = how;
        }
    }

    pub(super) fn meet(&mut self, rank: Rank) {
        if let Some(place) = rank.checked_sub(self.directory.first())
            && self.open
        {
            let count = self.known.len().max(place as usize + 1);
            self.known.resize_with(count, || RemotePeer::Unknown);
        }
        if let Some(other @ RemotePeer::Unknown) = self.get_mut(rank) {
            *other = RemotePeer::Named;
            self.newcomers.push(rank);
        }
    }

    /// Returns whether a link to `rank` may be made when it calls.
    pub(super) fn may_call(&mut self, rank: Rank) -> bool {
        self.get_mut(rank).is_some_and(|other| other.may_call())
    }

    /// Returns whether `rank` has no link but may get one, or the reason for the missing link is
    /// not reported yet.
    #[cold]
    #[inline(never)]
    pub(super) fn is_unmet(&mut self, rank: Rank) -> bool {
        let is_unmet =
            |other: &mut RemotePeer| other.may_call() || matches!(other, RemotePeer::Refused);
        self.get_mut(rank).is_some_and(is_unmet)
    }

    /// Returns whether a call may arrive that needs an answer.
    pub(super) fn expects_calls(&self) -> bool {
        let is_named = |other| matches!(other, &RemotePeer::Named);
        self.open || !self.outgoing.is_empty() || self.known.iter().any(is_named)
    }
}

/// Returns the key of the peer address of `rank` in the store.
fn key(rank: Rank) -> String {
    format!("strait-door-{rank}")
}
