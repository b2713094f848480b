//! Packets on their way in.

use core::ptr::NonNull;

use super::{Channel, Halt, NONSENSE};
use crate::buffer::{Cursor, Part};
use crate::engine::Engine;
use crate::engine::message::{DeferredSend, UnexpectedData};
use crate::engine::packet::{Packet, PacketPayload};
use crate::engine::reassembly::ArrivalTarget;
use crate::engine::request::RequestState;
use crate::engine::started::outcome;
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::{Key, PacketKind, StreamHead};

/// Number of parts that one get names.
const PARTS: usize = 8;

/// Number of unwanted bytes that one get takes, at most.
const SCRAP: usize = 16 * 1024;

/// Number of packets that are taken from one stream before the others.
const PACKETS: u32 = 64;

impl<M: Memory + Clone> Engine<M> {
    /// Takes the packets that have come. Returns whether anything did.
    pub(super) fn pull(&mut self, number: u32, channel: &mut impl Channel) -> Result<bool, Halt> {
        let mut moved = false;
        for _ in 0..PACKETS {
            let Some(stream) = self.network.streams.get(number) else { break };
            if stream.has_left() {
                break;
            }
            let (peer, has_head) = (stream.peer(), stream.incoming.has_head());
            let bytes = match self.peers[peer as usize].arriving.rest() {
                Some(arriving) => self.pull_payload(number, peer, arriving, channel)?,
                None if !has_head => self.pull_head(number, peer, channel)?,
                None => 0,
            };
            moved |= bytes > 0;
            let between = self.peers[peer as usize].arriving.is_idle();
            if between && self.take_head(number, peer, channel)? {
                moved = true;
            } else if bytes == 0 {
                break;
            }
        }
        Ok(moved)
    }

    fn pull_head(
        &mut self,
        number: u32,
        peer: u32,
        channel: &mut impl Channel,
    ) -> Result<usize, Halt> {
        let Some(stream) = self.network.streams.get_mut(number) else { return Ok(0) };
        let incoming = &mut stream.incoming;
        let part = incoming.rest_of_head();
        // SAFETY: the head lies in the pool, where it stays until the channel is closed. It is read
        // only when it is complete.
        let taken = unsafe { channel.get(peer, &[part]) }?;
        incoming.count_head(taken);
        Ok(taken.bytes)
    }

    /// Handles a head, if it is complete. Returns false if it is not. Without memory the head stays
    /// for a further attempt.
    fn take_head(
        &mut self,
        number: u32,
        source: u32,
        channel: &mut impl Channel,
    ) -> Result<bool, Halt> {
        let Some(stream) = self.network.streams.get_mut(number) else { return Ok(false) };
        if !stream.incoming.has_head() {
            return Ok(false);
        }
        let head = stream.incoming.head().map_err(|_| NONSENSE)?;
        match head {
            StreamHead::Message { key, total } => {
                self.begin_message(source, key, PacketKind::Eager, total)?;
            }
            StreamHead::Called { key, total } => {
                self.begin_message(source, key, PacketKind::Called, total)?;
            }
            StreamHead::Offer { key, offer } => {
                self.take_news(&envelope(source, key), DeferredSend::Offered(offer))?;
            }
            StreamHead::Rts { key, offer, from, turn } => {
                self.negotiation.take_rts(source, key, turn);
                self.take_news(
                    &envelope(source, key),
                    DeferredSend::Exposed { offer, from, turn },
                )?;
            }
            StreamHead::Call(name) => sound(self.take_call_of(source, name, channel))?,
            StreamHead::Done(name) => sound(self.take_done(source, name, channel))?,
            StreamHead::Retracted(name) => sound(self.take_retracted(source, name, channel))?,
            StreamHead::Retract(name) => self.take_retract(source, name)?,
            StreamHead::Rtr { key, capacity, to, asked } => {
                self.take_rtr_of(source, key, (to, capacity), asked);
            }
            StreamHead::RtrAck { key, total, asked, whole } => {
                self.meet_invited(&envelope(source, key), total, (asked, whole))?;
            }
            StreamHead::Written(asked) => self.end_written(source, asked)?,
            StreamHead::RetractRtr { key, asked } => self.take_retract_rtr(source, key, asked)?,
            StreamHead::RtrRetracted(asked) => self.take_rtr_retracted(source, asked)?,
            StreamHead::Keep => stream.outgoing.set_told_to_keep(true),
            StreamHead::Send => stream.outgoing.set_told_to_keep(false),
            StreamHead::Leave => stream.leave(),
            StreamHead::Dead { rank } => self.take_death(rank)?,
            StreamHead::Cts { name, capacity, to } => {
                sound(self.take_cts(source, name, (to, capacity))?)?;
            }
            StreamHead::CtsWritten(name) => self.take_cts_written(source, name, channel)?,
        }
        if let Some(stream) = self.network.streams.get_mut(number) {
            stream.incoming.next_head();
        }
        Ok(true)
    }

