//! The calls between this process and its remote peers, which make links.

use rustix::process::{Resource, getrlimit};
use strait_core::engine::Channel;
use strait_core::hca::{Hca, Readiness};
use strait_core::memory::OutOfMemory;
use strait_core::ring::LinkAddress;
use strait_platform::Rank;
use strait_platform::backoff::POLLS_PER_LISTEN;

use super::config::stride;
use super::listener::{AcceptedPeer, ConnectRequest, OutgoingConnection};
use super::remote_peers::{RemotePeer, RemotePeers};
use super::{LinkState, Network};
use crate::NetworkError;
use crate::memory::ShmEngine;

/// Number of times that this rank looks for deaths and still waits for a peer that has refused its
/// call, before the peer counts as dead. Each time it has looked before whether the wait is over.
const WATCHES: u8 = 3;

/// A call in progress at the listener of a peer.
#[derive(Debug)]
pub(super) struct Call {
    rank: Rank,
    reason: CallReason,
    connection: OutgoingConnection,
}

/// The reason for a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CallReason {
    /// This rank sends a message to the peer, or waits for one.
    Message,
    /// This rank waits for the peer without a message.
    Watch,
}

impl<H: Hca> Network<H> {
    /// Registers an unknown peer, of which [`Network::admit`] then tells the engine.
    pub(crate) fn meet(&mut self, rank: Rank) {
        self.others.meet(rank);
    }

    /// Tells the engine of new peers and of new links. What an error kept from it waits for the
    /// next call.
    pub(crate) fn admit(&mut self, engine: &mut ShmEngine) -> Result<(), OutOfMemory> {
        let RemotePeers { newcomers, linked, .. } = &mut self.others;
        while let Some(rank) = newcomers.last() {
            engine.set_remote(*rank)?;
            newcomers.pop();
        }
        while let Some(rank) = linked.last() {
            engine.linked(*rank)?;
            linked.pop();
        }
        Ok(())
    }

    /// Returns the peers with which no message was exchanged in either direction.
    pub(crate) fn unmet(&self) -> Vec<Rank> {
        self.others.unmet()
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
        self.others.end_refused();
        Some(refusal)
    }

    /// Calls `rank`, if that is a remote peer without a link, for a message to it or from it.
    pub(crate) fn call(&mut self, rank: Rank) {
        match self.others.state(rank) {
            RemotePeer::Named => self.place_call(rank, CallReason::Message),
            // There will be no message, whether the peer has left or died.
            RemotePeer::Silent { .. } => self.forget(rank),
            RemotePeer::Linked => {
                // A refusal of a call in progress ends the message, too.
                let its = self.others.outgoing.iter_mut().filter(|call| call.rank == rank);
                its.for_each(|call| call.reason = CallReason::Message);
            }
            _ => {}
        }
    }

    /// Sets whether the launcher tells this rank of every death.
    pub(crate) const fn set_deaths_are_told(&mut self, are_told: bool) {
        self.others.deaths_are_told = are_told;
    }

    /// Connects to `rank`, so that its death breaks a link. Does nothing where the launcher tells
    /// of deaths.
    ///
    /// A rank calls this for each rank that it waits for without a message, each time that it
    /// looks for deaths. Otherwise the two may never have had a link.
    ///
    /// The wait may be over when the peer refuses the call. Then the peer may have left in good
    /// order, and this rank must not report it as dead. So it counts as dead only when this rank
    /// has gone on to wait for it.
    pub(crate) fn watch_over(&mut self, rank: Rank) {
        if self.others.deaths_are_told {
            return;
        }
        match self.others.state(rank) {
            RemotePeer::Named => self.place_call(rank, CallReason::Watch),
            RemotePeer::Silent { watches } if watches < WATCHES => {
                self.others.set(rank, RemotePeer::Silent { watches: watches + 1 });
            }
            RemotePeer::Silent { .. } => self.forget(rank),
            _ => {}
        }
    }

    #[cold]
    #[inline(never)]
    fn place_call(&mut self, rank: Rank, reason: CallReason) {
        let to = match self.others.addresses.peer_address(rank) {
            Ok(Some(to)) => to,
            Ok(None) => return self.others.call_later(rank, reason),
            Err(error) => return self.others.refuse(rank, error),
        };
        let Some(address) = self.open_end(rank) else { return };
        let others = &mut self.others;
        let mut call = OutgoingConnection::new(&others.listener.own(), to, &address);
        // The call starts at once. The next poll meets an error again.
        let _ = call.poll(&others.listener);
        others.outgoing.push(Call { rank, reason, connection: call });
        others.nearer = true;
    }

