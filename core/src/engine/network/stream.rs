//! The two streams of bytes between this rank and a peer on another node.

use core::ptr::NonNull;

use super::{ChannelProgress, Controls, Deaths};
use crate::buffer::Part;
use crate::engine::Gone;
use crate::engine::message_buffers::OwnedBuffer;
use crate::engine::wait_list::WaitList;
use crate::lmt::RemoteChoice;
use crate::memory::Memory;
use crate::wire::{Corrupt, Offer, StreamHead};

/// Both streams with one peer. Its address in memory is fixed, since a device may work on its
/// heads.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct PeerStreams {
    peer: u32,
    pub(super) outgoing: OutgoingStream,
    pub(super) incoming: IncomingStream,
    /// Messages that are being read from the peer's memory, oldest first.
    pub(super) readings: WaitList,
    /// The choice of the way for messages that the peer has announced.
    pub(super) choice: RemoteChoice,
    /// The end of the peer, if it is known to run no more. Its last packets may not all be
    /// delivered yet.
    ended: Option<Gone>,
    /// Set when the peer has announced that nothing comes after. Our messages that it took may not
    /// all be counted yet.
    left: bool,
}

impl PeerStreams {
    pub(super) fn new(peer: u32) -> Self {
        Self {
            peer,
            outgoing: OutgoingStream::default(),
            incoming: IncomingStream::default(),
            readings: WaitList::default(),
            choice: RemoteChoice::default(),
            ended: None,
            left: false,
        }
    }

    pub(super) const fn peer(&self) -> u32 {
        self.peer
    }

    /// Notes how the process of the peer has ended.
    pub(super) const fn end(&mut self, how: Gone) {
        self.ended = Some(how);
    }

    /// Returns how the process of the peer has ended, if that is known.
    pub(super) const fn ended(&self) -> Option<Gone> {
        self.ended
    }

    /// Notes that the peer has announced its end.
    pub(super) const fn leave(&mut self) {
        self.left = true;
    }

    /// Returns whether the peer has announced its end.
    pub(super) const fn has_left(&self) -> bool {
        self.left
    }

    /// Notes that the peer must be told whether there is room for its messages.
    pub(in crate::engine) const fn tell_full(&mut self, full: bool) {
        self.outgoing.keep = Some(full);
    }

    /// Notes that the peer must be told that an offered message is wanted.
    pub(in crate::engine) const fn call(&mut self, offer: Offer) {
        self.outgoing.call = Some(offer);
    }
}

/// The stream to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingStream {
    /// The packet that is being put.
    head: [u8; StreamHead::LENGTH],
    /// Bytes of the head that are not put yet.
    left: usize,
    /// Whether the packet carries the bytes of the oldest send that waits.
    carries: bool,
    /// Whether the channel holds the next part of it.
    holds: bool,
    /// To be sent: whether the peer is to keep its messages.
    keep: Option<bool>,
    /// Control messages to be sent, in this order.
    words: WaitList,
    /// To be sent: the pull request for a message.
    call: Option<Offer>,
    /// Number of the deaths known to this rank that the peer was told of.
    deaths_told: u32,
    /// To be sent last: that nothing comes after.
    leave: bool,
    /// Whether the peer has reported that it has no room.
    told_to_keep: bool,
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

    /// Makes `head` the next packet to put. If it `carries` a message, the bytes of the oldest send
    /// follow.
    pub(super) fn begin(&mut self, head: StreamHead, carries: bool) {
        self.head = head.pack();
        self.left = StreamHead::LENGTH;
        self.carries = carries;
    }

    /// Returns the part of the head that is not put yet.
    pub(super) fn rest_of_head(&mut self) -> Part {
        rest_of(NonNull::from(&mut self.head), self.left)
    }

    /// Returns whether the packet carries the bytes of the oldest send.
    pub(super) const fn carries(&self) -> bool {
        self.carries
    }

    /// Counts what the channel took. Returns the bytes behind the head, and whether all of the head
    /// is put.
    pub(super) fn count_put(&mut self, taken: ChannelProgress) -> (usize, bool) {
        let of_head = taken.bytes.min(self.left);
        self.left -= of_head;
        self.holds = taken.holds;
        (taken.bytes - of_head, self.left == 0)
    }

    /// Ends the packet, which is put completely. Returns whether it carried a message.
    pub(super) const fn end_packet(&mut self) -> bool {
        core::mem::replace(&mut self.carries, false)
    }

    /// Returns whether the channel holds a part of the packet or of the oldest send.
    pub(super) const fn holds(&self) -> bool {
        self.holds
    }

    /// Queues a control message in `place`, behind those that wait already.
    pub(super) fn say<M: Memory>(
        &mut self,
        controls: &mut Controls<M>,
        place: u32,
        head: StreamHead,
    ) {
        controls.push(&mut self.words, place, head);
    }

    /// Takes the next report to the peer. A pull request comes last: the sender is told first that
    /// its message was not read.
    pub(super) fn next_word<M: Memory>(
        &mut self,
        controls: &mut Controls<M>,
    ) -> Option<StreamHead> {
        if !self.words.is_empty() {
            return controls.pop(&mut self.words);
        }
        if let Some(keep) = self.keep.take() {
            return Some(if keep { StreamHead::Keep } else { StreamHead::Send });
        }
        self.call.take().map(|offer| StreamHead::Call(offer.name()))
    }

    /// Forgets the control messages that wait.
    pub(super) fn drop_words<M: Memory>(&mut self, controls: &mut Controls<M>) {
        while controls.pop(&mut self.words).is_some() {}
    }

    /// Returns whether the peer was not told of all deaths yet.
    pub(super) fn has_deaths<M: Memory>(&self, deaths: &Deaths<M>) -> bool {
        deaths.has_more_than(self.deaths_told)
    }

    /// Takes the next death that the peer was not told of.
    pub(super) fn next_death<M: Memory>(&mut self, deaths: &Deaths<M>) -> Option<u32> {
        deaths.next(&mut self.deaths_told)
    }

    /// Notes that the peer must be told, last, that nothing comes after.
    pub(super) const fn leave(&mut self) {
        self.leave = true;
    }

    /// Returns true once after [`OutgoingStream::leave`].
    pub(super) const fn take_leave(&mut self) -> bool {
        core::mem::replace(&mut self.leave, false)
    }

    /// Takes the report of the peer whether it has no room.
    pub(super) const fn set_told_to_keep(&mut self, told: bool) {
        self.told_to_keep = told;
    }

    /// Returns whether the peer has reported that it has no room.
    pub(super) const fn is_told_to_keep(&self) -> bool {
        self.told_to_keep
    }
}

