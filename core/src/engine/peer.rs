//! The state that one rank keeps about another.

use super::budget::Share;
use super::copy_ring::{Emptying, Outlet};
use super::offers::Offers;
use super::request::OutgoingMessage;
use super::{FailureCause, Fault};
use crate::layout::Segment;
use crate::lmt::TransferChoice;
use crate::shm::{Baton, DoorbellPtr, FastboxReceiver, FastboxSender, LineMessage, Parcels};
use crate::wire::{Key, KindLength, Sequence};

/// Private state about one peer. The fields of the short path come first, together.
#[derive(Debug)]
pub(super) struct Peer {
    /// This rank's end of the baton. It is shut unless `outbox` is [`FastboxState::Open`] and no
    /// send waits.
    pub(super) baton: Baton,
    /// This rank's end of the fastbox to the peer. It is shut under the same condition as `baton`.
    pub(super) fastbox_out: FastboxSender,
    /// Number of the next packet to the peer.
    pub(super) next_out: Sequence,
    /// Classes of tags in which a message without a turn went to the peer.
    pub(super) eager: EagerFlags,
    /// The peer's doorbell.
    pub(super) bell: DoorbellPtr,
    /// Number of the next packet from the peer.
    pub(super) next_in: Sequence,
    /// This rank's end of the fastbox from the peer. Until the peer announces its own, an empty
    /// one.
    pub(super) fastbox_in: FastboxReceiver,
    pub(super) outbox: FastboxState,
    /// Whether baton and fastbox may be used: `outbox` is [`FastboxState::Open`] and no send waits.
    pub(super) short_ways: bool,
    pub(super) inbox_open: bool,
    pub(super) baton_found: bool,
    /// Set when the peer is known to run no more. Its last packets may not all be delivered yet.
    pub(super) ended: bool,
    pub(super) gone: Option<Gone>,
    /// Whether an attempt to move data from the peer's memory is worthwhile.
    pub(super) may_read: bool,
    /// Whether an attempt to move data to the peer's memory is worthwhile.
    pub(super) may_write: bool,
    /// The parcels that this rank shares with the peer.
    pub(super) parcels: Parcels,
    pub(super) parcels_asked: bool,
    /// Bytes that have been taken of the parcel which the next packet from the peer names, while
    /// its sender fills it.
    pub(super) taken: usize,
    /// This rank's end of the copy ring to the peer.
    pub(super) outlet: Outlet,
    /// This rank's end of the copy ring from the peer, opened when the peer announces its first
    /// message.
    pub(super) inlet: Option<Emptying>,
    /// The choice of the transfer for large messages to the peer.
    pub(super) choice: TransferChoice,
    /// Sends that wait for cells, oldest first.
    pub(super) waiting: WaitList,
    /// Sends that were offered to the peer and not pulled yet.
    pub(super) offers: Offers,
    /// Receives that met offers of the peer, oldest first. The first one's message has been pulled.
    pub(super) calls: WaitList,
    /// Messages announced to a peer on this node since its last RTR, counted up to [`UNASKED`].
    pub(super) unasked: u8,
    /// The peer's share of the memory of unexpected messages.
    pub(super) share: Share,
    /// The target of the rest of the message that the peer is in the middle of sending.
    pub(super) arriving: Option<PartialMessage>,
    /// The streams to and from a peer on another node, until it is gone.
    pub(super) stream: Option<u32>,
}

/// Number of messages after which this rank stops looking for RTRs of the peer before it sends. The
/// next RTR comes by progress.
pub(super) const UNASKED: u8 = 16;

impl Peer {
    pub(super) fn new(segment: &Segment, rank: u32, peer: u32) -> Self {
        Self {
            baton: segment.empty_baton(),
            fastbox_out: FastboxSender::new(segment.fastbox(rank, peer)),
            next_out: Sequence::first(rank, peer),
            eager: EagerFlags::default(),
            bell: segment.doorbell(peer),
            next_in: Sequence::first(peer, rank),
            fastbox_in: FastboxReceiver::new(segment.empty_fastbox()),
            outbox: FastboxState::Unopened,
            short_ways: false,
            inbox_open: false,
            baton_found: false,
            ended: false,
            gone: None,
            may_read: true,
            may_write: true,
            parcels: segment.parcels(rank, peer),
            parcels_asked: rank == peer,
            taken: 0,
            outlet: Outlet::Unopened,
            inlet: None,
            choice: TransferChoice::default(),
            waiting: WaitList::default(),
            offers: Offers::default(),
            calls: WaitList::default(),
            unasked: 0,
            share: Share::default(),
            arriving: None,
            stream: None,
        }
    }
}

/// The Eager-flags of `[SpecRndv09]` §3.3.2, one for each class of tags, so that a short message
/// sets its flag by one store. Another tag of the same class looks like the same envelope and costs
/// an RTR.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EagerFlags {
    set: [bool; TAG_CLASSES],
    /// Number of the last look that found the flag set.
    found: [u64; TAG_CLASSES],
}

const TAG_CLASSES: usize = 16;

impl EagerFlags {
    /// Notes that a message other than a large one goes to the peer: it is eager, or kept because
    /// there is no room.
    #[inline(always)]
    pub(super) const fn set(&mut self, key: Key) {
        self.set[key.tag() as usize % TAG_CLASSES] = true;
    }

