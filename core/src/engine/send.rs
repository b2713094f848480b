//! Sending: through the fastbox when it has room, in parcels when this rank has some, otherwise
//! through cells, and later when there is no free cell.

use super::Sent;
use core::ptr::NonNull;

use super::message_buffers::OwnedBuffer;
use super::request::{OutgoingMessage, Pushed, RequestState, SendStage};
use super::{Engine, Outcome, Owner, RequestId, SendMode, StartError, Status, StillClaimed};
use crate::buffer::Cursor;
use crate::buffer::copy::copy_piece;
use crate::layout::{Count, EventKind};
use crate::matching::TAG_MAX;
use crate::memory::{Memory, OutOfMemory};
use crate::shm::{Cell, CellHead};
use crate::sync::{Step, reached};
use crate::wire::{Corrupt, Key, PacketKind};

/// The contents of one cell, except the payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellPart {
    pub(super) kind: PacketKind,
    pub(super) key: Key,
    /// [`CellHead::total`].
    pub(super) total: u64,
    /// Bytes of payload, at most the payload of a cell.
    pub(super) length: usize,
}

impl<M: Memory + Clone> Engine<M> {
    /// Sends the message that `data` holds, as far as there is room for it now.
    ///
    /// # Errors
    ///
    /// [`StartError`]: nothing was sent.
    ///
    /// # Safety
    ///
    /// What `data` points to stays valid and unchanged until the send is over: until this returns
    /// [`Sent::Done`] or an error, until [`Engine::test`] returns an outcome, or until
    /// [`Engine::detach`] returns `Ok`.
    pub unsafe fn isend(
        &mut self,
        destination: u32,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        // SAFETY: the caller guarantees that the data stay valid and unchanged (contract of
        // `isend`).
        unsafe { self.isend_by(SendMode::Standard, destination, key, data, owner) }
    }

    /// Sends the message that `data` holds. The send is over under the condition of `mode`.
    ///
    /// # Errors
    ///
    /// [`StartError`]: nothing was sent.
    ///
    /// # Safety
    ///
    /// The contract of [`Engine::isend`] holds for `data`.
    pub unsafe fn isend_by(
        &mut self,
        mode: SendMode,
        destination: u32,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        let ranks = self.segment.ranks();
        if destination as usize >= self.peers.len() {
            return Err(StartError::Rank { rank: destination, ranks });
        }
        if key.tag() > TAG_MAX {
            return Err(StartError::Tag { tag: key.tag() });
        }
        let peer = self.contact(destination)?;
        if let Some(gone) = peer.gone() {
            return Err(StartError::Peer(gone.fault(destination)));
        }
        if peer.is_remote() {
            return self.isend_remote(mode, destination, key, data, owner);
        }
        if destination == self.rank && self.give_to_oneself(key, data)? {
            self.notify(destination);
            return Ok(Sent::Done);
        }
        self.want_fastbox(destination);
        // Fallible work comes first: once a packet has left, there must be a place for the rest.
        self.requests.reserve()?;
        let announced = self.pre_send(mode, destination, key, data)?;
        let stage = announced.unwrap_or(mode.first_stage());
        if !matches!(stage, SendStage::Announce { .. }) {
            self.peers[destination as usize].eager.set(key);
        }
        let mut message = OutgoingMessage { key, total: data.remaining(), sent: 0, data, stage };
        let offered = match stage {
            SendStage::Eager => self.must_offer(destination, message.total),
            SendStage::Synchronous => !self.goes_synchronously(destination, message.total),
            stage => matches!(stage, SendStage::Method { .. }),
        };
        if offered
            || !self.peers[destination as usize].waiting.is_empty()
            || self.push(destination, None, &mut message)? == Pushed::Blocked
        {
            let id = self.wait_for_cells(destination, message, owner)?;
            if offered {
                // The receiver must know of the message now. Progress meets corruption again, and
                // reports it.
                let _ = self.push_waiting(destination);
            }
            return Ok(Sent::Pending(RequestId(id)));
        }
        if let SendStage::Unmatched { .. } = message.stage {
            return self.await_answer(destination, message, owner);
        }
        let SendStage::Announce { sender } = stage else { return Ok(Sent::Done) };
        let id = self.requests.insert(owner, RequestState::Announced { sender })?;
        self.answer_for(sender, id);
        Ok(Sent::Pending(RequestId(id)))
    }

