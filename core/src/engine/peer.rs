//! The state that one rank keeps about another.

use super::Gone;
use super::answers::Answers;
use super::budget::Share;
use super::eager_flags::EagerFlags;
use super::fill_stores::FillStores;
use super::gone::PeerEnd;
use super::large_paths::LargePaths;
use super::offers::Offers;
use super::peer_parcels::PeerParcels;
use super::reassembly::Reassembly;
use super::short_paths::ShortPaths;
use super::wait_list::WaitList;
use crate::layout::Segment;
use crate::shm::DoorbellPtr;

/// What is known of ranks without contact, for which one [`Peer`] stands in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StandIn {
    /// The ranks are on this node, or were not named yet.
    OnNode,
    /// The ranks are on other nodes, and can be reached.
    Remote,
    /// The ranks are on other nodes, and have left in good order. Their links are still to be
    /// looked at.
    Leaving,
    /// The ranks were on other nodes, and have left in good order.
    Finished,
    /// The ranks are on other nodes, and there is no network.
    Unreachable,
}

impl StandIn {
    pub(super) const COUNT: usize = Self::Unreachable as usize + 1;

    #[cfg(test)]
    pub(super) const ALL: [Self; Self::COUNT] =
        [Self::OnNode, Self::Remote, Self::Leaving, Self::Finished, Self::Unreachable];

    /// Returns whether the ranks are on this node.
    pub(super) fn is_on_node(self) -> bool {
        self == Self::OnNode
    }

    /// Returns how the ranks have ended their communication, if they have.
    pub(super) const fn gone(self) -> Option<Gone> {
        match self {
            Self::OnNode | Self::Remote | Self::Leaving => None,
            Self::Finished => Some(Gone::Finished),
            Self::Unreachable => Some(Gone::Unreachable),
        }
    }
}

/// The number of the stream of a remote peer that has none. No stream has it, since a pool has
/// fewer entries.
const NO_STREAM: u32 = u32::MAX;

/// Private state about one peer: machines, each with its own state. Those of the short path come
/// first, together.
#[derive(Debug)]
pub(super) struct Peer {
    /// Baton, fastboxes and sequence numbers.
    pub(super) paths: ShortPaths,
    /// Classes of tags in which a message without a turn went to the peer.
    pub(super) eager: EagerFlags,
    /// The batch in which a receive from the peer was last started ([`super::early_look`]).
    pub(super) receives: u16,
    /// The peer's doorbell.
    bell: DoorbellPtr,
    end: PeerEnd,
    /// What is known of the ranks for which this value stands in, if it does.
    stand_in: Option<StandIn>,
    /// The stream to and from a peer on another node. Its number may be another peer's after the
    /// peer is gone.
    stream: Option<u32>,
    /// The parcels that this rank shares with the peer.
    pub(super) parcels: PeerParcels,
    /// Memory and rings through which large messages go.
    pub(super) large: LargePaths,
    /// How parts of messages get into cells.
    pub(super) fill_stores: FillStores,
    /// Sends that wait for cells, oldest first.
    pub(super) waiting: WaitList,
    /// Sends that were offered to the peer and not pulled yet.
    pub(super) offers: Offers,
    /// Synchronous sends that have handed their messages over, and that the peer has not answered.
    pub(super) unmatched: WaitList,
    /// The answers to synchronous messages, in both directions.
    pub(super) answers: Answers,
    /// Receives that met offers of the peer, oldest first. The first one's message has been pulled.
    pub(super) pulls: WaitList,
    /// The peer's share of the memory of unexpected messages.
    pub(super) share: Share,
    /// The message that the peer is in the middle of sending.
    pub(super) arriving: Reassembly,
}

impl Peer {
    pub(super) fn new(segment: &Segment, rank: u32, peer: u32) -> Self {
        Self {
            paths: ShortPaths::new(segment, rank, peer),
            eager: EagerFlags::default(),
            receives: 0,
            bell: segment.doorbell(peer),
            end: PeerEnd::default(),
            stand_in: None,
            stream: None,
            parcels: PeerParcels::new(segment, rank, peer),
            large: LargePaths::default(),
            fill_stores: FillStores::default(),
            waiting: WaitList::default(),
            offers: Offers::default(),
            unmatched: WaitList::default(),
            answers: Answers::default(),
            pulls: WaitList::default(),
            share: Share::default(),
            arriving: Reassembly::default(),
        }
    }

