//! Packets on their way in.

use core::ptr::NonNull;

use super::{Channel, Halt, NONSENSE, Stream, rest_of};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::progress::arrive::{Body, Kept, Message};
use crate::progress::packet::{Packet, Payload};
use crate::progress::peer::{Arriving, Target};
use crate::progress::receive::outcome;
use crate::progress::request::{Owned, Request};
use crate::progress::{Cursor, Engine, Part};
use crate::wire::{Key, Kind, StreamHead};

/// Parts that one get names.
const PARTS: usize = 8;

/// Bytes of messages that nobody wants, at a time.
const SCRAP: usize = 16 * 1024;

/// Packets that are taken of one stream before others have their turn.
const PACKETS: u32 = 64;

/// The stream from a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    head: [u8; StreamHead::LENGTH],
    /// How much of the next head has not come yet.
    left: usize,
    /// Whether the channel holds what comes next.
    pub(super) holds: bool,
    /// Where in the scrap the next bytes go that nobody wants.
    scrapped: usize,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { head: [0; StreamHead::LENGTH], left: StreamHead::LENGTH, holds: false, scrapped: 0 }
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Takes packets, as far as they have come. Says whether anything did.
    pub(super) fn pull(&mut self, number: u32, channel: &mut impl Channel) -> Result<bool, Halt> {
        let mut moved = false;
        for _ in 0..PACKETS {
            let Some(stream) = self.streams.get(number) else { break };
            if stream.left {
                break;
            }
            let (peer, left) = (stream.peer, stream.incoming.left);
            let bytes = match self.peers[peer as usize].arriving {
                Some(arriving) => self.pull_payload(number, peer, arriving, channel)?,
                None if left > 0 => self.pull_head(number, peer, channel)?,
                None => 0,
            };
            moved |= bytes > 0;
            let between = self.peers[peer as usize].arriving.is_none();
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
        let Some(stream) = self.streams.get_mut(number) else { return Ok(0) };
        let incoming = &mut stream.incoming;
        let part = rest_of(NonNull::from(&mut incoming.head), incoming.left);
        // SAFETY: the head lies in the pool, where it stays until the channel is closed, and is read only when it is whole.
        let taken = unsafe { channel.get(peer, &[part]) }?;
        incoming.left -= taken.bytes.min(incoming.left);
        incoming.holds = taken.holds;
        Ok(taken.bytes)
    }

    /// Does what a head says, if it is whole. False: it is not. On lack of memory it stays for a further attempt.
    fn take_head(
        &mut self,
        number: u32,
        source: u32,
        channel: &mut impl Channel,
    ) -> Result<bool, Halt> {
        let Some(stream) = self.streams.get_mut(number) else { return Ok(false) };
        if stream.incoming.left > 0 {
            return Ok(false);
        }
        let head = StreamHead::parse(&stream.incoming.head).map_err(|_| NONSENSE)?;
        match head {
            StreamHead::Message { key, total } => {
                self.begin_message(source, key, Kind::Eager, total)?;
            }
            StreamHead::Called { key, total } => {
                self.begin_message(source, key, Kind::Called, total)?;
            }
            StreamHead::Offer { key, offer } => {
                self.take_news(&envelope(source, key), Kept::Offered(offer))?;
            }
            StreamHead::Rts { key, offer, from, turn } => {
                self.asking.rts(source, key, turn);
                self.take_news(&envelope(source, key), Kept::Exposed { offer, from, turn })?;
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
            StreamHead::Keep => stream.outgoing.told_to_keep = true,
            StreamHead::Send => stream.outgoing.told_to_keep = false,
            StreamHead::Leave => stream.left = true,
        }
        if let Some(stream) = self.streams.get_mut(number) {
            stream.incoming.left = StreamHead::LENGTH;
        }
        Ok(true)
    }

    /// A message meets its receive, or is kept; none of its bytes is here yet.
    fn begin_message(
        &mut self,
        source: u32,
        key: Key,
        kind: Kind,
        total: usize,
    ) -> Result<(), Halt> {
        let envelope = envelope(source, key);
        let packet = Packet { envelope, kind, total, length: 0, payload: Payload::Later };
        Ok(self.deliver(packet)?)
    }

    /// Gets bytes of the arriving message to where they belong.
    fn pull_payload(
        &mut self,
        number: u32,
        peer: u32,
        arriving: Arriving,
        channel: &mut impl Channel,
    ) -> Result<usize, Halt> {
        let mut parts = [Part { base: NonNull::dangling(), length: 0 }; PARTS];
        let mut count = self.place_of(arriving).list(arriving.left, &mut parts);
        let nobodys = count == 0;
        if nobodys {
            parts[0] = self.scrap(number, arriving.left)?;
            count = 1;
        }
        // SAFETY: the buffer of a receive is claimed (contract of `irecv`) and an unexpected message's memory is the engine's, and
        // nobody ends either while the channel holds it. What is got next goes behind what came.
        let taken = unsafe { channel.get(peer, &parts[..count]) }?;
        if let Some(Stream { incoming, .. }) = self.streams.get_mut(number) {
            incoming.holds = taken.holds;
            // What is held stays where it is.
            let scrapped = incoming.scrapped + taken.bytes;
            incoming.scrapped = if nobodys && taken.holds { scrapped } else { 0 };
        }
        if taken.bytes > 0 {
            self.count_arrived(peer, arriving, taken.bytes.min(arriving.left));
        }
        Ok(taken.bytes)
    }

    /// Where the next bytes of a message go; nowhere when nobody wants them.
    fn place_of(&self, arriving: Arriving) -> Cursor {
        let nowhere = Part { base: NonNull::dangling(), length: 0 };
        let part = match arriving.target {
            Target::Request(id) => match self.request(id) {
                Some(Request::Receiving { buffer, .. }) => return buffer,
                _ => nowhere,
            },
            Target::Message(message) | Target::Due { message, .. } => {
                match self.messages.get(message) {
                    Some(&Message { body: Body::Here(Some(owned)), arrived, .. }) => {
                        let length = owned.length - arrived;
                        // SAFETY: `arrived` bytes of the message's memory are filled.
                        Part { base: unsafe { owned.base.add(arrived) }, length }
                    }
                    _ => nowhere,
                }
            }
            Target::Nobody => nowhere,
        };
        // SAFETY: the part is the message's own memory, or empty.
        unsafe { Cursor::contiguous(part) }
    }

    /// Memory for the next of `left` bytes that nobody wants.
    fn scrap(&mut self, number: u32, left: usize) -> Result<Part, OutOfMemory> {
        let Some(stream) = self.streams.get_mut(number) else {
            return Ok(Part { base: NonNull::dangling(), length: 0 });
        };
        let at = stream.incoming.scrapped;
        let base = match stream.scrap {
            Some(owned) => owned.base,
            None => {
                let base = self.memory.allocate(Owned::layout(SCRAP)?);
                let base = base.ok_or(OutOfMemory { bytes: SCRAP })?;
                stream.scrap = Some(Owned { base, length: SCRAP });
                base
            }
        };
        // SAFETY: what is held lies in the scrap, and `at` is where it begins.
        Ok(Part { base: unsafe { base.add(at) }, length: left.min(SCRAP - at) })
    }

    /// Notes that `bytes` more of the arriving message are where they belong.
    fn count_arrived(&mut self, peer: u32, arriving: Arriving, bytes: usize) {
        let left = arriving.left - bytes;
        self.peers[peer as usize].arriving = (left > 0).then_some(Arriving { left, ..arriving });
        match arriving.target {
            Target::Nobody => {}
            Target::Request(id) => {
                let Some(request) = self.request_mut(id) else { return };
                if let Request::Receiving { buffer, capacity, source, tag, total } = request {
                    *buffer = buffer.after(bytes);
                    if left == 0 {
                        *request = Request::Done(outcome(*source, *tag, *total, *capacity));
                    }
                }
            }
            Target::Message(number) | Target::Due { message: number, .. } => {
                if let Some(message) = self.messages.get_mut(number) {
                    message.arrived += bytes;
                }
            }
        }
        if let Target::Due { message, request } = arriving.target
            && left == 0
        {
            self.hand_over(message, request);
        }
    }

    /// A message that was received while it arrived in the engine's memory is there: it goes to its receive, if that is not
    /// dropped.
    pub(in crate::progress) fn hand_over(&mut self, number: u32, request: Option<u32>) {
        let Some(message) = self.messages.remove(number) else { return };
        let Envelope { source, tag, .. } = message.envelope;
        self.let_go(source, message.total);
        let Body::Here(Some(owned)) = message.body else { return };
        if let Some(request) = request.and_then(|id| self.request_mut(id))
            && let Request::Due { mut buffer, .. } = *request
        {
            let capacity = buffer.remaining();
            // SAFETY: the message's own memory holds all of it, and is no user buffer.
            unsafe { buffer.scatter(owned.base, message.total) };
            *request = Request::Done(outcome(source, tag, message.total, capacity));
        }
        self.release(owned);
    }
}

/// What makes no sense ends the stream.
const fn sound(is_sound: bool) -> Result<(), Halt> {
    if is_sound { Ok(()) } else { Err(NONSENSE) }
}

const fn envelope(source: u32, key: Key) -> Envelope {
    Envelope { context: key.context(), source, tag: key.tag() }
}
