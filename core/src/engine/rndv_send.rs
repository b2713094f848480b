//! Large messages on their way out: from the announcement to the end.

use super::copy_ring::RingMessage;
use super::outbound::{Course, Outbound, Timing};
use super::request::{Pushed, SendStage};
use super::{Engine, Outcome, ProgressError, SendMode, StillClaimed};
use crate::buffer::{Cursor, Part};
use crate::layout::{Count, EventKind};
use crate::lmt::{LmtSender, Span, Transfer, Ways, WireAddress};
use crate::memory::{Memory, OutOfMemory};
use crate::sync::{Step, reached};
use crate::wire::{Corrupt, Key, PacketKind};

impl<M: Memory + Clone> Engine<M> {
    /// Prepares the announcement of a message, if a message of this length travels to `destination`
    /// that way.
    ///
    /// Returns `None` if the message goes through cells or in parcels instead, unless the receiver
    /// has asked for it. That is so in these cases:
    ///
    /// - All descriptors are taken. The message may have to overtake the receives of the messages
    ///   that have them.
    /// - The destination is this rank, since no other rank could receive the message meanwhile.
    /// - There is no copy ring to the peer, and this rank does not know that it can write to the
    ///   peer's memory ([`Engine::defer_granules`]). No other path may be left for the message when
    ///   the kernel forbids the single copy.
    ///
    /// A synchronous message goes like any other if the pair has a bit for its answer. Otherwise it
    /// is announced whenever it can be.
    pub(super) fn pre_send(
        &mut self,
        mode: SendMode,
        destination: u32,
        key: Key,
        data: Cursor,
    ) -> Result<Option<SendStage>, OutOfMemory> {
        let total = data.remaining();
        let large = total > self.tuning.eager_max
            && Span::fits(total)
            && (mode == SendMode::Synchronous && !self.goes_synchronously(destination, total)
                || self.negotiation.is_asked(destination, key)
                || !self.goes_in_parcels(destination, total));
        if large
            && destination != self.rank
            && self.transfers.methods().is_set()
            && let Some(stage) = self.pre_send_by_method(mode, destination, key, data)?
        {
            return Ok(Some(stage));
        }
        let may_announce =
            || self.peers[destination as usize].large.may_announce(|| self.is_one_copy(&data));
        if !large || destination == self.rank || !may_announce() {
            return Ok(None);
        }
        self.transfers.reserve_sender()?;
        // An RTR brings a descriptor of its own, but only a message that can do without it may ask
        // for it.
        let Some(home) = self.transfers.take_descriptor() else { return Ok(None) };
        let (half, course) = match self.start(destination, key, data) {
            Ok(used) => {
                self.transfers.put_back(home);
                used
            }
            Err(turn) => {
                let (ways, course) = self.choose(destination, data);
                let descriptor = home.of(&self.segment);
                (LmtSender::pre_send(destination, home, ways, turn, descriptor), course)
            }
        };
        let outbound = Outbound {
            half,
            request: None,
            tag: key.tag(),
            announced: false,
            course,
            timing: Timing::of(total),
            owned: None,
        };
        self.transfers.add_sender(outbound).map(|sender| Some(SendStage::Announce { sender }))
    }

    /// Chooses the path of a message.
    pub(super) fn choose(&mut self, destination: u32, data: Cursor) -> (Ways, Course) {
        let ways = self.ways(destination, data, self.tuning.transfer);
        if ways.transfer != Transfer::Auto {
            return (ways, Course::Given);
        }
        let large = &mut self.peers[destination as usize].large;
        let (transfer, course) = match ways.place {
            WireAddress::Private(_) => {
                let (transfer, chosen) = large.choose(self.buffers.memory(), data.remaining());
                (transfer, chosen.map_or(Course::Given, Course::Chosen))
            }
            // The receiver reads the message where it lies. If the message is withdrawn, the rest
            // goes through the ring. Or the receiver could not read it, and the sender alone is
            // slower than the ring.
            _ => (large.by_ring(data.remaining()), Course::Given),
        };
        (Ways { transfer, ..ways }, course)
    }

