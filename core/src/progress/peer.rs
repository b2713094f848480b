//! What one rank knows of another.

use super::request::Outgoing;
use crate::layout::Segment;
use crate::shm::{FastboxReceiver, FastboxSender};
use crate::wire::FIRST_SEQUENCE;

/// Private state towards one peer. The fields of the short path come first, together.
#[derive(Debug)]
pub(super) struct Peer {
    /// Our end of the fastbox to the peer; without free lines unless `outbox` is [`Outbox::Open`] and no send waits.
    pub(super) fastbox_out: FastboxSender,
    /// Number of the next packet to the peer.
    pub(super) next_out: u64,
    /// Number of the next packet from the peer.
    pub(super) next_in: u64,
    /// Our end of the fastbox from the peer; of an ever-empty one until the peer announces its own.
    pub(super) fastbox_in: FastboxReceiver,
    pub(super) outbox: Outbox,
    pub(super) inbox_open: bool,
    pub(super) gone: Option<Gone>,
    /// Sends that wait for cells, oldest first.
    pub(super) waiting: Waiting,
    /// Where the rest of the message goes that the peer is in the middle of sending.
    pub(super) arriving: Option<Arriving>,
}

impl Peer {
    pub(super) fn new(segment: &Segment, rank: u32, peer: u32) -> Self {
        let mut fastbox_out = FastboxSender::new(segment.fastbox(rank, peer));
        fastbox_out.shut();
        Self {
            fastbox_out,
            next_out: FIRST_SEQUENCE,
            next_in: FIRST_SEQUENCE,
            fastbox_in: FastboxReceiver::new(segment.empty_fastbox()),
            outbox: Outbox::Unopened,
            inbox_open: false,
            gone: None,
            waiting: Waiting::default(),
            arriving: None,
        }
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
    Failed,
    /// It left in good order.
    Finished,
}

/// A list of requests, linked through them.
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
}

impl Outgoing {
    pub(super) fn left(&self) -> usize {
        self.total - self.sent
    }
}
