//! Large messages on their way in: read from the sender's memory into the user's buffer.
//!
//! A message that met its receive is read part after part of the buffer, and messages of one peer in the order in which they met
//! theirs; so the oldest is always the first to end. Then the sender hears that it is *done*. What the device cannot read
//! straight into the buffer, for want of registered memory or because its parts are short, is called for and comes through the
//! stream.
//!
//! Source: `[SpecRndv09]` §3.1.1, sender first.

use super::{Broken, Channel};
use crate::hca::{Access, Region, Remote};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::progress::receive::outcome;
use crate::progress::request::Request;
use crate::progress::{Begun, Cursor, Direct, Engine, Fault, Part, StillClaimed, Way};
use crate::wire::{Offer, StreamHead};

/// Parts of a buffer that are registered at a time.
const PARTS: usize = 4;

/// A message that is being read.
#[derive(Clone, Copy, Debug)]
pub(in crate::progress) struct Reading {
    pub(in crate::progress) source: u32,
    pub(in crate::progress) tag: u32,
    offer: Offer,
    from: Remote,
    /// All of the buffer, and where the next bytes go.
    buffer: Cursor,
    rest: Cursor,
    /// Bytes that are to be read, and of them those whose transfers have begun.
    pub(in crate::progress) wanted: usize,
    begun: usize,
    lent: [Option<Lent>; PARTS],
    /// Whether the system refused to register a part.
    refused: bool,
    /// `None` when the receive was dropped.
    request: Option<u32>,
    /// The place for what will be said to the sender.
    word: u32,
    next: Option<u32>,
}

/// A part of the buffer that the device may write.
#[derive(Clone, Copy, Debug)]
struct Lent {
    region: Region,
    /// The last transfer into it.
    last: u64,
}

impl Lent {
    /// Whether all of `part` lies there. The region of one part may reach into the next, if it is that of a longer one which was
    /// registered before.
    fn holds(&self, part: Part) -> bool {
        let (at, Region { base, length, .. }) = (part.base.addr().get() as u64, self.region);
        base <= at && at + part.length as u64 <= base + length
    }
}

impl Reading {
    /// Where the next bytes go: the rest of one part of the buffer. `None` when all transfers have begun.
    fn next_part(&self) -> Option<Part> {
        let left = self.wanted - self.begun;
        let Part { base, length } = self.rest.first().filter(|_| left > 0)?;
        Some(Part { base, length: length.min(left) })
    }

    /// Gives back what the device does not write any more.
    fn settle(&mut self, channel: &mut impl Channel) {
        let next = self.next_part();
        for place in &mut self.lent {
            let over = place.filter(|lent| {
                channel.is_done(self.source, lent.last)
                    && !next.is_some_and(|part| lent.holds(part))
            });
            if let Some(Lent { region, .. }) = over {
                channel.release(region);
                *place = None;
            }
        }
    }

    /// Begins as many transfers as are taken now. Says whether any was.
    fn go_on(&mut self, channel: &mut impl Channel) -> Result<bool, Broken> {
        let mut moved = false;
        while let Some(part) = self.next_part() {
            let Some((place, key)) = self.lend(part, channel) else { break };
            let address = self.from.address.wrapping_add(self.begun as u64);
            let far = Remote { address, ..self.from };
            let direct = Direct { way: Way::Read, near: part, key, far };
            // SAFETY: the part is registered, and belongs to a receive whose claim lasts until nothing is lent any more, or
            // until the streams are closed.
            let Some(Begun { number, bytes }) =
                (unsafe { channel.transfer(self.source, &direct) })?
            else {
                break;
            };
            if let Some(lent) = &mut self.lent[place] {
                lent.last = number;
            }
            self.begun += bytes;
            self.rest = self.rest.after(bytes);
            moved = true;
        }
        Ok(moved)
    }

    /// Has the part registered. Its place in `lent`, and its key; `None`: not now, or never.
    fn lend(&mut self, part: Part, channel: &mut impl Channel) -> Option<(usize, u32)> {
        let held = |lent: &Option<Lent>| lent.filter(|lent| lent.holds(part));
        let found = self.lent.iter().enumerate().find_map(|(at, lent)| Some((at, held(lent)?)));
        if let Some((place, lent)) = found {
            return Some((place, lent.region.local_key));
        }
        let place = self.lent.iter().position(Option::is_none)?;
        // SAFETY: as in `go_on`.
        let region = unsafe { channel.register(part, Access::LOCAL) };
        self.lent[place] = region.map(|region| Lent { region, last: 0 });
        if region.is_none() {
            self.refused = true;
            self.wanted = self.begun;
        }
        region.map(|region| (place, region.local_key))
    }

    fn is_quiet(&self) -> bool {
        self.lent.iter().all(Option::is_none)
    }