    /// Ends the claim of a pending send on its buffer: the engine copies the rest and sends it from
    /// the copy. The id ends here.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: the send goes on as before, and the claim stays.
    pub(super) fn detach_send(&mut self, id: u32) -> Result<(), StillClaimed> {
        let Some(RequestState::Sending { mut message, detached: None, .. }) = self.requests.get(id)
        else {
            return Ok(());
        };
        if let SendStage::Announce { sender } = message.stage {
            return self.detach_sender(sender);
        }
        if let SendStage::Method { transfer } = message.stage {
            message.stage = self.leave_method_early(transfer)?;
        }
        if let SendStage::Exposed { announced } = message.stage {
            return Err(self.retract(announced));
        }
        if let SendStage::Writing { writing } = message.stage {
            let peer = self.network.destination_of_writing(writing).unwrap_or(self.rank);
            return Err(StillClaimed::Moving { peer });
        }
        if let SendStage::Unmatched { destination, .. } = message.stage {
            self.give_answer_up(destination, id);
            return Ok(());
        }
        if let Some(peer) = self.holder_of_send(id) {
            return Err(StillClaimed::Moving { peer });
        }
        let copy = self.buffers.take(message.left())?;
        // SAFETY: the buffer is still claimed (contract of `isend`). The copy has room for the rest
        // of the message and lives until the request ends.
        unsafe {
            message.data.gather(copy.base, message.left());
            let part = crate::buffer::Part { base: copy.base, length: message.left() };
            message.data = Cursor::contiguous(part);
        }
        if let Some(RequestState::Sending { message: kept, detached, .. }) =
            self.requests.get_mut(id)
        {
            *kept = message;
            *detached = Some(copy);
        }
        Ok(())
    }

    /// Continues the sends that wait for cells, each peer's in order, and those that were pulled.
    pub(super) fn push_blocked(&mut self) -> Result<bool, Corrupt> {
        let mut moved = false;
        let mut place = 0;
        while let Some(destination) = self.outbox.blocked_at(place) {
            moved |= self.take_call(destination);
            moved |= self.take_answers(destination);
            moved |= self.push_waiting(destination)?;
            // A list that became empty has given its place to another.
            place += usize::from(self.outbox.blocked_at(place) == Some(destination));
        }
        Ok(moved)
    }

    fn push_waiting(&mut self, destination: u32) -> Result<bool, Corrupt> {
        let mut moved = false;
        while let Some(first) = self.peers[destination as usize].waiting.first() {
            let Some(mut message) = self.requests.outgoing(first) else { break };
            let before = message.sent;
            let pushed = self.push(destination, Some(first), &mut message)?;
            moved |= pushed != Pushed::Blocked || message.sent != before;
            if let Some(kept) = self.requests.outgoing_mut(first) {
                *kept = message;
            }
            let (tag, bytes) = (message.key.tag(), message.total);
            match pushed {
                Pushed::Blocked => {
                    // The attempt opened the short paths.
                    self.peers[destination as usize].paths.shut();
                    break;
                }
                Pushed::Offered => drop(self.leave_line(destination)),
                Pushed::Unmatched => self.move_to_unmatched(destination),
                Pushed::Whole => {
                    let status = Status { source: destination, tag, bytes };
                    self.finish_first_waiting(destination, Ok(status));
                }
            }
        }
        Ok(moved)
    }

    /// Ends the oldest send that waits for `destination`.
    pub(super) fn finish_first_waiting(&mut self, destination: u32, outcome: Outcome) {
        let Some(first) = self.leave_line(destination) else { return };
        let Some(message) = self.requests.outgoing(first) else { return };
        match message.stage {
            SendStage::Announce { sender } => self.finish_announcing(first, sender, outcome),
            SendStage::Method { transfer } => {
                self.leave_method(transfer);
                self.end_send(first, outcome);
            }
            _ => self.end_send(first, outcome),
        }
    }

