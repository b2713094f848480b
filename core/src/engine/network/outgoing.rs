//! Packets on their way out.

use core::ptr::NonNull;

use super::{Broken, Channel};
use crate::buffer::{Cursor, Part};
use crate::engine::request::{RequestState, SendStage};
use crate::engine::{Engine, Owner, RequestId, SendMode, Sent, StartError, Status};
use crate::memory::Memory;
use crate::wire::{Key, StreamHead};

/// Number of parts that one put names: the head, and pieces of the message.
const PARTS: usize = 8;

impl<M: Memory + Clone> Engine<M> {
    /// Starts a send to a peer on another node. The message waits until [`Engine::poll_network`]
    /// puts it.
    pub(in crate::engine) fn isend_remote(
        &mut self,
        mode: SendMode,
        destination: u32,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        let message = crate::engine::request::OutgoingMessage {
            key,
            total: data.remaining(),
            sent: 0,
            data,
            stage: mode.first_stage(),
        };
        let request = RequestState::Sending { message, next: None, detached: None };
        let id = self.requests.insert(owner, request)?;
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

    /// Prepares a packet to put. Returns false if there is nothing to send.
    fn begin_packet(&mut self, number: u32, channel: &mut impl Channel) -> bool {
        let Some(stream) = self.network.streams.get(number) else { return false };
        let (destination, outgoing) = (stream.peer(), &stream.outgoing);
        if !outgoing.is_between() {
            return true;
        }
        let told_to_keep = outgoing.is_told_to_keep();
        if outgoing.has_deaths(&self.network.deaths)
            && let Some(death) = self.next_death(number, channel)
        {
            return self.begin(number, death, false);
        }
        if let Some(word) = self.take_word(number) {
            return self.begin(number, word, false);
        }
        let Some(first) = self.peers[destination as usize].waiting.first() else {
            let stream = self.network.streams.get_mut(number);
            return stream.is_some_and(|stream| stream.outgoing.take_leave())
                && self.begin(number, StreamHead::Leave, false);
        };
        let Some(message) = self.requests.outgoing(first) else { return false };
        let (key, total) = (message.key, message.total);
        let large = total > self.tuning.stream_max.min(self.tuning.unexpected_max);
        match message.stage {
            SendStage::Called => self.begin(number, StreamHead::Called { key, total }, true),
            stage if large || told_to_keep || stage == SendStage::Synchronous => {
                let news = self.announce(destination, first, large, channel);
                news.is_some_and(|head| self.begin(number, head, false))
            }
            _ => {
                self.negotiation.eager(destination, key);
                self.begin(number, StreamHead::Message { key, total }, true)
            }
        }
    }

    /// Makes `head` the next packet to put. Returns true.
    fn begin(&mut self, number: u32, head: StreamHead, carries: bool) -> bool {
        if let Some(stream) = self.network.streams.get_mut(number) {
            stream.outgoing.begin(head, carries);
        }
        true
    }

    /// Puts the rest of the packet. Returns the number of bytes that went, and whether that was
    /// all.
    fn put_packet(
        &mut self,
        number: u32,
        channel: &mut impl Channel,
    ) -> Result<(usize, bool), Broken> {
        let Some(stream) = self.network.streams.get_mut(number) else { return Ok((0, false)) };
        let (peer, carries) = (stream.peer(), stream.outgoing.carries());
        let mut parts = [Part { base: NonNull::dangling(), length: 0 }; PARTS];
        parts[0] = stream.outgoing.rest_of_head();
        let mut count = usize::from(parts[0].length > 0);
        let first = self.peers[peer as usize].waiting.first();
        let mut of_message = 0;
        if carries && let Some(message) = first.and_then(|id| self.requests.outgoing(id)) {
            of_message = message.left();
            count += message.data.list(of_message, &mut parts[count..]);
        }
        // SAFETY: the head lies in the slab, where it stays. The message is claimed (contract of
        // `isend`) until its request is over, and that does not end while the channel holds a part
        // of it. No other bytes go between two puts of one packet.
        let taken = unsafe { channel.put(peer, &parts[..count]) }?;
        let Some(stream) = self.network.streams.get_mut(number) else { return Ok((0, false)) };
        let (behind_head, head_put) = stream.outgoing.count_put(taken);
        let sent = behind_head.min(of_message);
        if sent > 0
            && let Some(message) = first.and_then(|id| self.requests.outgoing_mut(id))
        {
            message.sent += sent;
            message.data = message.data.after(sent);
        }
        Ok((taken.bytes, head_put && sent == of_message))
    }

    /// Ends a packet that is put completely, and the message with it if the packet carried its
    /// bytes.
    fn end_packet(&mut self, number: u32) {
        let Some(stream) = self.network.streams.get_mut(number) else { return };
        let (source, carried) = (stream.peer(), stream.outgoing.end_packet());
        let first = self.peers[source as usize].waiting.first().filter(|_| carried);
        if let Some(first) = first
            && let Some(message) = self.requests.outgoing(first)
        {
            let status = Status { source, tag: message.key.tag(), bytes: message.total };
            self.finish_first_waiting(source, Ok(status));
        }
    }
}