    fn is_over(&self) -> bool {
        self.begun == self.wanted && self.is_quiet()
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Reads an announced message for the receive `id`, or calls for it.
    pub(in crate::progress) fn start_reading(
        &mut self,
        id: u32,
        envelope: &Envelope,
        (offer, from): (Offer, Remote),
        buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        let Envelope { source, tag, .. } = *envelope;
        let wanted = buffer.remaining().min(offer.total as usize);
        if buffer.count_parts() > 1 && wanted / buffer.count_parts() <= self.tuning.stream_max {
            return self.call_for(id, source, offer, buffer);
        }
        self.readings.reserve()?;
        let word = self.reserve_word()?;
        let number = self.readings.insert(Reading {
            source,
            tag,
            offer,
            from,
            buffer,
            rest: buffer,
            wanted,
            begun: 0,
            lent: [None; PARTS],
            refused: false,
            request: Some(id),
            word,
            next: None,
        })?;
        if let Some(request) = self.request_mut(id) {
            *request = Request::Reading { reading: number };
        }
        let Some(stream) = self.stream_mut(source) else { return Ok(()) };
        let ends = &mut stream.readings.ends;
        let last = ends.map(|(_, last)| last);
        *ends = Some(ends.map_or((number, number), |(first, _)| (first, number)));
        if let Some(last) = last.and_then(|last| self.readings.get_mut(last)) {
            last.next = Some(number);
        }
        Ok(())
    }

    /// Goes on with what is read from the peer of the stream `number`.
    pub(super) fn read_on(
        &mut self,
        number: u32,
        channel: &mut impl Channel,
    ) -> Result<bool, OutOfMemory> {
        let mut moved = false;
        let mut next = self.first_reading(number);
        while let Some(reading) = next.and_then(|at| self.readings.get_mut(at)) {
            reading.settle(channel);
            // A channel that breaks says so when all that had arrived is taken.
            moved |= reading.go_on(channel).unwrap_or(false);
            reading.settle(channel);
            if reading.begun < reading.wanted {
                break;
            }
            next = reading.next;
        }
        while let Some(first) = self.first_reading(number)
            && self.readings.get(first).is_some_and(Reading::is_over)
        {
            self.end_reading(number, first)?;
            moved = true;
        }
        Ok(moved)
    }

    fn first_reading(&self, number: u32) -> Option<u32> {
        self.streams.get(number)?.readings.ends.map(|(first, _)| first)
    }

    /// The oldest message is read: its sender hears so. Or it could not be read: then it is called for.
    fn end_reading(&mut self, number: u32, first: u32) -> Result<(), OutOfMemory> {
        if self.readings.get(first).is_some_and(|reading| reading.refused) {
            self.calls.reserve()?;
        }
        let Some(reading) = self.leave_readings(number, first) else { return Ok(()) };
        let Reading { source, tag, offer, buffer, request, word, .. } = reading;
        if let Some(id) = request.filter(|_| reading.refused) {
            self.words.remove(word);
            return self.call_for(id, source, offer, buffer);
        }
        if let Some(request) = request.and_then(|id| self.request_mut(id)) {
            let total = offer.total as usize;
            *request = Request::Done(outcome(source, tag, total, buffer.remaining()));
        }
        self.say(source, word, StreamHead::Done(offer.name()));
        Ok(())
    }

    /// Takes the oldest out of the list.
    fn leave_readings(&mut self, number: u32, first: u32) -> Option<Reading> {
        let reading = self.readings.remove(first)?;
        let ends = &mut self.streams.get_mut(number)?.readings.ends;
        *ends = reading.next.and_then(|next| ends.map(|(_, last)| (next, last)));
        Some(reading)
    }

    /// Ends the claim of a receive whose message is being read: no further transfer begins.
    pub(in crate::progress) fn detach_reading(&mut self, number: u32) -> Result<(), StillClaimed> {
        let Some(reading) = self.readings.get_mut(number) else { return Ok(()) };
        reading.wanted = reading.begun;
        if !reading.is_quiet() {
            return Err(StillClaimed::Moving { peer: reading.source });
        }
        reading.request = None;
        Ok(())
    }

    /// Fails what was being read from `peer`, which is gone. Its streams are closed.
    pub(super) fn fail_readings_from(
        &mut self,
        peer: u32,
        fault: Fault,
        channel: &mut impl Channel,
    ) {
        let mut from = 0;
        while let Some((number, reading)) = self.readings.next_from(from) {
            from = number + 1;
            if reading.source != peer {
                continue;
            }
            self.readings.remove(number);
            self.words.remove(reading.word);
            reading.lent.iter().flatten().for_each(|lent| channel.release(lent.region));
            if let Some(id) = reading.request {
                self.fail(id, fault);
            }
        }
    }
}