/// The stream from a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncomingStream {
    head: [u8; StreamHead::LENGTH],
    /// Bytes of the next head that have not come yet.
    left: usize,
    /// Whether the channel holds the next part.
    holds: bool,
    /// Memory for the bytes of messages that have no target.
    scrap: Option<OwnedBuffer>,
    /// Offset in the scrap memory of the next bytes that have no target.
    scrapped: usize,
}

impl Default for IncomingStream {
    fn default() -> Self {
        let (head, left) = ([0; StreamHead::LENGTH], StreamHead::LENGTH);
        Self { head, left, holds: false, scrap: None, scrapped: 0 }
    }
}

impl IncomingStream {
    /// Returns whether a head is complete that was not handled yet.
    pub(super) const fn has_head(&self) -> bool {
        self.left == 0
    }

    /// Returns the place of the rest of the head.
    pub(super) fn rest_of_head(&mut self) -> Part {
        rest_of(NonNull::from(&mut self.head), self.left)
    }

    /// Counts bytes of the head that came.
    pub(super) fn count_head(&mut self, taken: ChannelProgress) {
        self.left -= taken.bytes.min(self.left);
        self.holds = taken.holds;
    }

    /// Returns the head, which is complete.
    pub(super) fn head(&self) -> Result<StreamHead, Corrupt> {
        StreamHead::parse(&self.head)
    }

    /// Begins the next head: the last one is handled.
    pub(super) const fn next_head(&mut self) {
        self.left = StreamHead::LENGTH;
    }

    /// Returns whether the channel holds the place of the next bytes.
    pub(super) const fn holds(&self) -> bool {
        self.holds
    }

    /// Returns whether there is memory for bytes without a target.
    pub(super) const fn has_scrap(&self) -> bool {
        self.scrap.is_some()
    }

    /// Takes memory for bytes without a target.
    pub(super) const fn lend_scrap(&mut self, scrap: OwnedBuffer) {
        self.scrap = Some(scrap);
    }

    /// Returns the memory for bytes without a target, to be released.
    pub(super) const fn scrap(&self) -> Option<OwnedBuffer> {
        self.scrap
    }

    /// Returns the place of the next of `left` bytes without a target. A part that the channel
    /// holds stays where it is.
    pub(super) fn place_of_scrap(&self, left: usize) -> Option<Part> {
        let OwnedBuffer { base, length } = self.scrap?;
        // SAFETY: the part that the channel holds lies in the scrap memory, and `scrapped` is where
        // it begins.
        let base = unsafe { base.add(self.scrapped) };
        Some(Part { base, length: left.min(length - self.scrapped) })
    }