    /// Returns the ways of a message that travels by `transfer`.
    pub(super) fn ways(&self, destination: u32, data: Cursor, transfer: Transfer) -> Ways {
        let uses_heaps = self.tuning.transfer.uses_heaps();
        let place = match WireAddress::of(&data, &self.segment, self.rank) {
            WireAddress::Heap(_) if !uses_heaps => WireAddress::Nowhere,
            place => place,
        };
        let may_write = self.peers[destination as usize].large.may_write();
        let adapts = self.tuning.transfer == Transfer::Auto;
        Ways { data, place, transfer, adapts, may_write, uses_heaps }
    }

    /// Sends the RTS of a message, or its RTR-ACK, if there is room for it.
    pub(super) fn push_rts(
        &mut self,
        destination: u32,
        key: Key,
        number: u32,
    ) -> Result<Pushed, Corrupt> {
        let Some(outbound) = self.transfers.sender(number) else { return Ok(Pushed::Whole) };
        if let Some(ack) = outbound.half.rtr_ack() {
            if !self.push_control(destination, PacketKind::RtrAck, key, &ack.pack())? {
                return Ok(Pushed::Blocked);
            }
            reached(Step::RtrAckSent);
        } else {
            let cookie = outbound.half.cookie().pack();
            if !self.push_control(destination, PacketKind::Rts, key, &cookie)? {
                return Ok(Pushed::Blocked);
            }
            reached(Step::RtsSent);
        }
        if let Some(outbound) = self.transfers.sender_mut(number) {
            outbound.announced = true;
            let total = outbound.half.total() as u64;
            self.note(EventKind::Announced, destination, key, total);
        }
        Ok(Pushed::Whole)
    }

    /// Advances the announced message `number`.
    pub(super) fn advance_sender(&mut self, number: u32) -> Result<bool, ProgressError> {
        let (segment, now) = (self.segment, self.transfers.now());
        let Some(outbound) = self.transfers.sender_mut(number) else { return Ok(false) };
        if !outbound.announced && outbound.half.uses_rtr() {
            // The receiver does not know the message yet. Its chunks may be moved, but the receiver
            // takes none of it from the ring.
            return Ok(false);
        }
        let receiver = &segment.rank_block(outbound.half.peer()).liveness;
        let will_move = outbound.half.look_for_peer(receiver.is_inside());
        let descriptor = outbound.half.home().of(&segment);
        let started = outbound.half.start_send(&segment, descriptor)?;
        let mut moved = started || will_move;
        if started || outbound.half.uses_rtr() {
            // A receive that sent an RTR was posted earlier, but `now` may be an older time than
            // that.
            outbound.timing.begin(now);
        }
        moved |= outbound.half.handle_cookie(descriptor)?;
        moved |= self.push_chunks(number)?;
        let Some(outbound) = self.transfers.sender(number) else { return Ok(moved) };
        if outbound.half.post_send(descriptor)? {
            let (source, bytes) = (outbound.half.peer(), outbound.half.total());
            self.finish_sender(number, Ok(super::Status { source, tag: outbound.tag, bytes }));
            moved = true;
        }
        Ok(moved)
    }

