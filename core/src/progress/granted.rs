//! Large messages on their way in: from the meeting of announcement and receive to the end.

use super::receive::outcome;
use super::request::Request;
use super::ring::Emptying;
use super::{Cursor, Engine, Fault, ProgressError, StillClaimed};
use crate::lmt::{Place, Receiver, Remote, SendCookie};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::sync::{Step, reached};

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
        let (segment, rank) = (self.segment, self.rank);
        let peer = &mut self.peers[source as usize];
        if peer.inlet.is_none() {
            // Who announces has backed it.
            peer.inlet = Emptying::open(&segment, source, rank);
        }
        // It was checked when it arrived.
        let from = cookie.reach(&segment, source).ok().flatten();
        let from = from.filter(|from| peer.may_read || matches!(from, Remote::Mapped(_)));
        let place = Place::of(&buffer, &segment, rank);
        let half = Receiver::pre_recv(source, cookie, from, buffer, place);
        let (total, capacity) = (cookie.total as usize, buffer.remaining());
        let number =
            self.receivers.insert(Inbound { half, request: Some(id), tag, total, capacity })?;
        half.start_recv(self.segment.descriptor(source, cookie.place), number);
        reached(Step::Granted);
        self.notify(source);
        if let Some(request) = self.request_mut(id) {
            *request = Request::Granted { receiver: number };
        }
        Ok(())
    }

    /// Takes what came for the message `number`, and looks whether it is complete.
    pub(super) fn advance_receiver(&mut self, number: u32) -> Result<bool, ProgressError> {
        let Some(inbound) = self.receivers.get(number) else { return Ok(false) };
        let moved = self.poll_ring(inbound.half.peer())?;
        let Some(inbound) = self.receivers.get(number) else { return Ok(moved) };
        let half = &inbound.half;
        let descriptor = self.segment.descriptor(half.peer(), half.descriptor());
        if !half.post_recv(descriptor)? {
            return Ok(moved);
        }
        let Inbound { request, tag, total, capacity, .. } = *inbound;
        let source = half.peer();
        self.receivers.remove(number);
        if let Some(request) = request.and_then(|id| self.request_mut(id)) {
            *request = Request::Done(outcome(source, tag, total, capacity));
        }
        Ok(true)
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
