//! Large messages on their way in: from the meeting of announcement and receive to the end.

use super::packet::Packet;
use super::receive::outcome;
use super::request::Request;
use super::{Cursor, Engine, Fault, ProgressError, StillClaimed};
use crate::layout::Corrupt;
use crate::lmt::{Receiver, SendCookie, Transfer};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::TransferKey;

/// An announced message that met its receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbound {
    pub(super) half: Receiver,
    /// `None` when the receive was dropped.
    pub(super) request: Option<u32>,
    tag: u32,
    total: usize,
    capacity: usize,
}

impl<M: Memory + Clone> Engine<M> {
    /// Opens the transfer of an announced message to the receive `id`.
    pub(super) fn start_recv(
        &mut self,
        id: u32,
        envelope: &Envelope,
        cookie: SendCookie,
        buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        let Envelope { source, tag, .. } = *envelope;
        let reads = self.peers[source as usize].may_read;
        let lends = self.tuning.transfer == Transfer::CmaShared;
        let reads = reads && self.tuning.transfer != Transfer::Cells;
        let half = Receiver::pre_recv(source, cookie, buffer, reads, lends);
        let (total, capacity) = (cookie.total as usize, buffer.remaining());
        let number =
            self.receivers.insert(Inbound { half, request: Some(id), tag, total, capacity })?;
        half.start_recv(self.segment.descriptor(source, cookie.place), number);
        self.notify(source);
        if let Some(request) = self.request_mut(id) {
            *request = Request::Granted { receiver: number };
        }
        Ok(())
    }

    /// Looks whether the message `number` is complete.
    pub(super) fn advance_receiver(&mut self, number: u32) -> Result<bool, ProgressError> {
        let Some(inbound) = self.receivers.get(number) else { return Ok(false) };
        let half = &inbound.half;
        let descriptor = self.segment.descriptor(half.peer(), half.descriptor());
        if !half.post_recv(descriptor)? {
            return Ok(false);
        }
        let Inbound { request, tag, total, capacity, .. } = *inbound;
        let source = half.peer();
        self.receivers.remove(number);
        if let Some(request) = request.and_then(|id| self.request_mut(id)) {
            *request = Request::Done(outcome(source, tag, total, capacity));
        }
        Ok(true)
    }

    /// A piece of a message arrived that neither side could move in one copy.
    pub(super) fn take_data(&mut self, packet: &Packet) -> Result<(), Corrupt> {
        let source = packet.envelope.source;
        let TransferKey { handle, generation } = TransferKey::unpack(packet.key);
        let known = self.receivers.get(handle).filter(|inbound| inbound.half.peer() == source);
        let Some(inbound) = known else {
            return Err(Corrupt::Length { found: u64::from(handle), max: 0 });
        };
        let (to, completed) = inbound.half.place(generation, packet.total as u64, packet.length)?;
        if let Some(mut to) = to {
            packet.scatter_to(&mut to);
        }
        let segment = self.segment;
        let descriptor = segment.descriptor(source, inbound.half.descriptor());
        if completed > 0 {
            descriptor.chunks.finish(completed);
            self.notify(source);
        }
        Ok(())
    }

    /// Ends the claim of a receive whose message is on its way: what has not come is let go.
    pub(super) fn detach_receiver(&mut self, number: u32) -> Result<(), StillClaimed> {
        let segment = self.segment;
        let Some(inbound) = self.receivers.get_mut(number) else { return Ok(()) };
        let peer = inbound.half.peer();
        let descriptor = segment.descriptor(peer, inbound.half.descriptor());
        if !inbound.half.close(descriptor).unwrap_or(false) {
            return Err(StillClaimed::Moving { peer });
        }
        inbound.request = None;
        self.notify(peer);
        Ok(())
    }

    /// Fails what a rank that is gone was sending.
    pub(super) fn fail_receivers_from(&mut self, rank: u32, fault: Fault) {
        let mut from = 0;
        while let Some((number, inbound)) = self.receivers.next_from(from) {
            from = number + 1;
            if inbound.half.peer() != rank {
                continue;
            }
            let request = inbound.request;
            self.receivers.remove(number);
            if let Some(id) = request {
                self.fail(id, fault);
            }
        }
    }
}
