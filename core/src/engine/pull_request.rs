//! Receives that met offered messages. They pull those, one at a time from each source.

use super::message::DeferredSend;
use super::packet::Packet;
use super::pull_requests::PullRequest;
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
            DeferredSend::Method(news) => self.start_method_recv(id, envelope, news, buffer),
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
        let pull = PullRequest { source, offer, buffer, request: Some(id) };
        let line = &mut self.peers[source as usize].pulls;
        let (number, is_first) = self.pulls.line_up(line, pull)?;
        if is_first {
            self.call(source, offer);
        }
        self.requests.set(id, RequestState::Calling { call: number });
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
        let line = &mut self.peers[source as usize].pulls;
        let Some(pull) = self.pulls.first(line) else {
            return Err(Corrupt::Kind { found: PacketKind::Called as u8 });
        };
        if packet.total as u64 != pull.offer.total {
            let (found, max) = (packet.total as u64, pull.offer.total);
            return Err(Corrupt::Length { found, max });
        }
        if let Some(next) = self.pulls.end_first(line) {
            self.call(source, next.offer);
        }
        Ok(match pull.request {
            Some(id) => self.begin_receive(id, pull.buffer, packet),
            None => ArrivalTarget::Nobody,
        })
    }

    /// Fails the receives of messages that were to come from a rank that is gone.
    pub(super) fn fail_calls_to(&mut self, rank: u32, fault: Fault) {
        let line = &mut self.peers[rank as usize].pulls;
        self.pulls.clear(line, |id| self.requests.finish(id, Err(fault)));
    }
}
