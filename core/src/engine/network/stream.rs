//! The two streams of bytes between this rank and a peer on another node.

use core::ptr::NonNull;

use crate::buffer::Part;
use crate::engine::Gone;
use crate::engine::request::OwnedBuffer;
use crate::engine::wait_list::WaitList;
use crate::wire::{Offer, StreamHead};

/// Both streams with one peer. Its address in memory is fixed, since a device may work on its
/// heads.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct PeerStreams {
    pub(super) peer: u32,
    pub(super) outgoing: OutgoingStream,
    pub(super) incoming: IncomingStream,
    /// Messages that are being read from the peer's memory, oldest first.
    pub(super) readings: WaitList,
    /// The end of the peer, if it is known to run no more. Its last packets may not all be
    /// delivered yet.
    pub(super) ended: Option<Gone>,
    /// Set when the peer has announced that nothing comes after. Our messages that it took may not
    /// all be counted yet.
    pub(super) left: bool,
    /// Memory for the bytes of messages that have no target.
    pub(super) scrap: Option<OwnedBuffer>,
}

impl PeerStreams {
    /// Notes that the peer must be told whether there is room for its messages.
    pub(in crate::engine) const fn tell_full(&mut self, full: bool) {
        self.outgoing.keep = Some(full);
    }

    /// Notes that the peer must be told that an offered message is wanted.
    pub(in crate::engine) const fn call(&mut self, offer: Offer) {
        self.outgoing.call = Some(offer);
    }

    /// Returns the scrap memory, to be released.
    pub(in crate::engine) const fn scrap(&self) -> Option<OwnedBuffer> {
        self.scrap
    }
}

/// The stream to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingStream {
    /// The packet that is being put.
    pub(super) head: [u8; StreamHead::LENGTH],
    /// Bytes of the head that are not put yet.
    pub(super) left: usize,
    /// Whether the packet carries the bytes of the oldest send that waits.
    pub(super) carries: bool,
    /// Whether the channel holds the next part of it.
    pub(super) holds: bool,
    /// To be sent: whether the peer is to keep its messages.
    pub(super) keep: Option<bool>,
    /// Control messages to be sent, in this order.
    pub(super) words: WaitList,
    /// To be sent: the pull request for a message.
    pub(super) call: Option<Offer>,
    /// Number of the deaths known to this rank that the peer was told of.
    pub(super) deaths_told: u32,
    /// To be sent last: that nothing comes after.
    pub(super) leave: bool,
    /// Whether the peer has reported that it has no room.
    pub(super) told_to_keep: bool,
}

impl Default for OutgoingStream {
    fn default() -> Self {
        Self {
            head: [0; StreamHead::LENGTH],
            left: 0,
            carries: false,
            holds: false,
            keep: None,
            words: WaitList::default(),
            call: None,
            deaths_told: 0,
            leave: false,
            told_to_keep: false,
        }
    }
}

impl OutgoingStream {
    /// Returns whether there is nothing to put but messages.
    pub(super) const fn is_quiet(&self) -> bool {
        let silent = self.keep.is_none() && self.call.is_none() && self.words.is_empty();
        self.is_between() && silent && !self.leave
    }

    /// Returns whether no packet is being put.
    pub(super) const fn is_between(&self) -> bool {
        self.left == 0 && !self.carries
    }

    pub(super) fn begin(&mut self, head: StreamHead, carries: bool) {
        self.head = head.pack();
        self.left = StreamHead::LENGTH;
        self.carries = carries;
    }

    /// Takes the next report that is not a control message: whether there is room for all messages,
    /// or which one is wanted.
    pub(super) fn take_wish(&mut self) -> Option<StreamHead> {
        if let Some(keep) = self.keep.take() {
            return Some(if keep { StreamHead::Keep } else { StreamHead::Send });
        }
        self.call.take().map(|offer| StreamHead::Call(offer.name()))
    }
}

/// The stream from a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncomingStream {
    pub(super) head: [u8; StreamHead::LENGTH],
    /// Bytes of the next head that have not come yet.
    pub(super) left: usize,
    /// Whether the channel holds the next part.
    pub(super) holds: bool,
    /// Offset in the scrap memory of the next bytes that have no target.
    pub(super) scrapped: usize,
}

impl Default for IncomingStream {
    fn default() -> Self {
        Self { head: [0; StreamHead::LENGTH], left: StreamHead::LENGTH, holds: false, scrapped: 0 }
    }
}

/// Returns the rest of a head that is `left` bytes from its end.
pub(super) const fn rest_of(head: NonNull<[u8; StreamHead::LENGTH]>, left: usize) -> Part {
    // SAFETY: `left` is at most the length.
    Part { base: unsafe { head.cast::<u8>().add(StreamHead::LENGTH - left) }, length: left }
}
