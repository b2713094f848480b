//! Large messages on their way in: from the meeting of announcement and receive to the end.

use super::receive::outcome;
use super::request::Request;
use super::ring::Emptying;
use super::{Cursor, Engine, Fault, ProgressError, StillClaimed};
use crate::lmt::{Place, Receiver, Remote, SendCookie};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::sync::{Step, reached};
use crate::wire::Key;

/// An announced message that met its receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbound {
    pub(super) half: Receiver,
    /// `None` when the receive was dropped.
    pub(super) request: Option<u32>,
    pub(super) key: Key,
    pub(super) total: usize,
    pub(super) capacity: usize,
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
        let Envelope { context, source, tag } = *envelope;
        let key = Key::new(context, tag);
        let (segment, rank) = (self.segment, self.rank);
        // It was checked when it arrived.
        let from = cookie.reach(&segment, source).ok().flatten();
        let from = self.prepare_to_read(source, from);
        let place = Place::of(&buffer, &segment, rank);
        let half = Receiver::pre_recv(source, cookie, from, buffer, place);
        let (total, capacity) = (cookie.total as usize, buffer.remaining());
        let number =
            self.receivers.insert(Inbound { half, request: Some(id), key, total, capacity })?;
        half.start_recv(self.segment.descriptor(source, cookie.place), number);
        reached(Step::Granted);
        self.notify(source);
        if let Some(request) = self.request_mut(id) {
            *request = Request::Granted { receiver: number };
        }
        Ok(())
    }

    /// Opens the copy ring from `source`, which has announced a large message that lies at `from`. Where that is to be read, if
    /// a try is worth it.
    pub(super) fn prepare_to_read(&mut self, source: u32, from: Option<Remote>) -> Option<Remote> {
        let peer = &mut self.peers[source as usize];
        if peer.inlet.is_none() {
            // Who announces has backed it.
            peer.inlet = Emptying::open(&self.segment, source, self.rank);
        }
        from.filter(|from| peer.may_read || matches!(from, Remote::Mapped(_)))
    }

    /// Takes what came for the message `number`, and looks whether it is complete.
    pub(super) fn advance_receiver(&mut self, number: u32) -> Result<bool, ProgressError> {
        let Some(inbound) = self.receivers.get(number) else { return Ok(false) };
        let moved = self.poll_ring(inbound.half.peer())?;
        let Some(inbound) = self.receivers.get(number) else { return Ok(moved) };
        let half = &inbound.half;
        if !half.post_recv(half.home().of(&self.segment))? {
            return Ok(moved);
        }
        let Inbound { request, key, total, capacity, .. } = *inbound;
        let source = half.peer();
        self.remove_receiver(number);
        if let Some(request) = request.and_then(|id| self.request_mut(id)) {
            *request = Request::Done(outcome(source, key.tag(), total, capacity));
        }
        Ok(true)
    }

    /// Ends the claim of a receive whose message is on its way: what has not come is let go.
    pub(super) fn detach_receiver(&mut self, number: u32) -> Result<(), StillClaimed> {
        let segment = self.segment;
        let Some(inbound) = self.receivers.get_mut(number) else { return Ok(()) };
        let peer = inbound.half.peer();
        let descriptor = inbound.half.home().of(&segment);
        if !inbound.half.close(descriptor).unwrap_or(false) {
            return Err(StillClaimed::Moving { peer });
        }
        inbound.request = None;
        self.notify(peer);
        Ok(())
    }

    /// Forgets the message `number`, and takes its descriptor back if it is ours.
    pub(super) fn remove_receiver(&mut self, number: u32) {
        let home = self.receivers.remove(number).map(|inbound| inbound.half.home());
        if let Some(home) = home.filter(|home| home.owner == self.rank) {
            self.descriptors.put_back(home.place);
        }
    }

    /// Fails what a rank that is gone was sending, or was asked for.
    pub(super) fn fail_receivers_from(&mut self, rank: u32, fault: Fault) {
        let mut from = 0;
        while let Some((number, inbound)) = self.receivers.next_from(from) {
            from = number + 1;
            if inbound.half.peer() != rank {
                continue;
            }
            let request = inbound.request;
            self.remove_receiver(number);
            if let Some(id) = request {
                self.fail(id, fault);
            }
        }
    }
}
