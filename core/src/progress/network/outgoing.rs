//! Packets on their way out.

use core::ptr::NonNull;

use super::{Broken, Channel, Stream, rest_of};
use crate::memory::Memory;
use crate::progress::peer::Waiting;
use crate::progress::request::{Entry, Request, Stage};
use crate::progress::{Cursor, Engine, Owner, Part, RequestId, SendMode, Sent, StartError, Status};
use crate::wire::{Key, Offer, StreamHead};

/// Parts that one put names: the head, and pieces of the message.
const PARTS: usize = 8;

/// The stream to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    /// The packet that is being put, and how much of its head is not put yet.
    head: [u8; StreamHead::LENGTH],
    left: usize,
    /// Whether the bytes of the oldest send that waits belong to the packet.
    carries: bool,
    /// Whether the channel holds what comes next of it.
    pub(super) holds: bool,
    /// To be said: whether the peer is to keep its messages.
    pub(super) keep: Option<bool>,
    /// To be said of messages, in this order.
    pub(super) words: Waiting,
    /// To be said: which message is wanted.
    pub(super) call: Option<Offer>,
    /// To be said when all else is: that nothing comes after.
    pub(super) leave: bool,
    /// The peer has said that it has no room.
    pub(super) told_to_keep: bool,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            head: [0; StreamHead::LENGTH],
            left: 0,
            carries: false,
            holds: false,
            keep: None,
            words: Waiting::default(),
            call: None,
            leave: false,
            told_to_keep: false,
        }
    }
}

impl Outgoing {
    /// True when there is nothing to put but messages.
    pub(super) const fn is_quiet(&self) -> bool {
        let silent = self.keep.is_none() && self.call.is_none() && self.words.ends.is_none();
        self.is_between() && silent && !self.leave
    }

    /// True when no packet is being put.
    const fn is_between(&self) -> bool {
        self.left == 0 && !self.carries
    }

    fn begin(&mut self, head: StreamHead, carries: bool) {
        self.head = head.pack();
        self.left = StreamHead::LENGTH;
        self.carries = carries;
    }

    /// What is to be said of all messages, or of one that is wanted.
    pub(super) fn take_wish(&mut self) -> Option<StreamHead> {
        if let Some(keep) = self.keep.take() {
            return Some(if keep { StreamHead::Keep } else { StreamHead::Send });
        }
        self.call.take().map(|offer| StreamHead::Call(offer.name()))
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Begins to send to a peer on another node: the message waits until [`Engine::poll_network`] puts it.
    pub(in crate::progress) fn isend_remote(
        &mut self,
        mode: SendMode,
        destination: u32,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        let message = crate::progress::request::Outgoing {
            key,
            total: data.remaining(),
            sent: 0,
            data,
            stage: mode.first_stage(),
        };
        let request = Request::Sending { message, next: None, detached: None };
        let id = self.requests.insert(Entry { owner, request })?;
        self.line_up(destination, id);
        Ok(Sent::Pending(RequestId(id)))
    }

    /// Puts packets, as far as the stream takes them.
    pub(super) fn push_stream(
        &mut self,
        number: u32,
        channel: &mut impl Channel,
    ) -> Result<bool, Broken> {
        let mut moved = false;
        while self.begin_packet(number, channel) {
            let (bytes, whole) = self.put_packet(number, channel)?;
            moved |= bytes > 0;
            if !whole {
                break;
            }
            self.end_packet(number);
        }
        Ok(moved)
    }

    /// Makes sure that there is a packet to put. False: there is nothing to say.
    fn begin_packet(&mut self, number: u32, channel: &mut impl Channel) -> bool {
        let Some(stream) = self.streams.get_mut(number) else { return false };
        let (destination, outgoing) = (stream.peer, &mut stream.outgoing);
        if !outgoing.is_between() {
            return true;
        }
        let told_to_keep = outgoing.told_to_keep;
        if let Some(word) = self.take_word(number) {
            return self.begin(number, word, false);
        }
        let Some((first, _)) = self.peers[destination as usize].waiting.ends else {
            let leave = self.streams.get_mut(number).map(|stream| &mut stream.outgoing.leave);
            return leave.is_some_and(core::mem::take)
                && self.begin(number, StreamHead::Leave, false);
        };
        let Some(Request::Sending { message, .. }) = self.request(first) else { return false };
        let (key, total) = (message.key, message.total);
        let large = total > self.tuning.stream_max.min(self.tuning.unexpected_max);
        match message.stage {
            Stage::Called => self.begin(number, StreamHead::Called { key, total }, true),
            stage if large || told_to_keep || stage == Stage::Synchronous => {
                let news = self.announce(destination, first, large, channel);
                news.is_some_and(|head| self.begin(number, head, false))
            }
            _ => {
                self.asked_by.eager(destination, key);
                self.begin(number, StreamHead::Message { key, total }, true)
            }
        }
    }

    /// Has a packet put next. True.
    fn begin(&mut self, number: u32, head: StreamHead, carries: bool) -> bool {
        if let Some(stream) = self.streams.get_mut(number) {
            stream.outgoing.begin(head, carries);
        }
        true
    }

    /// Puts what is left of the packet. How many bytes went, and whether that was all.
    fn put_packet(
        &mut self,
        number: u32,
        channel: &mut impl Channel,
    ) -> Result<(usize, bool), Broken> {
        let Some(stream) = self.streams.get_mut(number) else { return Ok((0, false)) };
        let Stream { peer, outgoing, .. } = stream;
        let (peer, left, carries) = (*peer, outgoing.left, outgoing.carries);
        let mut parts = [Part { base: NonNull::dangling(), length: 0 }; PARTS];
        parts[0] = rest_of(NonNull::from(&mut outgoing.head), left);
        let mut count = usize::from(left > 0);
        let first = self.peers[peer as usize].waiting.ends.map(|(first, _)| first);
        let mut of_message = 0;
        if carries
            && let Some(Request::Sending { message, .. }) = first.and_then(|id| self.request(id))
        {
            of_message = message.left();
            count += message.data.list(of_message, &mut parts[count..]);
        }
        // SAFETY: the head lies in the slab, where it stays; the message is claimed (contract of `isend`) until its request is
        // over, and nobody ends that while the channel holds a part of it. Nothing goes between two puts of one packet.
        let taken = unsafe { channel.put(peer, &parts[..count]) }?;
        let of_head = taken.bytes.min(left);
        let sent = (taken.bytes - of_head).min(of_message);
        if let Some(stream) = self.streams.get_mut(number) {
            stream.outgoing.left -= of_head;
            stream.outgoing.holds = taken.holds;
        }
        if sent > 0
            && let Some(Request::Sending { message, .. }) =
                first.and_then(|id| self.request_mut(id))
        {
            message.sent += sent;
            message.data = message.data.after(sent);
        }
        Ok((taken.bytes, of_head == left && sent == of_message))
    }

    /// A packet is put whole; so is the message whose bytes it carried.
    fn end_packet(&mut self, number: u32) {
        let Some(Stream { peer, outgoing, .. }) = self.streams.get_mut(number) else { return };
        let (source, carried) = (*peer, core::mem::take(&mut outgoing.carries));
        let first = self.peers[source as usize].waiting.ends.filter(|_| carried);
        if let Some((first, _)) = first
            && let Some(Request::Sending { message, .. }) = self.request(first)
        {
            let status = Status { source, tag: message.key.tag(), bytes: message.total };
            self.finish_first_waiting(source, Ok(status));
        }
    }
}
