//! Receives that met offered messages: they call for them, one at a time from each source.

use super::arrive::Kept;
use super::packet::Packet;
use super::peer::Target;
use super::request::Request;
use super::{Cursor, Engine, Fault};
use crate::layout::Corrupt;
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::sync::{Step, reached};
use crate::wire::{Kind, Offer};

/// A receive whose message was offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) source: u32,
    pub(super) offer: Offer,
    buffer: Cursor,
    /// `None` when the receive was dropped: the message is called for all the same, so that its sender is done with it.
    pub(super) request: Option<u32>,
    next: Option<u32>,
}

impl<M: Memory + Clone> Engine<M> {
    /// Asks for a message that its sender kept, for the receive `id`.
    pub(super) fn ask_for(
        &mut self,
        id: u32,
        envelope: &Envelope,
        kept: Kept,
        buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        match kept {
            Kept::Announced(cookie) => self.start_recv(id, envelope, cookie, buffer),
            Kept::Offered(offer) => self.call_for(id, envelope.source, offer, buffer),
            Kept::Exposed { offer, from, .. } => {
                self.start_reading(id, envelope, (offer, from), buffer)
            }
        }
    }

    /// Calls for an offered message, or lines the call up behind those to the same source.
    pub(super) fn call_for(
        &mut self,
        id: u32,
        source: u32,
        offer: Offer,
        buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        let call = Call { source, offer, buffer, request: Some(id), next: None };
        let number = self.calls.insert(call)?;
        let ends = &mut self.peers[source as usize].calls.ends;
        match *ends {
            None => {
                *ends = Some((number, number));
                self.call(source, offer);
            }
            Some((first, last)) => {
                *ends = Some((first, number));
                if let Some(before) = self.calls.get_mut(last) {
                    before.next = Some(number);
                }
            }
        }
        if let Some(request) = self.request_mut(id) {
            *request = Request::Calling { call: number };
        }
        Ok(())
    }

    fn call(&mut self, source: u32, offer: Offer) {
        if self.peers[source as usize].stream.is_some() {
            if let Some(stream) = self.stream_mut(source) {
                stream.call(offer);
            }
            return;
        }
        self.segment.flow(source, self.rank).call(offer);
        reached(Step::Called);
        self.notify(source);
    }

    /// The first packet of the message that was called for: it goes to its receive, and the next one is called for.
    pub(super) fn take_called(&mut self, packet: &Packet) -> Result<Target, Corrupt> {
        let source = packet.envelope.source;
        let ends = self.peers[source as usize].calls.ends;
        let first = ends.and_then(|(first, last)| Some((first, last, *self.calls.get(first)?)));
        let Some((first, last, call)) = first else {
            return Err(Corrupt::Kind { found: Kind::Called as u8 });
        };
        if packet.total as u64 != call.offer.total {
            let (found, max) = (packet.total as u64, call.offer.total);
            return Err(Corrupt::Length { found, max });
        }
        self.calls.remove(first);
        self.peers[source as usize].calls.ends = call.next.map(|next| (next, last));
        if let Some(next) = call.next.and_then(|next| self.calls.get(next)) {
            self.call(source, next.offer);
        }
        Ok(match call.request {
            Some(id) => self.begin_receive(id, call.buffer, packet),
            None => Target::Nobody,
        })
    }

    /// Ends the claim of a receive whose message was offered.
    pub(super) fn detach_call(&mut self, call: u32) {
        if let Some(call) = self.calls.get_mut(call) {
            call.request = None;
        }
    }

    /// Fails what was to come from a rank that is gone.
    pub(super) fn fail_calls_to(&mut self, rank: u32, fault: Fault) {
        let mut from = 0;
        while let Some((number, call)) = self.calls.next_from(from) {
            from = number + 1;
            if call.source != rank {
                continue;
            }
            self.calls.remove(number);
            if let Some(id) = call.request {
                self.fail(id, fault);
            }
        }
        self.peers[rank as usize].calls.ends = None;
    }
}