    /// Looks at the flag and clears it. `number` is the number of this look. Returns the number of
    /// the last look that found the flag set; zero for none.
    pub(super) const fn look(&mut self, key: Key, number: u64) -> u64 {
        let class = key.tag() as usize % TAG_CLASSES;
        if self.set[class] {
            self.set[class] = false;
            self.found[class] = number;
        }
        self.found[class]
    }
}

impl Peer {
    /// Returns a peer that has no place in the segment. Operations with it fail to start until
    /// [`Peer::set_remote`].
    pub(super) fn beyond(segment: &Segment, rank: u32) -> Self {
        // Its paths through the segment are those of this rank to itself, and stay shut.
        Self {
            outbox: FastboxState::Refused,
            gone: Some(Gone::Unreachable),
            parcels_asked: true,
            ..Self::new(segment, rank, rank)
        }
    }

    /// Leaves the stream with this number as the only path to the peer.
    pub(super) fn set_remote(&mut self, stream: u32) {
        self.stream = Some(stream);
        self.gone = None;
        self.outbox = FastboxState::Refused;
        self.outlet = Outlet::Refused;
        self.parcels_asked = true;
        // A sequence number that no packet in the segment carries.
        self.next_in += 1 << 46;
    }

    /// Points the baton to its real place. The pair's memory is backed, by this rank or by the
    /// peer.
    pub(super) fn find_baton(&mut self, segment: &Segment, rank: u32, peer: u32) {
        if !self.baton_found {
            self.baton_found = true;
            self.baton = segment.baton(rank, peer);
        }
    }

    /// Returns the kind and length of the next packet from the peer if it lies in lines, and
    /// whether those are the baton's.
    #[inline(always)]
    pub(super) fn find_next(&self) -> Option<(KindLength, bool)> {
        match self.baton.peek(self.next_in) {
            Some(found) => Some((found, true)),
            None => self.fastbox_in.peek(self.next_in).map(|found| (found, false)),
        }
    }

    /// Returns the next packet from the peer, which lies in lines.
    #[inline(always)]
    pub(super) const fn lines_of_next(&self, by_baton: bool) -> LineMessage {
        if by_baton { self.baton.message() } else { self.fastbox_in.message() }
    }

    /// Returns whether a packet of `length` bytes fits in the lines in which it lies.
    #[inline(always)]
    pub(super) const fn next_holds(&self, by_baton: bool, length: usize) -> bool {
        if by_baton { self.baton.holds(length) } else { self.fastbox_in.holds(length) }
    }

    /// Ends the reading of the next packet from the peer.
    #[inline(always)]
    pub(super) fn release_next(&mut self, by_baton: bool, length: usize) {
        if by_baton {
            self.baton.release();
        } else {
            self.fastbox_in.release(length);
        }
        self.next_in += 1;
    }

    /// Opens the short paths out. The peer polls them, and no older send waits. The baton stays
    /// shut for a peer that was told to keep its messages: by the baton it could send without a
    /// look at the flow words.
    pub(super) fn open(&mut self) {
        self.short_ways = true;
        self.fastbox_out.open();
        if !self.share.is_full() {
            self.baton.open();
        }
    }

    /// Shuts the short paths out until [`Peer::open`].
    pub(super) fn shut(&mut self) {
        self.short_ways = false;
        self.baton.shut();
        self.fastbox_out.shut();
    }
}

/// The state of this rank's fastbox to a peer. The embedder backs its memory at the pair's first
/// message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FastboxState {
    /// No memory has been asked for yet.
    Unopened,
    /// Asked for ([`super::Engine::poll_want`]); meanwhile messages go through the queue.
    Wanted,
    /// Backed; the next packet through the queue announces it.
    Backed,
    /// In use.
    Open,
    /// There is no memory for it: messages always go through the queue.
    Refused,
}

/// The end of a peer's communication.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gone {
    /// It died.
    Failed(FailureCause),
    /// It left in good order.
    Finished,
    /// It is on another node, and there is no network.
    Unreachable,
}

impl Gone {
    /// Returns the fault with which operations end after such an end of the peer.
    #[must_use]
    pub const fn fault(self, rank: u32) -> Fault {
        match self {
            Self::Failed(sign) => Fault::PeerFailed { rank, sign },
            Self::Finished => Fault::PeerFinished { rank },
            Self::Unreachable => Fault::Unreachable { rank },
        }
    }
}

/// A list of requests, or of pull requests, linked through its entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitList {
    pub(super) ends: Option<(u32, u32)>,
}

/// A message of which only a part has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialMessage {
    pub(super) target: ArrivalTarget,
    /// Bytes still to come.
    pub(super) left: usize,
}

/// The target of the rest of an arriving message.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArrivalTarget {
    /// A receive that matched.
    Request(u32),
    /// The unexpected message with this number.
    Message(u32),
    /// An unexpected message that met its receive while a device was at work on it. `request` is
    /// `None` after the receive was dropped.
    Due { message: u32, request: Option<u32> },
    /// No target: the receive was dropped.
    Nobody,
}

/// The result of one attempt to hand a message over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pushed {
    /// All of it is on its way.
    Whole,
    /// There is no room now; `OutgoingMessage::sent` tells how far it came.
    Blocked,
    /// The receiver has no room: the message was offered and stays here.
    Offered,
}

impl OutgoingMessage {
    pub(super) fn left(&self) -> usize {
        self.total - self.sent
    }
}