    /// Counts bytes of a message that came, with a target or without.
    pub(super) fn count_payload(&mut self, taken: ChannelProgress, is_scrap: bool) {
        self.holds = taken.holds;
        let scrapped = self.scrapped + taken.bytes;
        self.scrapped = if is_scrap && taken.holds { scrapped } else { 0 };
    }
}

/// Returns the rest of a head that is `left` bytes from its end.
const fn rest_of(head: NonNull<[u8; StreamHead::LENGTH]>, left: usize) -> Part {
    // SAFETY: `left` is at most the length.
    Part { base: unsafe { head.cast::<u8>().add(StreamHead::LENGTH - left) }, length: left }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    const ALL: usize = StreamHead::LENGTH;

    const fn progress(bytes: usize, holds: bool) -> ChannelProgress {
        ChannelProgress { bytes, holds }
    }

    #[test]
    fn a_packet_is_put_head_first_and_then_its_message() {
        let mut stream = OutgoingStream::default();
        stream.begin(StreamHead::Leave, true);
        assert_eq!(stream.rest_of_head().length, ALL);
        assert_eq!(stream.count_put(progress(3, true)), (0, false));
        assert_eq!((stream.rest_of_head().length, stream.holds()), (ALL - 3, true));
        assert_eq!(stream.count_put(progress(ALL, false)), (3, true));
        assert!(!stream.is_between() && stream.carries() && !stream.holds());
        assert!(stream.end_packet() && stream.is_between() && !stream.end_packet());
    }

    #[test]
    fn control_messages_go_first_and_the_pull_request_last() {
        let mut controls = Controls::new(Counted::default());
        let mut streams = PeerStreams::new(4);
        let offer = Offer { total: 1, place: 2, number: 3 };
        streams.call(offer);
        streams.tell_full(true);
        let (place, outgoing) = (controls.place().unwrap(), &mut streams.outgoing);
        outgoing.say(&mut controls, place, StreamHead::Done(offer.name()));
        assert!(!outgoing.is_quiet());
        for head in
            [StreamHead::Done(offer.name()), StreamHead::Keep, StreamHead::Call(offer.name())]
        {
            assert_eq!(outgoing.next_word(&mut controls), Some(head));
        }
        assert!(outgoing.next_word(&mut controls).is_none() && outgoing.is_quiet());
        let place = controls.place().unwrap();
        outgoing.say(&mut controls, place, StreamHead::Keep);
        outgoing.drop_words(&mut controls);
        assert!(outgoing.is_quiet());
    }

    #[test]
    fn this_rank_leaves_a_stream_once() {
        let mut stream = OutgoingStream::default();
        assert!(!stream.take_leave());
        stream.leave();
        assert!(!stream.is_quiet());
        assert!(stream.take_leave() && !stream.take_leave());
    }

    #[test]
    fn a_head_comes_in_pieces_and_is_handled_when_it_is_complete() {
        let mut stream = IncomingStream::default();
        for byte in StreamHead::Send.pack() {
            assert!(!stream.has_head());
            // SAFETY: the part lies in the head.
            unsafe { stream.rest_of_head().base.write(byte) };
            stream.count_head(progress(1, true));
        }
        assert!(stream.has_head() && stream.holds());
        assert_eq!(stream.head(), Ok(StreamHead::Send));
        stream.next_head();
        assert!(!stream.has_head());
    }

    #[test]
    fn bytes_without_a_target_keep_their_place_while_the_channel_holds_it() {
        let mut stream = IncomingStream::default();
        assert!(!stream.has_scrap() && stream.place_of_scrap(4).is_none());
        let mut memory = [0_u8; 16];
        let base = NonNull::from(&mut memory).cast::<u8>();
        stream.lend_scrap(OwnedBuffer { base, length: 16 });
        let mut place_of = |taken, left| {
            stream.count_payload(taken, true);
            let part = stream.place_of_scrap(left).unwrap();
            (part.base.addr().get() - base.addr().get(), part.length)
        };
        assert_eq!(place_of(progress(0, false), 100), (0, 16));
        assert_eq!(place_of(progress(5, true), 95), (5, 11));
        assert_eq!(place_of(progress(6, false), 89), (0, 16));
        stream.count_payload(progress(5, true), false);
        assert_eq!(stream.place_of_scrap(3).unwrap().base, base);
    }

    #[test]
    fn a_peer_may_end_and_leave_in_any_order() {
        let mut streams = PeerStreams::new(4);
        assert_eq!((streams.peer(), streams.ended(), streams.has_left()), (4, None, false));
        streams.leave();
        streams.end(Gone::Finished);
        assert_eq!((streams.ended(), streams.has_left()), (Some(Gone::Finished), true));
    }
}
