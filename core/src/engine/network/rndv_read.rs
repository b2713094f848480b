//! Large messages on their way in: read from the sender's memory into the user's buffer.
//!
//! A message that met its receive is read part after part of the buffer. The messages of one peer
//! are read in the order in which they met their receives, so the oldest is always the first to
//! end. Then the sender is told *done*.
//!
//! Some messages cannot be read straight into the buffer, because memory is not registered or
//! because the parts are short. They are pulled, and come through the stream.
//!
//! A message with a buffer in one part may be written by its sender instead (`rndv_recv_cts`), if
//! that was cheaper lately.
//!
//! Source: `[SpecRndv09]` §3.1.1, sender first.

use super::cts::ClearToSend;
use super::origin::{Lookup, Origin};
use super::read::{PARTS, Reading};
use super::{Channel, Halt, NONSENSE};
use crate::buffer::{Cursor, Direction};
use crate::engine::request::RequestState;
use crate::engine::started::outcome;
use crate::engine::{Engine, Fault, StillClaimed};
use crate::lmt::{Chosen, RemoteTransfer};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::{MessageAddress, Offer, StreamHead};

impl<M: Memory + Clone> Engine<M> {
    /// Reads an announced message for the receive `id`, or has its sender write it, or pulls it.
    pub(in crate::engine) fn start_reading(
        &mut self,
        id: u32,
        envelope: &Envelope,
        (offer, from): (Offer, MessageAddress),
        buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        let Envelope { source, tag, .. } = *envelope;
        let wanted = buffer.remaining().min(offer.total as usize);
        if buffer.count_parts() > 1 && wanted / buffer.count_parts() < self.tuning.stream_max {
            return self.call_for(id, source, offer, buffer);
        }
        self.network.reserve_reading()?;
        let word = self.reserve_word()?;
        let (way, chosen) = self.choose_way(source, from, buffer, wanted);
        if way == Direction::Write {
            let cts = ClearToSend::new((id, envelope), (offer, wanted), buffer, (word, chosen));
            return self.clear_to_send(id, cts);
        }
        let number = self.network.readings.insert(Reading {
            source,
            tag,
            offer,
            from: Origin::of(from),
            buffer,
            rest: buffer,
            wanted,
            begun: 0,
            lent: [None; PARTS],
            refused: false,
            request: Some(id),
            word,
            chosen,
            began: None,
            next: None,
        })?;
        self.requests.set(id, RequestState::Reading { reading: number });
        let Some(stream) = self.stream_mut(source) else { return Ok(()) };
        let last = stream.readings.push(number);
        if let Some(last) = last.and_then(|last| self.network.readings.get_mut(last)) {
            last.next = Some(number);
        }
        Ok(())
    }

    /// Chooses the way of a message of which the receive wants `wanted` bytes. Only messages that
    /// lie in one part are measured, since others take longer.
    fn choose_way(
        &mut self,
        source: u32,
        from: MessageAddress,
        buffer: Cursor,
        wanted: usize,
    ) -> (Direction, Chosen) {
        let unmeasured = Chosen::default();
        if wanted == 0 || buffer.in_one_part().is_none() {
            return (Direction::Read, unmeasured);
        }
        match self.tuning.remote_transfer {
            RemoteTransfer::Read => (Direction::Read, unmeasured),
            RemoteTransfer::Write => (Direction::Write, unmeasured),
            RemoteTransfer::Auto => match self.stream_mut(source) {
                _ if matches!(from, MessageAddress::Listed(..)) => (Direction::Read, unmeasured),
                Some(stream) => stream.choice.choose(wanted),
                None => (Direction::Read, unmeasured),
            },
        }
    }