    /// Puts the message's bytes into the copy ring, as far as there is room. Before its receive is
    /// posted, it puts one more chunk.
    fn push_chunks(&mut self, number: u32) -> Result<bool, Corrupt> {
        let segment = self.segment;
        let mut moved = false;
        loop {
            let Some(outbound) = self.transfers.sender_mut(number) else { return Ok(moved) };
            let half = &mut outbound.half;
            let destination = half.peer();
            let (large, total) = (&mut self.peers[destination as usize].large, half.total());
            let transfer = match half.transfer() {
                transfer @ (Transfer::CopyRing | Transfer::CopyRingStreamed) => transfer,
                _ => large.by_ring(total),
            };
            let Some(ring) = large.ring_out() else {
                let needs_ring = half.needs_ring();
                if needs_ring {
                    self.transfers.want_ring(destination);
                }
                // Until there is memory, this rank must not sleep.
                return Ok(moved | needs_ring);
            };
            let stream = RingMessage { home: half.home(), total, stores: transfer.stores() };
            let descriptor = half.home().of(&segment);
            let liveness = &segment.rank_block(destination).liveness;
            let (is_inside, room) = (|| liveness.is_inside(), ring.has_room(stream)?);
            let Some(piece) = half.piece(descriptor, is_inside, || room)? else {
                return Ok(moved | ring.prepare(stream, |offset| half.ahead(offset))?);
            };
            let Some(length) = ring.put(stream, &piece)? else { return Ok(moved) };
            half.piece_left(length);
            self.notify(destination);
            moved = true;
        }
    }

    /// Ends an announced message, and returns its descriptor.
    pub(super) fn finish_sender(&mut self, number: u32, outcome: Outcome) {
        let Some(outbound) = self.transfers.remove_sender(number) else { return };
        self.count_sent(&outbound, outcome.is_ok());
        if let Course::Chosen(chosen) = outbound.course {
            let now = self.transfers.now();
            let (bytes, met) = outbound.timing.end(now);
            let half = &outbound.half;
            let measured = outcome.is_ok() && !half.goes_to_heap() && half.is_unmixed();
            let large = &mut self.peers[outbound.half.peer() as usize].large;
            large.transfer_ended(chosen, if measured { bytes } else { 0 }, met, now);
        }
        if let Some(id) = outbound.request {
            self.requests.finish(id, outcome);
        }
        if let Some(owned) = outbound.owned {
            self.buffers.put_back(owned);
        }
    }

    /// Counts an announced message that has ended.
    fn count_sent(&self, outbound: &Outbound, is_ok: bool) {
        let (peer, total) = (outbound.half.peer(), outbound.half.total() as u64);
        if is_ok {
            self.count(peer, Count::Transfers, 1);
            self.count(peer, Count::TransferBytes, total);
        }
        self.note(EventKind::SendEnded, peer, Key::new(0, outbound.tag), total);
    }

    /// Ends the claim of an announced message on its buffer: the message goes on from a copy.
    /// Succeeds at once when the claim had ended before.
    pub(super) fn detach_sender(&mut self, number: u32) -> Result<(), StillClaimed> {
        let segment = self.segment;
        let Some(outbound) = self.transfers.sender_mut(number) else { return Ok(()) };
        if outbound.request.is_none() {
            return Ok(());
        }
        let peer = outbound.half.peer();
        let descriptor = outbound.half.home().of(&segment);
        // Progress meets an impossible count again, and reports it.
        if !outbound.half.withdraw(descriptor).unwrap_or(false) {
            return Err(StillClaimed::Moving { peer });
        }
        let (from, length) = outbound.half.rest(descriptor);
        let copy = self.buffers.take(length)?;
        // SAFETY: the buffer is still claimed (contract of `isend`). The copy has room for the rest
        // of the message and lives until the transfer ends.
        unsafe {
            outbound.half.data(from).gather(copy.base, length);
            outbound.half.move_to(Cursor::contiguous(Part { base: copy.base, length }), from);
        }
        outbound.owned = Some(copy);
        outbound.request = None;
        Ok(())
    }

    /// Fails the messages that were announced to a gone rank. A message that waits to be announced
    /// fails with its request.
    pub(super) fn fail_senders_to(&mut self, rank: u32, outcome: Outcome) {
        let mut from = 0;
        while let Some(number) = self.transfers.next_sender(from) {
            from = number + 1;
            let outbound = self.transfers.sender(number);
            if outbound.is_some_and(|outbound| outbound.half.peer() == rank && outbound.announced) {
                self.finish_sender(number, outcome);
            }
        }
    }
}