    /// Removes the oldest send from the list of those that wait for cells.
    pub(super) fn leave_line(&mut self, destination: u32) -> Option<u32> {
        let peer = &mut self.peers[destination as usize];
        self.outbox.leave_line(&mut self.requests, (destination, peer))
    }

    /// Ends a send that is in no list.
    pub(super) fn end_send(&mut self, id: u32, outcome: Outcome) {
        match self.requests.get(id) {
            Some(RequestState::Sending { detached: Some(owned), .. }) => {
                self.requests.remove(id);
                self.buffers.put_back(owned);
            }
            _ => self.requests.finish(id, outcome),
        }
    }

    /// Ends the announcement of the request `id`: its RTS has left, or never will.
    fn finish_announcing(&mut self, id: u32, sender: u32, outcome: Outcome) {
        if self.transfers.sender(sender).is_none_or(|outbound| outbound.request.is_none()) {
            self.requests.remove(id);
        } else {
            self.requests.set(id, RequestState::Announced { sender });
        }
        if outcome.is_err() {
            self.finish_sender(sender, outcome);
        }
    }

    /// Sets the request that waits for the end of an announced message.
    fn answer_for(&mut self, sender: u32, id: u32) {
        if let Some(outbound) = self.transfers.sender_mut(sender) {
            outbound.request = Some(id);
        }
    }

    /// Returns memory for `length` bytes of a message, or `None` for an empty one.
    pub(super) fn own(&self, length: usize) -> Result<Option<OwnedBuffer>, OutOfMemory> {
        if length == 0 { Ok(None) } else { self.buffers.take(length).map(Some) }
    }

    fn wait_for_cells(
        &mut self,
        destination: u32,
        message: OutgoingMessage,
        owner: Owner,
    ) -> Result<u32, OutOfMemory> {
        let request = RequestState::Sending { message, next: None, detached: None };
        let id = self.requests.insert(owner, request)?;
        if let SendStage::Announce { sender } = message.stage {
            self.answer_for(sender, id);
        }
        self.count(destination, Count::Blocked, 1);
        self.note(EventKind::SendBlocked, destination, message.key, message.total as u64);
        self.line_up(destination, id);
        Ok(id)
    }

    /// Adds a send at the end of the list of those that wait for cells.
    pub(super) fn line_up(&mut self, destination: u32, id: u32) {
        let peer = &mut self.peers[destination as usize];
        self.outbox.line_up(&mut self.requests, (destination, peer), id);
    }

    /// Hands over as much of a message as there is room for. Its destination is not gone, and no
    /// other send waits before it. Without the `id` of a request the message is not offered.
    fn push(
        &mut self,
        destination: u32,
        id: Option<u32>,
        message: &mut OutgoingMessage,
    ) -> Result<Pushed, Corrupt> {
        match (message.stage, id) {
            (SendStage::Announce { sender }, _) => {
                return self.push_rts(destination, message.key, sender);
            }
            (SendStage::Eager, Some(id))
                if message.sent == 0 && self.must_offer(destination, message.total) =>
            {
                return self.push_offer(destination, id, message);
            }
            (SendStage::Synchronous, Some(id))
                if message.sent == 0 && !self.goes_synchronously(destination, message.total) =>
            {
                return self.push_offer(destination, id, message);
            }
            (SendStage::Method { transfer }, Some(id)) => {
                return self.push_method_rts(destination, id, transfer, message);
            }
            _ => {}
        }
        if matches!(message.stage, SendStage::Eager | SendStage::Synchronous)
            && self.goes_in_parcels(destination, message.total)
        {
            while message.left() > 0 {
                if !self.push_parcel(destination, message)? {
                    return Ok(Pushed::Blocked);
                }
            }
            return Ok(self.handed_over(destination, message));
        }
        if message.sent == 0 && self.push_through_fastbox(destination, message)? {
            return Ok(self.handed_over(destination, message));
        }
        let room = self.segment.plan().config().cell_payload as usize;
        loop {
            if message.total > room && !self.outbox.has_fair_share(&self.segment, destination)? {
                return Ok(Pushed::Blocked);
            }
            let length = message.left().min(room);
            let kind = match (message.sent, length == message.total) {
                (0, true) => message.stage.kind_of_whole(),
                (0, false) if message.stage != SendStage::Eager => message.stage.kind_of_whole(),
                (0, false) => PacketKind::EagerFirst,
                _ => PacketKind::EagerMore,
            };
            let (key, total) = (message.key, message.total as u64);
            let stores = self.peers[destination as usize].fill_stores.of_cell(length);
            let data = &mut message.data;
            // SAFETY: `put_cell` gives the payload of a cell, which has room for `length` bytes. No
            // user buffer overlaps it.
            let fill = |to| unsafe { data.gather_by(stores, to, length) };
            if !self.put_cell(destination, CellPart { kind, key, total, length }, fill)? {
                return Ok(Pushed::Blocked);
            }
            self.peers[destination as usize].fill_stores.count(length);
            message.sent += length;
            if message.left() == 0 {
                return Ok(self.handed_over(destination, message));
            }
        }
    }

