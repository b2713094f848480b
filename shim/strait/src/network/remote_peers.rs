//! The remote peers and their states: ranks of the job on other nodes, and processes of other
//! universes.
//!
//! A rank of the job is known by the address that it put into the job's key-value store. Addresses
//! of other processes ([`PeerAddress`]) come from the embedder,
//! and get numbers of this process's own ([`Directory`]). The link to a peer is made with the first
//! message to it, or when a message from it is awaited. It is also made when the peer calls at this
//! process's [listener](super::listener). Until then a peer costs nothing.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use strait_core::engine::Channel;
use strait_core::hca::{Hca, Readiness};
use strait_core::ring::{LinkAddress, LinkConfig};
use strait_platform::backoff::POLLS_PER_LISTEN;
use strait_platform::boot::{Directory, KeyValueStore, PeerAddress};
use strait_platform::{Nodes, Rank};

use super::listener::{AcceptedPeer, ConnectRequest, ConnectionListener, OutgoingConnection};
use super::{LinkState, Network, NetworkError, peers, stride};

/// The remote peers of one rank.
#[derive(Debug)]
pub(crate) struct RemotePeers {
    config: LinkConfig,
    pub(crate) listener: ConnectionListener,
    directory: Arc<Directory>,
    /// The states of the peers, by number, from the directory's first number on.
    known: Vec<RemotePeer>,
    /// Unknown processes may call.
    open: bool,
    /// Calls in progress at the listeners of peers.
    outgoing: Vec<(Rank, OutgoingConnection)>,
    /// Peers to which an answer was sent, and which have not confirmed their connection.
    accepted: Vec<(Rank, AcceptedPeer)>,
    looks: u32,
    /// Peers of which the engine has not been told.
    newcomers: Vec<Rank>,
    /// A link has advanced since the last query.
    nearer: bool,
    /// The reason why a link could not be made, until it is reported.
    refusal: Option<NetworkError>,
    /// The launcher tells this rank of every death.
    deaths_are_told: bool,
}

/// The state of a remote peer.
#[derive(Debug)]
enum RemotePeer {
    /// No caller has asked for the peer.
    Unknown,
    /// Messages to the peer are allowed. None has been sent.
    Named,
    /// This side's end could not be opened. The next call reports it.
    Refused,
    /// This side's end of the link is open, and has this address.
    Linked(LinkAddress),
    /// The peer does not answer or has left, or is not remote.
    Gone,
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

    fn get_mut(&mut self, rank: Rank) -> Option<&mut RemotePeer> {
        let place = rank.checked_sub(self.directory.first())?;
        self.known.get_mut(place as usize)
    }

    fn set(&mut self, rank: Rank, how: RemotePeer) {
        if let Some(other) = self.get_mut(rank) {
            *other = how;
        }
    }

    fn meet(&mut self, rank: Rank) {
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

    fn is_named(&mut self, rank: Rank) -> bool {
        matches!(self.get_mut(rank), Some(RemotePeer::Named))
    }

    /// Returns whether `rank` has no link but may get one, or the reason for the missing link is
    /// not reported yet.
    #[cold]
    #[inline(never)]
    pub(super) fn is_unmet(&mut self, rank: Rank) -> bool {
        matches!(self.get_mut(rank), Some(RemotePeer::Named | RemotePeer::Refused))
    }

    /// Returns whether a call may arrive that needs an answer.
    fn expects_calls(&self) -> bool {
        let is_named = |other| matches!(other, &RemotePeer::Named);
        self.open || !self.outgoing.is_empty() || self.known.iter().any(is_named)
    }
}

impl<H: Hca> Network<H> {
    /// Registers an unknown peer, which [`Network::next_newcomer`] then passes to the engine.
    pub(crate) fn meet(&mut self, rank: Rank) {
        self.others.meet(rank);
    }

    /// Returns a peer of which the engine has not been told.
    pub(crate) fn next_newcomer(&mut self) -> Option<Rank> {
        self.others.newcomers.pop()
    }

