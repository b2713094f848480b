//! The speculative rendezvous of `[SpecRndv09]` where it meets the engine: which receive asks, which message uses what was
//! asked. The rules are [`crate::rndv`]'s; how an RTR travels and what it opens is the business of the way to the peer.

use super::announced::Course;
use super::network::There;
use super::peer::UNASKED;
use super::request::Request;
use super::{Cursor, Engine, Owner};
use crate::lmt::{Rtr, Sender};
use crate::matching::{ANY_SOURCE, ANY_TAG, Envelope, Pattern};
use crate::memory::Memory;
use crate::rndv::{Rendezvous, Start, Turn};
use crate::wire::Key;

/// What became of RTRs, of all envelopes together ([`Engine::rtrs`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rtrs {
    /// RTRs that this rank sent.
    pub sent: u64,
    /// Of these, the ones that were taken back: the receive was cancelled, or stood behind one that was.
    pub retracted: u64,
    /// Of these, the ones whose receive met a message that did not use them: it had left before, or was no large one.
    pub missed: u64,
    /// RTRs that came to this rank.
    pub heard: u64,
    /// Messages of this rank that used one.
    pub used: u64,
    /// How often this rank said stop-RTR because too few were used.
    pub stopped: u64,
}

/// The RTR of a posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) turn: Turn,
    pub(super) peer: u32,
    /// Its number among the receivers, or, of a peer on another node, among the invited.
    pub(super) number: u32,
}

/// Where a receive wants its message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// On this node.
    Here(Rtr),
    /// On another one.
    There(There),
}

impl<M: Memory + Clone> Engine<M> {
    /// Counts of RTRs.
    #[must_use]
    pub const fn rtrs(&self) -> Rtrs {
        let usage = self.asked_by.usage();
        Rtrs { heard: usage.heard, used: usage.used, stopped: usage.stopped, ..self.rtrs }
    }

    /// True when a call of [`Engine::take_in`] is worth its time before a message of `length` bytes is sent: an RTR may be
    /// here (`[SpecRndv09]` §3.2.2). Not while its envelope has stopped (§3.6), nor for a peer on this node that does not ask: to
    /// take in its RTS would have it begin to move that message, instead of both, while ours has yet to leave.
    #[must_use]
    pub fn may_be_asked(&self, destination: u32, key: Key, length: usize) -> bool {
        self.tuning.may_announce(length)
            && self.rendezvous(key.context()) != Rendezvous::Plain
            && self.peers.get(destination as usize).is_some_and(|peer| peer.unasked < UNASKED)
            && self.asked_by.speculates(destination, key)
    }

    /// The same before a receive into `length` bytes: an RTS may be here (§3.1.1). Also from anybody, and where RTRs are
    /// stopped. Not before one that asks for nothing and waits, so that it looks at once.
    #[must_use]
    pub fn may_be_announced(&self, pattern: &Pattern, length: usize, owner: Owner) -> bool {
        let source = self.peers.get(pattern.source as usize);
        self.tuning.may_announce(length)
            && self.rendezvous(pattern.context) != Rendezvous::Plain
            && self.asking.is_announced_to()
            && (owner != Owner::BLOCKING || source.is_some_and(|peer| peer.stream.is_some()))
    }

    /// True when a receive of this rank waits that has sent an RTR, used or not.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.receivers.is_empty()
            && self.receivers.iter().any(|(_, inbound)| inbound.half.home().owner == self.rank)
    }

    /// Begins a large message, the next to `destination` with this key: by an RTR, or by an RTS with this turn.
    pub(super) fn start(
        &mut self,
        destination: u32,
        key: Key,
        data: Cursor,
    ) -> Result<(Sender, Course), Option<Turn>> {
        self.looks += 1;
        let found = self.peers[destination as usize].eager.look(key, self.looks);
        self.asked_by.catch_up(destination, key, found, self.looks);
        let choice = self.rendezvous(key.context());
        match self.asked_by.start(destination, key, choice) {
            Start::Rts(turn) => {
                let unasked = &mut self.peers[destination as usize].unasked;
                *unasked = (*unasked + 1).min(UNASKED);
                Err(turn)
            }
            Start::Write { target, .. } => {
                let used = match target {
                    Wanted::Here(rtr) => self.use_rtr(destination, &rtr, data),
                    // Nobody on this node sends such an RTR.
                    Wanted::There(_) => None,
                };
                used.ok_or_else(|| self.asked_by.refused(destination, key, choice))
            }
        }
    }

    /// The turn that a receive may ask for, which is about to be posted.
    pub(super) fn may_ask(
        &mut self,
        pattern: &Pattern,
        buffer: &Cursor,
        owner: Owner,
    ) -> Option<Turn> {
        let Pattern { context, source, tag } = *pattern;
        // A message that is matched may come back, and a receive that has asked for another could not take it.
        if self.matched > 0
            || source == ANY_SOURCE
            || tag == ANY_TAG
            || !self.tuning.may_announce(buffer.remaining())
            || self.rendezvous(context) == Rendezvous::Plain
        {
            return None;
        }
        let (unasked, pointless) = match self.peers[source as usize].stream {
            // Who waits inside the library answers an RTS at once,
            None => (self.tuning.eager_max, owner == Owner::BLOCKING),
            // but from another node that takes its time. What is cut is read part after part.
            Some(_) => (self.tuning.stream_max, buffer.in_one_part().is_none()),
        };
        // A short buffer predicts a short message.
        if pointless || buffer.remaining() <= unasked {
            return None;
        }
        let ahead = self.posted.ahead_of(pattern).map(|id| self.asked(id).map(|asked| asked.turn));
        self.asking.may_request(pattern, ahead)
    }

    /// The RTR of the receive `id`, if it is posted and has sent one.
    pub(super) fn asked(&self, id: u32) -> Option<Asked> {
        match self.request(id) {
            Some(Request::Posted { asked, .. }) => asked,
            _ => None,
        }
    }

    /// Notes that the receive `id` has met a message that used no RTR of its; the message has a turn or none.
    pub(super) fn missed(&mut self, envelope: &Envelope, has_turn: bool) {
        self.rtrs.missed += 1;
        if !has_turn {
            let Envelope { context, source, tag } = *envelope;
            self.asking.mispredicted(source, Key::new(context, tag));
        }
    }
}