    /// Sends one packet through a cell; `fill` writes its payload. Returns false if there is no
    /// cell; `fill` was not called then.
    #[inline]
    pub(super) fn put_cell(
        &mut self,
        destination: u32,
        part: CellPart,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Result<bool, Corrupt> {
        let Some(cell) = self.outbox.take_cell(&self.segment, destination)? else {
            return Ok(false);
        };
        reached(Step::CellTaken);
        let peer = &mut self.peers[destination as usize];
        let head = CellHead {
            sequence: peer.paths.next_out().number(),
            key: part.key.0,
            total: part.total,
            source: self.rank,
            length: part.length as u32,
            kind: part.kind as u8,
            flags: if peer.paths.announce_fastbox() { CellHead::FASTBOX_OPEN } else { 0 },
            reserved: [0; 6],
        };
        let pointer = self.segment.cell(cell);
        // SAFETY: the cell belongs to this rank and is free until it is enqueued. Its payload is
        // behind its head.
        unsafe {
            fill(Cell::payload(pointer));
            Cell::write_head(pointer, head);
        }
        let queue = &self.segment.rank_block(destination).recv_queue;
        let hand = &self.segment.rank_block(self.rank).liveness.in_flight;
        if let Err(corrupt) = hand.enqueue(queue, &self.segment, destination, cell) {
            self.outbox.put_back(cell);
            return Err(corrupt);
        }
        reached(Step::CellSent);
        peer.paths.count_out();
        self.count(destination, Count::Cells, 1);
        self.note(EventKind::CellSent, destination, part.key, part.total);
        self.notify(destination);
        Ok(true)
    }

    fn push_through_fastbox(
        &mut self,
        destination: u32,
        message: &mut OutgoingMessage,
    ) -> Result<bool, Corrupt> {
        let peer = &mut self.peers[destination as usize];
        if !peer.paths.is_announced() || message.total > self.tuning.fastbox_max {
            return Ok(false);
        }
        // No older send waits.
        peer.open();
        let kind = message.stage.kind_of_whole();
        let OutgoingMessage { key, total, data, .. } = message;
        let whole = data.place_for(*total);
        let fill = |to: NonNull<u8>, offset, piece| match whole {
            // SAFETY: `send_lines` asks for pieces of the message, each at most one line's, and
            // gives room in the segment for each, which no user buffer overlaps.
            Some(from) => unsafe { copy_piece(from.as_ptr().add(offset), to.as_ptr(), piece) },
            // SAFETY: as above.
            None => unsafe { data.after(offset).gather(to, piece) },
        };
        let sent = peer.paths.send_lines(kind, *key, *total, fill)?;
        if sent {
            peer.paths.count_out();
            message.sent = message.total;
            self.notify(destination);
        }
        self.shut_if_told_to_keep(destination);
        Ok(sent)
    }
}