    /// Returns the peers with which no message was exchanged in either direction.
    pub(crate) fn unmet(&self) -> Vec<Rank> {
        let all = (self.others.directory.first()..).zip(&self.others.known);
        let unmet = all.filter(|(_, other)| matches!(other, RemotePeer::Named));
        unmet.map(|(rank, _)| rank).collect()
    }

    /// Returns whether a link has advanced since the last query. That counts as progress, because a
    /// rank that was about to sleep has not asked the link for a wake-up yet.
    pub(crate) const fn take_nearer(&mut self) -> bool {
        core::mem::replace(&mut self.others.nearer, false)
    }

    /// Returns whether a link could not be made and the reason is not reported yet.
    #[inline]
    pub(crate) const fn has_refused(&self) -> bool {
        self.others.refusal.is_some()
    }

    /// Returns once the reason why a link could not be made.
    #[cold]
    pub(crate) fn take_refusal(&mut self) -> Option<NetworkError> {
        let refusal = self.others.refusal.take()?;
        for other in &mut self.others.known {
            if matches!(other, RemotePeer::Refused) {
                *other = RemotePeer::Gone;
            }
        }
        Some(refusal)
    }

    /// Calls `rank`, if that is a remote peer without a link.
    pub(crate) fn call(&mut self, rank: Rank) {
        if self.others.is_named(rank) {
            self.place_call(rank);
        }
    }

    /// Sets whether the launcher tells this rank of every death.
    pub(crate) const fn set_deaths_are_told(&mut self, are_told: bool) {
        self.others.deaths_are_told = are_told;
    }

    /// Connects to `rank`, so that its death breaks a link. Does nothing where the launcher tells
    /// of deaths.
    ///
    /// A rank calls this for each rank that it waits for without a message. Otherwise the two may
    /// never have had a link.
    pub(crate) fn watch_over(&mut self, rank: Rank) {
        if !self.others.deaths_are_told {
            self.call(rank);
        }
    }

    #[cold]
    #[inline(never)]
    fn place_call(&mut self, rank: Rank) {
        let Some(address) = self.open_end(rank) else { return };
        let others = &mut self.others;
        if let Some(to) = others.directory.peer_address(rank) {
            let mut call = OutgoingConnection::new(&others.listener.own(), to, &address);
            // The call starts at once. The next poll meets an error again.
            let _ = call.poll(&others.listener);
            others.outgoing.push((rank, call));
            others.nearer = true;
        }
    }

    /// Answers callers, and continues this process's own calls.
    #[inline(always)]
    pub(super) fn attend(&mut self) {
        let others = &mut self.others;
        others.looks = others.looks.wrapping_add(1);
        if !others.outgoing.is_empty() || !others.accepted.is_empty() {
            self.converse();
        }
        if self.others.looks.is_multiple_of(POLLS_PER_LISTEN) && self.others.expects_calls() {
            self.poll_listener();
        }
    }

    /// Accepts callers.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_listener(&mut self) {
        if self.others.listener.is_called() {
            while let Some(hello) = self.others.listener.next() {
                self.welcome(hello);
            }
        }
    }

    /// Returns whether all further data of the calls in progress make an event of the listener.
    pub(super) fn has_rung(&self) -> bool {
        self.others.outgoing.iter().all(|(_, call)| call.has_said_all())
    }

    #[cold]
    #[inline(never)]
    fn converse(&mut self) {
        let mut calls = core::mem::take(&mut self.others.outgoing);
        calls.retain_mut(|(rank, call)| self.goes_on(*rank, call));
        self.others.outgoing = calls;
        let mut accepted = core::mem::take(&mut self.others.accepted);
        accepted.retain_mut(|(rank, accepted)| self.stays(*rank, accepted));
        self.others.accepted = accepted;
    }

