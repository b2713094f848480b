//! Large messages on their way out to receives that were there before them: written into the receiver's buffer.
//!
//! A message whose receive has sent an RTR is written when its turn in the stream comes, and its RTR-ACK is put behind what was
//! written. What the send queue does not take at once goes on while later messages are put; *written* is said behind the last
//! of it. Either way the receiver has the whole message, in its buffer, whatever the sender does then.
//!
//! Source: `[SpecRndv09]` §3.1.2, receiver first.

use super::Channel;
use crate::hca::{Region, Remote};
use crate::memory::{Memory, OutOfMemory};
use crate::progress::request::{Outgoing, Request, Stage};
use crate::progress::speculation::Wanted;
use crate::progress::{Begun, Direct, Engine, Fault, Part, Status, Way};
use crate::wire::{Asked, Key, StreamHead};

/// Where a receive on another node wants its message.
#[derive(Clone, Copy, Debug)]
pub(in crate::progress) struct There {
    to: Remote,
    capacity: usize,
    asked: Asked,
}

/// A message that is being written.
#[derive(Clone, Copy, Debug)]
pub(in crate::progress) struct Writing {
    pub(in crate::progress) destination: u32,
    /// Its send.
    request: u32,
    region: Region,
    /// What no transfer has begun of, and where it goes.
    rest: Part,
    to: Remote,
    asked: Asked,
    /// The last transfer.
    last: u64,
    /// The place to say that it is written, until that is said.
    word: Option<u32>,
}

impl Writing {
    pub(in crate::progress) const fn destination(&self) -> u32 {
        self.destination
    }

    /// Begins as many transfers as are taken now. Says whether any was. A channel that breaks says so to who reads.
    fn go_on(&mut self, channel: &mut impl Channel) -> bool {
        let before = self.rest.length;
        while self.rest.length > 0 {
            let Self { destination, rest, to, region, .. } = *self;
            let direct = Direct { way: Way::Write, near: rest, key: region.local_key, far: to };
            // SAFETY: the part is registered, and the message is claimed until its request is over: that is when the last transfer
            // is done, or the streams are closed.
            let Ok(Some(Begun { number, bytes })) =
                (unsafe { channel.transfer(destination, &direct) })
            else {
                break;
            };
            self.last = number;
            // SAFETY: no more is moved than there is.
            let base = unsafe { rest.base.add(bytes) };
            self.rest = Part { base, length: rest.length - bytes };
            self.to.address = to.address.wrapping_add(bytes as u64);
        }
        self.rest.length < before
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// An RTR has come from another node.
    pub(super) fn take_rtr_of(
        &mut self,
        source: u32,
        key: Key,
        (to, capacity): (Remote, usize),
        asked: Asked,
    ) {
        let there = There { to, capacity, asked };
        self.asked_by.rtr(source, key, asked.turn, Wanted::There(there));
    }

    /// An RTR is to be retracted. All messages that use it are in the stream, or none will: the answer goes behind those.
    pub(super) fn take_retract_rtr(
        &mut self,
        source: u32,
        key: Key,
        asked: Asked,
    ) -> Result<(), OutOfMemory> {
        let word = self.reserve_word()?;
        self.asked_by.retract(source, key, asked.turn);
        self.say(source, word, StreamHead::RtrRetracted(asked));
        Ok(())
    }

    /// Begins to write the message of the send `request`, which is registered and has met its receive. What is said of it.
    pub(super) fn begin_writing(
        &mut self,
        (destination, request): (u32, u32),
        message: &Outgoing,
        (part, region): (Part, Region),
        there: There,
        channel: &mut impl Channel,
    ) -> Result<StreamHead, OutOfMemory> {
        let There { to, capacity, asked } = there;
        let Outgoing { key, total, .. } = *message;
        let rest = Part { length: part.length.min(capacity), ..part };
        let mut writing =
            Writing { destination, request, region, rest, to, asked, last: 0, word: None };
        writing.go_on(channel);
        let whole = writing.rest.length == 0;
        if !whole {
            writing.word = Some(self.reserve_word()?);
        }
        let number = self.writings.insert(writing)?;
        if let Some(Request::Sending { message, .. }) = self.request_mut(request) {
            message.stage = Stage::Writing { writing: number };
        }
        Ok(StreamHead::RtrAck { key, total, asked, whole })
    }

    /// Goes on with what is written to `peer`. Says whether anything moved.
    pub(super) fn write_on(&mut self, peer: u32, channel: &mut impl Channel) -> bool {
        let (mut moved, mut from) = (false, 0);
        while let Some((number, _)) = self.writings.next_from(from) {
            from = number + 1;
            let Some(writing) = self.writings.get_mut(number) else { continue };
            if writing.destination != peer {
                continue;
            }
            moved |= writing.go_on(channel);
            let Writing { request, region, rest, asked, last, .. } = *writing;
            if rest.length > 0 {
                continue;
            }
            if let Some(word) = writing.word.take() {
                self.say(peer, word, StreamHead::Written(asked));
            }
            if channel.is_done(peer, last) {
                self.writings.remove(number);
                channel.release(region);
                self.end_write(peer, request);
                moved = true;
            }
        }
        moved
    }

    /// Whether a message is being written to `peer`.
    pub(super) fn writes_to(&self, peer: u32) -> bool {
        self.writings.iter().any(|(_, writing)| writing.destination == peer)
    }

    fn end_write(&mut self, peer: u32, request: u32) {
        if let Some(Request::Sending { message, .. }) = self.request(request) {
            let status = Status { source: peer, tag: message.key.tag(), bytes: message.total };
            self.end_send(request, Ok(status));
        }
    }

    /// Fails what was being written to `peer`, which is gone. Its streams are closed.
    pub(super) fn fail_writings_to(&mut self, peer: u32, fault: Fault, channel: &mut impl Channel) {
        let mut from = 0;
        while let Some((number, writing)) = self.writings.next_from(from) {
            from = number + 1;
            if writing.destination != peer {
                continue;
            }
            self.writings.remove(number);
            if let Some(word) = writing.word {
                self.words.remove(word);
            }
            channel.release(writing.region);
            self.end_send(writing.request, Err(fault));
        }
    }
}
