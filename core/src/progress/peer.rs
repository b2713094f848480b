//! What one rank knows of another.

use super::request::Outgoing;
use super::ring::{Emptying, Outlet};
use super::{Fault, Sign};
use crate::layout::Segment;
use crate::lmt::Choice;
use crate::shm::{Baton, DoorbellPtr, FastboxReceiver, FastboxSender, LineMessage, Parcels};
use crate::wire::{Key, KindLength, Sequence};

/// Private state towards one peer. The fields of the short path come first, together.
#[derive(Debug)]
pub(super) struct Peer {
    /// Our end of the baton; shut unless `outbox` is [`Outbox::Open`] and no send waits.
    pub(super) baton: Baton,
    /// Our end of the fastbox to the peer; shut likewise.
    pub(super) fastbox_out: FastboxSender,
    /// Number of the next packet to the peer.
    pub(super) next_out: Sequence,
    /// Whether messages without a turn went to the peer.
    pub(super) eager: EagerFlags,
    /// The peer's bell.
    pub(super) bell: DoorbellPtr,
    /// Number of the next packet from the peer.
    pub(super) next_in: Sequence,
    /// Our end of the fastbox from the peer; of an ever-empty one until the peer announces its own.
    pub(super) fastbox_in: FastboxReceiver,
    pub(super) outbox: Outbox,
    /// Whether baton and fastbox may be used: `outbox` is [`Outbox::Open`] and no send waits.
    pub(super) short_ways: bool,
    pub(super) inbox_open: bool,
    pub(super) baton_found: bool,
    /// Known to run no more; what it left may not all be delivered yet.
    pub(super) ended: bool,
    pub(super) gone: Option<Gone>,
    /// Whether moving data from the peer's memory is worth a try.
    pub(super) may_read: bool,
    /// Whether moving data to the peer's memory is worth a try.
    pub(super) may_write: bool,
    /// The parcels that we share with the peer, and whether we asked for the memory of ours.
    pub(super) parcels: Parcels,
    pub(super) parcels_asked: bool,
    /// Bytes that have been taken of the parcel that the next packet from the peer names, while its sender fills it.
    pub(super) taken: usize,
    /// Our end of the copy ring to the peer.
    pub(super) outlet: Outlet,
    /// Our end of the copy ring from the peer; found when the peer announces its first message.
    pub(super) inlet: Option<Emptying>,
    /// Which transfer large messages to the peer take.
    pub(super) choice: Choice,
    /// Sends that wait for cells, oldest first.
    pub(super) waiting: Waiting,
    /// Sends to the peer that were offered and not called for yet.
    pub(super) offers: u32,
    /// Number of the last offer to the peer.
    pub(super) last_offer: u32,
    /// Receives that met offers of the peer, oldest first; the first one's message has been called for.
    pub(super) calls: Waiting,
    /// Messages announced to the peer since an RTR of its came last, as far as [`UNASKED`]; on this node.
    pub(super) unasked: u8,
    /// Bytes of private memory in the peer's unexpected messages.
    pub(super) held: usize,
    /// Whether the peer was told to keep its messages.
    pub(super) full: bool,
    /// Where the rest of the message goes that the peer is in the middle of sending.
    pub(super) arriving: Option<Arriving>,
    /// The streams to and from a peer on another node, for as long as it is there.
    pub(super) stream: Option<u32>,
}

/// Messages after which no RTR of the peer's is looked for any more before a message is sent: the next one comes by progress.
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
            outbox: Outbox::Unopened,
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
            choice: Choice::default(),
            waiting: Waiting::default(),
            offers: 0,
            last_offer: 0,
            calls: Waiting::default(),
            unasked: 0,
            held: 0,
            full: false,
            arriving: None,
            stream: None,
        }
    }
}

/// The Eager-flags of `[SpecRndv09]` §3.3.2 as a short message can set them, by one store: for each class of tags. Another tag
/// of the same class looks like the same envelope, and costs an RTR.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EagerFlags {
    set: [bool; TAG_CLASSES],
    /// Number of the last look that found the flag set.
    found: [u64; TAG_CLASSES],
}

const TAG_CLASSES: usize = 16;

impl EagerFlags {
    /// A message that is no large one goes to the peer: eager, or kept for want of room.
    #[inline(always)]
    pub(super) const fn set(&mut self, key: Key) {
        self.set[key.tag() as usize % TAG_CLASSES] = true;
    }