    /// Continues the reads from the peer of the stream `number`.
    pub(super) fn read_on(
        &mut self,
        number: u32,
        channel: &mut impl Channel,
    ) -> Result<bool, Halt> {
        let mut moved = false;
        let mut next = self.first_reading(number);
        while let Some(reading) = next.and_then(|at| self.network.readings.get_mut(at)) {
            reading.settle(channel);
            match reading.look_up(&self.buffers, channel)? {
                Lookup::Known | Lookup::Refused => {}
                Lookup::Pending => break,
                Lookup::Nonsense => return Err(NONSENSE),
            }
            // A channel that breaks reports that once all bytes that had arrived are taken.
            moved |= reading.go_on(channel).unwrap_or(false);
            reading.settle(channel);
            if reading.begun < reading.wanted {
                break;
            }
            next = reading.next;
        }
        while let Some(first) = self.first_reading(number)
            && self.network.readings.get(first).is_some_and(Reading::is_over)
        {
            self.end_reading(number, first, channel)?;
            moved = true;
        }
        Ok(moved)
    }

    fn first_reading(&self, number: u32) -> Option<u32> {
        self.network.streams.get(number)?.readings.first()
    }

    /// Ends the oldest message: its sender is told that it is read. A message that could not be
    /// read is pulled.
    fn end_reading(
        &mut self,
        number: u32,
        first: u32,
        channel: &impl Channel,
    ) -> Result<(), OutOfMemory> {
        if self.network.readings.get(first).is_some_and(|reading| reading.refused) {
            self.pulls.reserve()?;
        }
        let Some(reading) = self.leave_readings(number, first) else { return Ok(()) };
        let Reading { source, tag, offer, buffer, request, word, chosen, began, .. } = reading;
        let whole = request.is_some() && !reading.refused;
        let bytes = if whole { reading.wanted } else { 0 };
        self.measure(source, chosen, (bytes, began), channel);
        reading.from.list().into_iter().for_each(|list| self.buffers.put_back(list));
        if let Some(id) = request.filter(|_| reading.refused) {
            self.network.controls.give_back(word);
            return self.call_for(id, source, offer, buffer);
        }
        if let Some(id) = request {
            self.network.went.read += 1;
            let total = offer.total as usize;
            let (place, from) = ((&self.segment, self.rank), (source, tag));
            self.requests.finish(id, outcome(place, from, total, buffer.remaining()));
        }
        self.say(source, word, StreamHead::Done(offer.name()));
        Ok(())
    }

    /// Records what a message from `source` took: `bytes` of it came by the chosen way. Zero bytes
    /// mean that the way was left.
    pub(super) fn measure(
        &mut self,
        source: u32,
        chosen: Chosen,
        (bytes, began): (usize, Option<u64>),
        channel: &impl Channel,
    ) {
        if chosen.is_measured()
            && let Some(stream) = self.stream_mut(source)
        {
            let now = channel.now();
            let bytes = if began.is_some() { bytes } else { 0 };
            stream.choice.ended(chosen, bytes, began.unwrap_or(now), now);
        }
    }

    /// Removes the oldest message from the list.
    fn leave_readings(&mut self, number: u32, first: u32) -> Option<Reading> {
        let reading = self.network.readings.remove(first)?;
        self.network.streams.get_mut(number)?.readings.pop(reading.next);
        Some(reading)
    }

    /// Ends the claim of a receive that reads its message: no further transfer starts.
    pub(in crate::engine) fn detach_reading(&mut self, number: u32) -> Result<(), StillClaimed> {
        let Some(reading) = self.network.readings.get_mut(number) else { return Ok(()) };
        reading.wanted = reading.begun;
        if !reading.is_quiet() {
            return Err(StillClaimed::Moving { peer: reading.source });
        }
        reading.request = None;
        Ok(())
    }

    /// Fails the receives that read their messages from `peer`, which is gone. Its streams
    /// are closed.
    pub(super) fn fail_readings_from(
        &mut self,
        peer: u32,
        fault: Fault,
        channel: &mut impl Channel,
    ) {
        let mut from = 0;
        while let Some((number, mut reading)) = self.network.readings.next_from(from) {
            from = number + 1;
            if reading.source != peer {
                continue;
            }
            self.network.readings.remove(number);
            self.network.controls.give_back(reading.word);
            reading.lent.iter().flatten().for_each(|lent| channel.release(lent.region));
            reading.from.settle(peer, true, channel);
            reading.from.list().into_iter().for_each(|list| self.buffers.put_back(list));
            if let Some(id) = reading.request {
                self.fail(id, fault);
            }
        }
    }
}
