//! Receives that met offered messages. They pull those, one at a time from each source.

use super::call::PullRequest;
use super::message::DeferredSend;
use super::packet::Packet;
use super::reassembly::ArrivalTarget;
use super::request::RequestState;
use super::{Engine, Fault};
use crate::buffer::Cursor;
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::sync::{Step, reached};
use crate::wire::{Corrupt, Offer, PacketKind};

impl<M: Memory + Clone> Engine<M> {
    /// Asks for a message that its sender kept, for the receive `id`.
    pub(super) fn ask_for(
        &mut self,
        id: u32,
        envelope: &Envelope,
        kept: DeferredSend,
        buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        match kept {
            DeferredSend::Announced(cookie) => self.start_recv(id, envelope, cookie, buffer),
            DeferredSend::Offered(offer) => self.call_for(id, envelope.source, offer, buffer),
            DeferredSend::Exposed { offer, from, .. } => {
                self.start_reading(id, envelope, (offer, from), buffer)
            }
        }
    }

    /// Pulls an offered message, or queues the pull request behind those to the same source.
    pub(super) fn call_for(
        &mut self,
        id: u32,
        source: u32,
        offer: Offer,
        buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        let call = PullRequest { source, offer, buffer, request: Some(id), next: None };
        let number = self.calls.insert(call)?;
        match self.peers[source as usize].pulls.push(number) {
            None => self.call(source, offer),
            Some(last) => {
                if let Some(before) = self.calls.get_mut(last) {
                    before.next = Some(number);
                }
            }
        }
        if let Some(request) = self.request_mut(id) {
            *request = RequestState::Calling { call: number };
        }
        Ok(())
    }

    fn call(&mut self, source: u32, offer: Offer) {
        if self.peers[source as usize].is_remote() {
            if let Some(stream) = self.stream_mut(source) {
                stream.call(offer);
            }
            return;
        }
        self.segment.flow(source, self.rank).call(offer);
        reached(Step::Called);
        self.notify(source);
    }

    /// Handles the first packet of the message that was pulled: delivers it to its receive, and
    /// pulls the next message.
    pub(super) fn take_called(&mut self, packet: &Packet) -> Result<ArrivalTarget, Corrupt> {
        let source = packet.envelope.source;
        let first = self.peers[source as usize].pulls.first();
        let Some((first, call)) = first.and_then(|first| Some((first, *self.calls.get(first)?)))
        else {
            return Err(Corrupt::Kind { found: PacketKind::Called as u8 });
        };
        if packet.total as u64 != call.offer.total {
            let (found, max) = (packet.total as u64, call.offer.total);
            return Err(Corrupt::Length { found, max });
        }
        self.calls.remove(first);
        self.peers[source as usize].pulls.pop(call.next);
        if let Some(next) = call.next.and_then(|next| self.calls.get(next)) {
            self.call(source, next.offer);
        }
        Ok(match call.request {
            Some(id) => self.begin_receive(id, call.buffer, packet),
            None => ArrivalTarget::Nobody,
        })
    }

    /// Ends the claim of a receive that pulls an offered message.
    pub(super) fn detach_call(&mut self, call: u32) {
        if let Some(call) = self.calls.get_mut(call) {
            call.request = None;
        }
    }

    /// Fails the receives of messages that were to come from a rank that is gone.
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
        self.peers[rank as usize].pulls.clear();
    }
}