    /// Matches a message with its receive, or keeps it. None of its bytes is here yet.
    fn begin_message(
        &mut self,
        source: u32,
        key: Key,
        kind: PacketKind,
        total: usize,
    ) -> Result<(), Halt> {
        let envelope = envelope(source, key);
        let packet = Packet { envelope, kind, total, length: 0, payload: PacketPayload::Later };
        let standing = (kind == PacketKind::Eager).then(|| self.meet_standing(&packet)).flatten();
        let Some(target) = standing else { return Ok(self.deliver(packet)?) };
        if !packet.completes() {
            self.peers[source as usize].arriving.begin(target, total);
        }
        Ok(())
    }

    /// Gets bytes of the arriving message into their place.
    fn pull_payload(
        &mut self,
        number: u32,
        peer: u32,
        (target, left): (ArrivalTarget, usize),
        channel: &mut impl Channel,
    ) -> Result<usize, Halt> {
        let mut parts = [Part { base: NonNull::dangling(), length: 0 }; PARTS];
        let mut count = self.place_of(target).list(left, &mut parts);
        let nobodys = count == 0;
        if nobodys {
            parts[0] = self.scrap(number, left)?;
            count = 1;
        }
        // SAFETY: the buffer of a receive is claimed (contract of `irecv`), and an unexpected
        // message's memory belongs to the engine. Neither ends while the channel holds it. The next
        // get continues behind the bytes that came.
        let taken = unsafe { channel.get(peer, &parts[..count]) }?;
        if let Some(stream) = self.network.streams.get_mut(number) {
            stream.incoming.count_payload(taken, nobodys);
        }
        if taken.bytes > 0 {
            self.count_arrived(peer, target, taken.bytes.min(left));
        }
        Ok(taken.bytes)
    }

    /// Returns the place of the next bytes of a message: an empty one if the message has no target.
    fn place_of(&self, target: ArrivalTarget) -> Cursor {
        let rest = match target {
            ArrivalTarget::Request(id) => match self.requests.get(id) {
                Some(RequestState::Receiving { buffer, .. }) => return buffer,
                _ => None,
            },
            ArrivalTarget::Message(message) | ArrivalTarget::Due { message, .. } => {
                self.unexpected.rest_of(message)
            }
            ArrivalTarget::Nobody => None,
        };
        let part = rest.unwrap_or(Part { base: NonNull::dangling(), length: 0 });
        // SAFETY: the part is the message's own memory, or empty.
        unsafe { Cursor::contiguous(part) }
    }

    /// Returns memory for the next of `left` bytes that have no target.
    fn scrap(&mut self, number: u32, left: usize) -> Result<Part, OutOfMemory> {
        let nowhere = Part { base: NonNull::dangling(), length: 0 };
        let Some(stream) = self.network.streams.get_mut(number) else { return Ok(nowhere) };
        if !stream.incoming.has_scrap() {
            stream.incoming.lend_scrap(self.buffers.take(SCRAP)?);
        }
        Ok(stream.incoming.place_of_scrap(left).unwrap_or(nowhere))
    }

    /// Counts `bytes` more of the arriving message that are in their place.
    fn count_arrived(&mut self, peer: u32, target: ArrivalTarget, bytes: usize) {
        let left = self.peers[peer as usize].arriving.count(bytes);
        match target {
            ArrivalTarget::Nobody => {}
            ArrivalTarget::Request(id) => {
                let Some(request) = self.requests.get_mut(id) else { return };
                if let RequestState::Receiving { buffer, capacity, source, tag, total } = request {
                    *buffer = buffer.after(bytes);
                    if left == 0 {
                        let (place, from) = ((&self.segment, self.rank), (*source, *tag));
                        *request = RequestState::Done(outcome(place, from, *total, *capacity));
                    }
                }
            }
            ArrivalTarget::Message(number) | ArrivalTarget::Due { message: number, .. } => {
                self.unexpected.count_arrived(number, bytes);
            }
        }
        if let ArrivalTarget::Due { message, request } = target
            && left == 0
        {
            self.hand_over(message, request);
        }
    }

    /// Hands a complete message to its receive, which met it while it arrived in the engine's
    /// memory. If the receive was dropped, the message is dropped, too.
    pub(in crate::engine) fn hand_over(&mut self, number: u32, request: Option<u32>) {
        let Some(message) = self.take_unexpected(number) else { return };
        let Envelope { source, tag, .. } = message.envelope;
        let UnexpectedData::Here(Some(owned)) = message.body else { return };
        if let Some(request) = request.and_then(|id| self.requests.get_mut(id))
            && let RequestState::Due { mut buffer, .. } = *request
        {
            let capacity = buffer.remaining();
            // SAFETY: the message's own memory holds all of it, and is no user buffer.
            unsafe { buffer.scatter(owned.base, message.total) };
            let (place, from) = ((&self.segment, self.rank), (source, tag));
            *request = RequestState::Done(outcome(place, from, message.total, capacity));
        }
        self.buffers.put_back(owned);
    }
}

/// Returns an error that ends the stream unless `is_sound`.
const fn sound(is_sound: bool) -> Result<(), Halt> {
    if is_sound { Ok(()) } else { Err(NONSENSE) }
}

const fn envelope(source: u32, key: Key) -> Envelope {
    Envelope { context: key.context(), source, tag: key.tag() }
}