    /// Returns the state that stands for all ranks without contact of which this is known
    /// ([`super::peers`]). Short calls decline it, and no packet is its next one. A larger message
    /// asks for the same memory as after contact.
    pub(super) fn standing_in(known: StandIn, segment: &Segment, rank: u32) -> Self {
        let mut peer = Self::new(segment, rank, rank);
        match known {
            StandIn::OnNode | StandIn::Unreachable => peer.paths.expect_nothing(),
            StandIn::Remote | StandIn::Leaving | StandIn::Finished => peer.set_remote(NO_STREAM),
        }
        peer.end.set(Some(known.gone().unwrap_or(Gone::Unreachable)));
        peer.stand_in = Some(known);
        peer
    }

    /// Returns what is known of the ranks for which this value stands in, if it does.
    #[inline(always)]
    pub(super) const fn stands_in(&self) -> Option<StandIn> {
        self.stand_in
    }

    /// Returns a peer on another node that has gone without contact.
    pub(super) fn gone_before_contact(segment: &Segment, rank: u32, how: Gone) -> Self {
        let mut peer = Self::beyond(segment, rank);
        peer.set_remote(NO_STREAM);
        peer.leave(how);
        peer
    }

    /// Returns a peer that has no place in the segment. Operations with it fail to start until
    /// [`Peer::set_remote`].
    pub(super) fn beyond(segment: &Segment, rank: u32) -> Self {
        // Its paths through the segment are those of this rank to itself, and stay shut.
        let mut peer = Self::new(segment, rank, rank);
        peer.paths.refuse();
        peer.end.set(Some(Gone::Unreachable));
        peer
    }

    /// Leaves the stream with this number as the only path to the peer.
    pub(super) fn set_remote(&mut self, stream: u32) {
        self.stream = Some(stream);
        self.end.set(None);
        self.paths.expect_nothing();
        self.parcels.refuse();
        self.large.refuse_ring();
    }

    /// Returns whether the peer is on this node and is not gone.
    #[inline(always)]
    pub(super) const fn is_plainly_here(&self) -> bool {
        self.gone().is_none() && !self.is_remote()
    }

    /// Returns whether the peer is on another node and was reachable at some time.
    #[inline]
    pub(super) const fn is_remote(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns the number of the stream to and from a peer on another node. After the peer is gone
    /// the number may be another peer's.
    pub(super) const fn stream(&self) -> Option<u32> {
        self.stream
    }

    /// Returns how the peer ended its communication, if it did.
    pub(super) const fn gone(&self) -> Option<Gone> {
        self.end.gone()
    }

    /// Ends the communication with the peer.
    pub(super) fn leave(&mut self, how: Gone) {
        self.end.set(Some(how));
        self.paths.shut();
    }

    /// Notes that the peer runs no more.
    pub(super) const fn end(&mut self) {
        self.end.end();
    }

    /// Returns whether the peer runs no more. Its last packets may not all be delivered yet.
    pub(super) const fn has_ended(&self) -> bool {
        self.end.has_ended()
    }

    /// Returns whether the peer sleeps, or is about to, and must be woken for what was published.
    #[inline(always)]
    pub(super) fn wants_bell(&self) -> bool {
        self.bell.get().is_wanted()
    }

    /// Returns whether no send to the peer waits for something that the peer does.
    pub(super) const fn owes_nothing(&self) -> bool {
        self.waiting.is_empty() && self.offers.is_empty() && self.unmatched.is_empty()
    }

    /// Opens the short paths out. The peer polls them, and no older send waits. The baton stays
    /// shut for a peer that was told to keep its messages: by the baton it could send without a
    /// look at the flow words.
    pub(super) fn open(&mut self) {
        self.paths.open(!self.share.is_full());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::with_segment;

    #[test]
    fn a_peer_without_a_place_is_unreachable_until_it_has_a_stream() {
        with_segment(1, |segment| {
            let mut peer = Peer::beyond(segment, 0);
            assert_eq!((peer.gone(), peer.is_remote()), (Some(Gone::Unreachable), false));
            assert!(!peer.paths.is_unopened() && peer.parcels.wants_memory(1).is_none());
            peer.set_remote(3);
            assert_eq!((peer.gone(), peer.stream()), (None, Some(3)));
            assert!(!peer.paths.is_unopened() && peer.large.wants_ring(|| true).is_none());
        });
    }

    #[test]
    fn a_peer_that_has_left_takes_no_short_messages() {
        with_segment(2, |segment| {
            let mut peer = Peer::new(segment, 0, 1);
            peer.open();
            assert!(peer.paths.is_open() && !peer.has_ended());
            peer.end();
            assert!(peer.has_ended() && peer.gone().is_none());
            peer.leave(Gone::Finished);
            assert_eq!(peer.gone(), Some(Gone::Finished));
            assert!(!peer.paths.is_open());
        });
    }
}