    /// Calls the peers that wait until their addresses can be read.
    #[cold]
    #[inline(never)]
    fn call_waiting(&mut self) {
        for (rank, reason) in core::mem::take(&mut self.others.waiting) {
            if self.others.state(rank) == RemotePeer::Named {
                self.place_call(rank, reason);
            }
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
        if !self.others.waiting.is_empty() {
            self.call_waiting();
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
        let calls = &self.others.outgoing;
        self.others.waiting.is_empty() && calls.iter().all(|call| call.connection.has_said_all())
    }

    #[cold]
    #[inline(never)]
    fn converse(&mut self) {
        let mut calls = core::mem::take(&mut self.others.outgoing);
        calls.retain_mut(|call| self.goes_on(call));
        self.others.outgoing = calls;
        let mut accepted = core::mem::take(&mut self.others.accepted);
        accepted.retain_mut(|(rank, accepted)| self.stays(*rank, accepted));
        self.others.accepted = accepted;
    }

    /// Continues a call, and confirms the connection once this end is connected. Returns false when
    /// the call is finished.
    fn goes_on(&mut self, call: &mut Call) -> bool {
        let Call { rank, reason, ref mut connection } = *call;
        if self.lines.get(rank).is_none() {
            return false;
        }
        match connection.poll(&self.others.listener) {
            Ok(Some(address)) => {
                self.show(rank, address);
                self.expect(rank);
                let is_ready = self.is_ready(rank);
                if is_ready {
                    connection.confirm();
                }
                !is_ready
            }
            // The other process's own call has connected the link.
            _ if self.is_ready(rank) => false,
            Ok(None) => true,
            // The other process has called, too. It may have confirmed its connection, sent its
            // messages and left before it took this call, so its own call decides.
            Err(_) if self.others.accepted.iter().any(|(caller, _)| *caller == rank) => false,
            Err(_) => {
                match reason {
                    CallReason::Message => self.close(rank),
                    CallReason::Watch => {
                        self.end_line(rank);
                        self.others.set(rank, RemotePeer::Silent { watches: 0 });
                    }
                }
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
            Err(_) if self.others.outgoing.iter().any(|call| call.rank == rank) => {}
            Err(_) if !self.is_ready(rank) => self.close(rank),
            Err(_) => {}
        }
        false
    }

    /// Answers a connection request. A caller that cannot be served gets no answer.
    fn welcome(&mut self, hello: ConnectRequest) {
        let Some(rank) = self.others.addresses.number(hello.from) else { return };
        self.others.meet(rank);
        if self.others.may_call(rank) {
            self.open_end(rank);
        }
        if self.others.state(rank) == RemotePeer::Linked
            && let Some(line) = self.lines.get(rank)
        {
            let address = line.address;
            self.show(rank, hello.address);
            self.others.accepted.push((rank, hello.answer(&address)));
        }
    }

    /// Opens this side's end of a link, with memory of its own, and returns its address. Returns
    /// `None` on failure, and the next call reports the reason.
    fn open_end(&mut self, rank: Rank) -> Option<LinkAddress> {
        match self.open_line(rank) {
            Ok(address) => {
                self.others.linked.push(rank);
                self.others.set(rank, RemotePeer::Linked);
                Some(address)
            }
            Err(error) => {
                let (bytes, error) = (stride(&self.others.config), Box::new(error));
                let limit = getrlimit(Resource::Memlock).current;
                self.others.refuse(rank, NetworkError::NoLink { peer: rank, bytes, limit, error });
                None
            }
        }
    }

    /// Takes in the address of the peer's end, and begins to connect this side's end to it.
    fn show(&mut self, rank: Rank, address: LinkAddress) {
        if let Some(line) = self.lines.get_mut(rank)
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
        if let Some(line) = self.lines.get_mut(rank) {
            self.others.nearer |= !core::mem::replace(&mut line.expected, true);
        }
    }

    fn is_ready(&mut self, rank: Rank) -> bool {
        let Some(line) = self.lines.get_mut(rank) else { return false };
        matches!(line.connect(&mut self.device), Ok(Readiness::Ready))
    }

    /// Records that the link to `rank` has ended for good.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.others.set(rank, RemotePeer::Gone);
    }
}
