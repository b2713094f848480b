//! Large messages on their way out that are written into the receiver's buffer: the receive was
//! posted before them, or their receiver has answered the announcement by a *CTS*.
//!
//! A message with an RTR from its receive is written when its turn in the stream comes, and its
//! RTR-ACK is put behind the written bytes. Bytes that the send queue does not take at once follow
//! while later messages are put. *Written* is sent behind the last of them. In both cases the
//! receiver has the whole message in its buffer, whatever the sender does then.
//!
//! A message that was announced is written when its CTS comes, with *CTS written* behind it.
//!
//! Source: `[SpecRndv09]` §3.1.2, receiver first; `[RdmaChannel04]` §6, writes of announced data.

use super::announcement::Announced;
use super::exposure::Exposure;
use super::write::{There, Writing};
use super::{Channel, Network};
use crate::engine::request::{OutgoingMessage, SendStage};
use crate::engine::rtrs::Wanted;
use crate::engine::{Engine, Fault, Status};
use crate::hca::RemoteAddress;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::{DeferredMessageId, Key, RtrId, StreamHead};

impl<M: Memory + Clone> Engine<M> {
    /// Handles an RTR from another node.
    pub(super) fn take_rtr_of(
        &mut self,
        source: u32,
        key: Key,
        (to, capacity): (RemoteAddress, usize),
        asked: RtrId,
    ) {
        let there = There { to, capacity, asked };
        self.negotiation.take_rtr(source, key, asked.turn, Wanted::There(there));
    }

    /// Handles the retraction of an RTR. All messages that use the RTR are in the stream, or none
    /// will be: the answer goes behind those messages.
    pub(super) fn take_retract_rtr(
        &mut self,
        source: u32,
        key: Key,
        asked: RtrId,
    ) -> Result<(), OutOfMemory> {
        let word = self.reserve_word()?;
        self.negotiation.take_retraction(source, key, asked.turn);
        self.say(source, word, StreamHead::RtrRetracted(asked));
        Ok(())
    }

    /// Starts to write the message of the send `request`, which is exposed and has met its receive.
    /// Returns the head that reports it.
    pub(super) fn begin_writing(
        &mut self,
        to: (u32, u32),
        message: &OutgoingMessage,
        exposure: Exposure,
        there: There,
        channel: &mut impl Channel,
    ) -> Result<StreamHead, OutOfMemory> {
        let There { to: address, capacity, asked } = there;
        let OutgoingMessage { key, total, data, .. } = *message;
        let end = StreamHead::Written(asked);
        let mut writing = Writing::new(to, (data, exposure), (address, capacity), end);
        writing.go_on(&self.network.exposed, channel);
        let whole = writing.is_begun();
        if !whole {
            writing.word = Some(self.reserve_word()?);
        }
        let number = self.network.writings.insert(writing)?;
        self.set_stage(to.1, SendStage::Writing { writing: number });
        Ok(StreamHead::RtrAck { key, total, asked, whole })
    }

    /// Handles a CTS: the message that was announced to `peer` is written from now on, in the
    /// registration of its announcement. Returns false if no such message waits for an answer.
    pub(super) fn take_cts(
        &mut self,
        peer: u32,
        name: DeferredMessageId,
        (to, capacity): (RemoteAddress, usize),
    ) -> Result<bool, OutOfMemory> {
        let Some((message, Some(number))) = self.find_offer(peer, name) else { return Ok(false) };
        self.network.writings.reserve()?;
        let word = Some(self.reserve_word()?);
        let Some(Announced { exposure, .. }) = self.network.announced.remove(number) else {
            return Ok(false);
        };
        self.peers[peer as usize].offers.answered();
        let (end, request) = (StreamHead::CtsWritten(name), name.place);
        let data = (message.data, exposure);
        let mut writing = Writing::new((peer, request), data, (to, capacity), end);
        writing.word = word;
        let writing = self.network.writings.insert(writing)?;
        self.set_stage(request, SendStage::Writing { writing });
        Ok(true)
    }

    /// Continues the writes to `peer`. Returns whether anything moved.
    pub(super) fn write_on(&mut self, peer: u32, channel: &mut impl Channel) -> bool {
        let (mut moved, mut from) = (false, 0);
        while let Some((number, _)) = self.network.writings.next_from(from) {
            from = number + 1;
            let Network { writings, exposed, .. } = &mut self.network;
            let Some(writing) = writings.get_mut(number) else { continue };
            if writing.destination != peer {
                continue;
            }
            moved |= writing.go_on(exposed, channel);
            let Writing { request, exposure, end, last, .. } = *writing;
            if !writing.is_begun() {
                continue;
            }
            if let Some(word) = writing.word.take() {
                self.say(peer, word, end);
            }
            if channel.is_done(peer, last) {
                self.network.writings.remove(number);
                self.network.went.scattered += u64::from(exposure.list().is_some());
                self.network.exposed.end(exposure, &self.buffers, channel);
                self.end_write(peer, request);
                moved = true;
            }
        }
        moved
    }

    /// Returns whether a message is being written to `peer`.
    pub(super) fn writes_to(&self, peer: u32) -> bool {
        self.network.writings.iter().any(|(_, writing)| writing.destination == peer)
    }

    fn end_write(&mut self, peer: u32, request: u32) {
        if let Some(message) = self.requests.outgoing(request) {
            let status = Status { source: peer, tag: message.key.tag(), bytes: message.total };
            self.end_send(request, Ok(status));
        }
    }

    /// Fails the sends that were being written to `peer`, which is gone. Its streams are closed.
    pub(super) fn fail_writings_to(&mut self, peer: u32, fault: Fault, channel: &mut impl Channel) {
        let mut from = 0;
        while let Some((number, writing)) = self.network.writings.next_from(from) {
            from = number + 1;
            if writing.destination != peer {
                continue;
            }
            self.network.writings.remove(number);
            if let Some(word) = writing.word {
                self.network.controls.give_back(word);
            }
            self.network.exposed.end(writing.exposure, &self.buffers, channel);
            self.end_send(writing.request, Err(fault));
        }
    }
}