    /// Looks, for the time of this number. The number of the last look that found the flag set; zero for none.
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
    /// A peer that has no place in the segment. Operations with it fail to start until
    /// [`Peer::set_remote`].
    pub(super) fn beyond(segment: &Segment, rank: u32) -> Self {
        // Its ways through the segment are our own to ourselves, and stay shut.
        Self {
            outbox: Outbox::Refused,
            gone: Some(Gone::Unreachable),
            parcels_asked: true,
            ..Self::new(segment, rank, rank)
        }
    }

    /// Leaves the stream of this number as the only way to the peer.
    pub(super) fn set_remote(&mut self, stream: u32) {
        self.stream = Some(stream);
        self.gone = None;
        self.outbox = Outbox::Refused;
        self.outlet = Outlet::Refused;
        self.parcels_asked = true;
        // To a number that no packet in the segment has: none there is its.
        self.next_in += 1 << 46;
    }

    /// Looks for the baton where it really is. The pair's memory is backed: by us, or by the peer.
    pub(super) fn find_baton(&mut self, segment: &Segment, rank: u32, peer: u32) {
        if !self.baton_found {
            self.baton_found = true;
            self.baton = segment.baton(rank, peer);
        }
    }

    /// Kind and length of the next packet from the peer if it lies in lines, and whether those are the baton's.
    #[inline(always)]
    pub(super) fn find_next(&self) -> Option<(KindLength, bool)> {
        match self.baton.peek(self.next_in) {
            Some(found) => Some((found, true)),
            None => self.fastbox_in.peek(self.next_in).map(|found| (found, false)),
        }
    }

    /// The next packet from the peer, which lies in lines.
    #[inline(always)]
    pub(super) const fn lines_of_next(&self, by_baton: bool) -> LineMessage {
        if by_baton { self.baton.message() } else { self.fastbox_in.message() }
    }

    /// True when a packet of `length` bytes fits where it says it lies.
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

    /// Opens the short ways out: the peer looks there, and no older send waits. A peer that was told to keep its messages
    /// does not get the baton, by which it would go on without a look.
    pub(super) fn open(&mut self) {
        self.short_ways = true;
        self.fastbox_out.open();
        if !self.full {
            self.baton.open();
        }
    }

    /// Shuts the short ways out until [`Peer::open`].
    pub(super) fn shut(&mut self) {
        self.short_ways = false;
        self.baton.shut();
        self.fastbox_out.shut();
    }
}

/// Our fastbox to a peer. Its memory is backed when the pair first talks, by whoever embeds the engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outbox {
    /// Nobody asked for its memory yet.
    Unopened,
    /// Asked for ([`super::Engine::poll_want`]); the queue serves meanwhile.
    Wanted,
    /// Backed; the next packet through the queue announces it.
    Backed,
    /// In use.
    Open,
    /// There is no memory for it: the queue serves for good.
    Refused,
}

/// How a peer went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gone {
    /// It died.
    Failed(Sign),
    /// It left in good order.
    Finished,
    /// It is on another node, and there is no network.
    Unreachable,
}

impl Gone {
    /// The fault that operations with a peer that went this way end with.
    #[must_use]
    pub const fn fault(self, rank: u32) -> Fault {
        match self {
            Self::Failed(sign) => Fault::PeerFailed { rank, sign },
            Self::Finished => Fault::PeerFinished { rank },
            Self::Unreachable => Fault::Unreachable { rank },
        }
    }
}

/// A list of requests, or of calls, linked through them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) ends: Option<(u32, u32)>,
}

/// A message that is partly here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arriving {
    pub(super) target: Target,
    /// Bytes still to come.
    pub(super) left: usize,
}

/// Who gets the rest of an arriving message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A receive that matched.
    Request(u32),
    /// The unexpected message with this number.
    Message(u32),
    /// The same, which has met its receive while a device was at work on it; `None` when that was dropped.
    Due { message: u32, request: Option<u32> },
    /// Nobody: the receive was dropped.
    Nobody,
}

/// One step of handing a message over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pushed {
    /// All of it is on its way.
    Whole,
    /// There is no room now; `Outgoing::sent` says how far it came.
    Blocked,
    /// The receiver has no room: the message was offered and stays here.
    Offered,
}

impl Outgoing {
    pub(super) fn left(&self) -> usize {
        self.total - self.sent
    }
}