    /// Continues a call, and confirms the connection once this end is connected. Returns false when
    /// the call is finished.
    fn goes_on(&mut self, rank: Rank, call: &mut OutgoingConnection) -> bool {
        if self.line_mut(rank).is_none() {
            return false;
        }
        match call.poll(&self.others.listener) {
            Ok(Some(address)) => {
                self.show(rank, address);
                self.expect(rank);
                let is_ready = self.is_ready(rank);
                if is_ready {
                    call.confirm();
                }
                !is_ready
            }
            // The other process's own call has connected the link.
            _ if self.is_ready(rank) => false,
            Ok(None) => true,
            Err(_) => {
                self.give_up(rank);
                false
            }
        }
    }

    /// Waits for the caller to confirm its connection. Returns false when it has confirmed, or
    /// never will.
    fn stays(&mut self, rank: Rank, accepted: &mut AcceptedPeer) -> bool {
        match accepted.is_connected() {
            Ok(false) => return true,
            Ok(true) => self.expect(rank),
            // If this process also calls that peer, the outcome of that call decides.
            Err(_) if self.others.outgoing.iter().any(|(callee, _)| *callee == rank) => {}
            Err(_) => self.give_up(rank),
        }
        false
    }

    /// Answers a connection request. A caller that cannot be served gets no answer.
    fn welcome(&mut self, hello: ConnectRequest) {
        let Ok(rank) = self.others.directory.number(hello.from) else { return };
        self.others.meet(rank);
        if self.others.is_named(rank) {
            self.open_end(rank);
        }
        if let Some(RemotePeer::Linked(address)) = self.others.get_mut(rank) {
            let address = *address;
            self.show(rank, hello.address);
            self.others.accepted.push((rank, hello.answer(&address)));
        }
    }

    /// Opens this side's end of a link, with memory of its own, and returns its address. Returns
    /// `None` on failure, and the next call reports the reason.
    fn open_end(&mut self, rank: Rank) -> Option<LinkAddress> {
        match self.open_line(rank) {
            Ok(address) => {
                self.others.set(rank, RemotePeer::Linked(address));
                Some(address)
            }
            Err(error) => {
                self.others.set(rank, RemotePeer::Refused);
                let (bytes, error) = (stride(&self.others.config), Box::new(error));
                let limit = getrlimit(Resource::Memlock).current;
                let refusal = NetworkError::NoLink { peer: rank, bytes, limit, error };
                self.others.refusal.get_or_insert(refusal);
                None
            }
        }
    }

    /// Takes in the address of the peer's end, and begins to connect this side's end to it.
    fn show(&mut self, rank: Rank, address: LinkAddress) {
        if let Some(line) = self.lines.get_mut(rank as usize).and_then(Option::as_mut)
            && matches!(line.state, LinkState::Opened)
        {
            line.state = LinkState::Waiting(address);
            self.others.nearer = true;
            // The next use of the link meets and reports a failure.
            let _ = line.connect(&mut self.device);
        }
    }

    /// Records that the peer's end is connected to this end, or waits for it.
    fn expect(&mut self, rank: Rank) {
        if let Some(line) = self.lines.get_mut(rank as usize).and_then(Option::as_mut) {
            self.others.nearer |= !core::mem::replace(&mut line.expected, true);
        }
    }

    fn is_ready(&mut self, rank: Rank) -> bool {
        let line = self.lines.get_mut(rank as usize).and_then(Option::as_mut);
        let Some(line) = line else { return false };
        matches!(line.connect(&mut self.device), Ok(Readiness::Ready))
    }

    /// Closes the link to a peer that does not answer. Operations on the link report it.
    fn give_up(&mut self, rank: Rank) {
        if !self.is_ready(rank) {
            self.close(rank);
        }
    }

    /// Records that the link to `rank` has ended for good.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.others.set(rank, RemotePeer::Gone);
    }
}

/// Returns the key of the peer address of `rank` in the store.
fn key(rank: Rank) -> String {
    format!("strait-door-{rank}")
}
