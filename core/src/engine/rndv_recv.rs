//! Large messages on their way in: from the match of announcement and receive to the end.

use super::inbound::Inbound;
use super::request::RequestState;
use super::started::outcome;
use super::{Engine, Fault, ProgressError, StillClaimed};
use crate::buffer::Cursor;
use crate::lmt::{LmtReceiver, RemoteBuffer, SendCookie, WireAddress};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::sync::{Step, reached};
use crate::wire::Key;

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
        // The cookie was checked when it arrived.
        let from = cookie.reach(&segment, source).ok().flatten();
        let from = self.prepare_to_read(source, from);
        let place = WireAddress::of(&buffer, &segment, rank);
        let half = LmtReceiver::pre_recv(source, cookie, from, buffer, place);
        let (total, capacity) = (cookie.total as usize, buffer.remaining());
        let number = self.transfers.add_receiver(Inbound {
            half,
            request: Some(id),
            key,
            total,
            stores: None,
            capacity,
        })?;
        half.start_recv(self.segment.descriptor(source, cookie.place), number);
        reached(Step::Granted);
        self.notify(source);
        self.requests.set(id, RequestState::Granted { receiver: number });
        Ok(())
    }

    /// Opens the copy ring from `source`, which has announced a large message at `from`. Returns
    /// the memory to read, if an attempt is worthwhile.
    pub(super) fn prepare_to_read(
        &mut self,
        source: u32,
        from: Option<RemoteBuffer>,
    ) -> Option<RemoteBuffer> {
        let large = &mut self.peers[source as usize].large;
        // The rank that announces a message has backed the ring.
        large.open_ring_in(&self.segment, (self.rank, source));
        from.filter(|from| large.may_read() || matches!(from, RemoteBuffer::Mapped(_)))
    }

    /// Takes the bytes that came for the message `number`, and checks whether it is complete.
    pub(super) fn advance_receiver(&mut self, number: u32) -> Result<bool, ProgressError> {
        let Some(inbound) = self.transfers.receiver(number) else { return Ok(false) };
        let mut moved = self.poll_ring(inbound.half.peer())?;
        let segment = self.segment;
        let Some(inbound) = self.transfers.receiver_mut(number) else { return Ok(moved) };
        let half = &mut inbound.half;
        moved |= half.look_for_peer(segment.rank_block(half.peer()).liveness.is_inside());
        if !half.post_recv(half.home().of(&self.segment))? {
            return Ok(moved);
        }
        let Inbound { request, key, total, capacity, .. } = *inbound;
        let source = half.peer();
        self.transfers.remove_receiver(number);
        if let Some(id) = request {
            let (place, from) = ((&self.segment, self.rank), (source, key.tag()));
            self.requests.finish(id, outcome(place, from, total, capacity));
        }
        Ok(true)
    }

    /// Ends the claim of a receive with a message on its way. The rest of the message is dropped.
    pub(super) fn detach_receiver(&mut self, number: u32) -> Result<(), StillClaimed> {
        let segment = self.segment;
        let Some(inbound) = self.transfers.receiver_mut(number) else { return Ok(()) };
        let peer = inbound.half.peer();
        let descriptor = inbound.half.home().of(&segment);
        if !inbound.half.close(descriptor).unwrap_or(false) {
            return Err(StillClaimed::Moving { peer });
        }
        inbound.request = None;
        self.notify(peer);
        Ok(())
    }

    /// Fails the receives of messages that a gone rank was sending or was asked for.
    pub(super) fn fail_receivers_from(&mut self, rank: u32, fault: Fault) {
        let mut from = 0;
        while let Some(number) = self.transfers.next_receiver(from) {
            from = number + 1;
            let inbound = self.transfers.receiver(number);
            if inbound.is_some_and(|inbound| inbound.half.peer() == rank)
                && let Some(Inbound { request: Some(id), .. }) =
                    self.transfers.remove_receiver(number)
            {
                self.fail(id, fault);
            }
        }
    }
}
