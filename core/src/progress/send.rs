//! Sending: through the fastbox when it has room, in parcels when they are here, through cells otherwise, later when there
//! is no cell.

use core::ptr::NonNull;

use super::network::Writing;
use super::peer::{Outbox, Peer, Pushed};
use super::request::{Entry, Outgoing, Owned, Request, Stage};
use super::{
    Cursor, Engine, Outcome, Owner, RequestId, SendMode, StartError, Status, StillClaimed,
};
use crate::layout::Corrupt;
use crate::matching::TAG_MAX;
use crate::memory::{Memory, OutOfMemory};
use crate::shm::{Cell, CellHead};
use crate::sync::{Step, reached};
use crate::wire::{Key, Kind};

/// What became of a send that began.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// The buffer may be reused: the message is in shared memory.
    Done,
    /// Part of the buffer is still needed; [`Engine::test`] tells when it is not.
    Pending(RequestId),
}

/// What one cell carries, but for the payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellPart {
    pub(super) kind: Kind,
    pub(super) key: Key,
    /// [`CellHead::total`].
    pub(super) total: u64,
    /// Bytes of payload, at most a cell's.
    pub(super) length: usize,
}

impl<M: Memory + Clone> Engine<M> {
    /// Sends the message that `data` holds, as far as there is room for it now.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing was sent.
    ///
    /// # Safety
    ///
    /// What `data` points to stays valid and unchanged until the send is over: until this returns [`Sent::Done`] or an
    /// error, until [`Engine::test`] gives an outcome, or until [`Engine::detach`] returns `Ok`.
    pub unsafe fn isend(
        &mut self,
        destination: u32,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        // SAFETY: by the contract.
        unsafe { self.isend_by(SendMode::Standard, destination, key, data, owner) }
    }

    /// As [`Engine::isend`], over when `mode` says.
    ///
    /// # Errors
    ///
    /// As [`Engine::isend`].
    ///
    /// # Safety
    ///
    /// As for [`Engine::isend`].
    pub unsafe fn isend_by(
        &mut self,
        mode: SendMode,
        destination: u32,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        let ranks = self.segment.ranks();
        let Some(peer) = self.peers.get_mut(destination as usize) else {
            return Err(StartError::Rank { rank: destination, ranks });
        };
        if key.tag() > TAG_MAX {
            return Err(StartError::Tag { tag: key.tag() });
        }
        if let Some(gone) = peer.gone {
            return Err(StartError::Peer(gone.fault(destination)));
        }
        if peer.stream.is_some() {
            return self.isend_remote(mode, destination, key, data, owner);
        }
        self.want_fastbox(destination);
        // Fallible work first: once a packet has left, there must be a place for the rest.
        self.requests.reserve()?;
        let announced = self.pre_send(mode, destination, key, data)?;
        let stage = announced.map_or(mode.first_stage(), |sender| Stage::Announce { sender });
        if announced.is_none() {
            self.peers[destination as usize].eager.set(key);
        }
        let mut message = Outgoing { key, total: data.remaining(), sent: 0, data, stage };
        let offered = match stage {
            Stage::Eager => self.must_offer(destination, message.total),
            stage => stage == Stage::Synchronous,
        };
        if offered
            || self.peers[destination as usize].waiting.ends.is_some()
            || self.push(destination, None, &mut message)? == Pushed::Blocked
        {
            let id = self.wait_for_cells(destination, message, owner)?;
            if offered {
                // The receiver is to know of it now. Corruption is met again, and reported, by progress.
                let _ = self.push_waiting(destination);
            }
            return Ok(Sent::Pending(RequestId(id)));
        }
        let Some(sender) = announced else { return Ok(Sent::Done) };
        let id = self.requests.insert(Entry { owner, request: Request::Announced { sender } })?;
        self.answer_for(sender, id);
        Ok(Sent::Pending(RequestId(id)))
    }

    /// Ends the claim of a pending send on its buffer: the engine copies what is left and sends it from there. The id
    /// ends here.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: the send goes on as before, and so does the claim.
    pub(super) fn detach_send(&mut self, id: u32) -> Result<(), StillClaimed> {
        let Some(Request::Sending { mut message, detached: None, .. }) = self.request(id) else {
            return Ok(());
        };
        if let Stage::Announce { sender } = message.stage {
            return self.detach_sender(sender);
        }
        if let Stage::Exposed { announced } = message.stage {
            return Err(self.retract(announced));
        }
        if let Stage::Writing { writing } = message.stage {
            let peer = self.writings.get(writing).map_or(self.rank, Writing::destination);
            return Err(StillClaimed::Moving { peer });
        }
        if let Some(peer) = self.holder_of_send(id) {
            return Err(StillClaimed::Moving { peer });
        }
        let length = message.left().max(1);
        let base =
            self.memory.allocate(Owned::layout(length)?).ok_or(OutOfMemory { bytes: length })?;
        // SAFETY: the buffer is still claimed (contract of `isend`); the copy has room for all that is left of it, and
        // lives until the request ends.
        unsafe {
            message.data.gather(base, message.left());
            message.data = Cursor::contiguous(super::Part { base, length: message.left() });
        }
        if let Some(Request::Sending { message: kept, detached, .. }) = self.request_mut(id) {
            *kept = message;
            *detached = Some(Owned { base, length });
        }
        Ok(())
    }

    /// Goes on with the sends that wait for cells, each peer's in order, and with those that were called for.
    pub(super) fn push_blocked(&mut self) -> Result<bool, Corrupt> {
        let mut moved = false;
        let mut place = 0;
        while place < self.blocked.len() {
            let destination = self.blocked.get(place);
            moved |= self.take_call(destination);
            moved |= self.push_waiting(destination)?;
            // A list that ran empty has left its place to another.
            if place < self.blocked.len() && self.blocked.get(place) == destination {
                place += 1;
            }
        }
        Ok(moved)
    }

    fn push_waiting(&mut self, destination: u32) -> Result<bool, Corrupt> {
        let mut moved = false;
        while let Some((first, _)) = self.peers[destination as usize].waiting.ends {
            let Some(Request::Sending { message, .. }) = self.request(first) else { break };
            let (mut message, before) = (message, message.sent);
            let pushed = self.push(destination, Some(first), &mut message)?;
            moved |= pushed != Pushed::Blocked || message.sent != before;
            if let Some(Request::Sending { message: kept, .. }) = self.request_mut(first) {
                *kept = message;
            }
            let (tag, bytes) = (message.key.tag(), message.total);
            match pushed {
                Pushed::Blocked => {
                    // The attempt opened them.
                    self.peers[destination as usize].shut();
                    break;
                }
                Pushed::Offered => drop(self.leave_line(destination)),
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
        let Some(Request::Sending { message, .. }) = self.request(first) else { return };
        match message.stage {
            Stage::Announce { sender } => self.finish_announcing(first, sender, outcome),
            _ => self.end_send(first, outcome),
        }
    }

    /// Takes the oldest send out of the list of those that wait for cells.
    pub(super) fn leave_line(&mut self, destination: u32) -> Option<u32> {
        let (first, last) = self.peers[destination as usize].waiting.ends?;
        let Some(Request::Sending { next, .. }) = self.request(first) else { return None };
        let peer = &mut self.peers[destination as usize];
        peer.waiting.ends = next.map(|next| (next, last));
        if next.is_none() && peer.offers == 0 {
            self.blocked.remove(destination);
        }
        Some(first)
    }

    /// Ends a send that is in no list.
    pub(super) fn end_send(&mut self, id: u32, outcome: Outcome) {
        match self.request(id) {
            Some(Request::Sending { detached: Some(owned), .. }) => {
                self.requests.remove(id);
                self.release(owned);
            }
            _ => {
                if let Some(request) = self.request_mut(id) {
                    *request = Request::Done(outcome);
                }
            }
        }
    }

    /// The request `id` has announced its message, or never will.
    fn finish_announcing(&mut self, id: u32, sender: u32, outcome: Outcome) {
        if self.senders.get(sender).is_none_or(|outbound| outbound.request.is_none()) {
            self.requests.remove(id);
        } else if let Some(request) = self.request_mut(id) {
            *request = Request::Announced { sender };
        }
        if outcome.is_err() {
            self.finish_sender(sender, outcome);
        }
    }

    /// Says which request waits for the end of an announced message.
    fn answer_for(&mut self, sender: u32, id: u32) {
        if let Some(outbound) = self.senders.get_mut(sender) {
            outbound.request = Some(id);
        }
    }

    pub(super) fn release(&self, owned: Owned) {
        if let Ok(layout) = Owned::layout(owned.length) {
            // SAFETY: it was allocated with this very layout, and its only user is done with it.
            unsafe { self.memory.release(owned.base, layout) };
        }
    }

    fn wait_for_cells(
        &mut self,
        destination: u32,
        message: Outgoing,
        owner: Owner,
    ) -> Result<u32, OutOfMemory> {
        let request = Request::Sending { message, next: None, detached: None };
        let id = self.requests.insert(Entry { owner, request })?;
        if let Stage::Announce { sender } = message.stage {
            self.answer_for(sender, id);
        }
        self.line_up(destination, id);
        Ok(id)
    }

    /// Puts a send behind those that wait for cells.
    pub(super) fn line_up(&mut self, destination: u32, id: u32) {
        let peer = &mut self.peers[destination as usize];
        // Later messages must not overtake this one through the fastbox.
        peer.shut();
        let ends = peer.waiting.ends;
        peer.waiting.ends = Some(ends.map_or((id, id), |(first, _)| (first, id)));
        if let Some((_, last)) = ends
            && let Some(Request::Sending { next, .. }) = self.request_mut(last)
        {
            *next = Some(id);
        }
        if let Some(Request::Sending { next, .. }) = self.request_mut(id) {
            *next = None;
        }
        if self.peers[destination as usize].stream.is_none() {
            self.blocked.insert(destination);
        }
    }

    /// Hands over as much of a message as there is room for. Its destination is not gone and no other send waits
    /// before it. Without the `id` of a request it is not to be offered.
    fn push(
        &mut self,
        destination: u32,
        id: Option<u32>,
        message: &mut Outgoing,
    ) -> Result<Pushed, Corrupt> {
        match (message.stage, id) {
            (Stage::Announce { sender }, _) => {
                return self.push_rts(destination, message.key, sender);
            }
            (Stage::Eager, Some(id))
                if message.sent == 0 && self.must_offer(destination, message.total) =>
            {
                return self.push_offer(destination, id, message);
            }
            (Stage::Synchronous, Some(id)) => return self.push_offer(destination, id, message),
            _ => {}
        }
        if message.stage == Stage::Eager && self.goes_in_parcels(destination, message.total) {
            while message.left() > 0 {
                if !self.push_parcel(destination, message)? {
                    return Ok(Pushed::Blocked);
                }
            }
            return Ok(Pushed::Whole);
        }
        if message.sent == 0 && self.push_through_fastbox(destination, message)? {
            return Ok(Pushed::Whole);
        }
        let room = self.segment.plan().config().cell_payload as usize;
        loop {
            if message.total > room && !self.has_fair_share(destination)? {
                return Ok(Pushed::Blocked);
            }
            let length = message.left().min(room);
            let kind = match (message.sent, length == message.total) {
                (0, _) if message.stage == Stage::Called => Kind::Called,
                (0, true) => Kind::Eager,
                (0, false) => Kind::EagerFirst,
                _ => Kind::EagerMore,
            };
            let (key, total) = (message.key, message.total as u64);
            let data = &mut message.data;
            // SAFETY: `put_cell` gives the payload of a cell, which has room for `length` bytes and lies where no user
            // buffer does.
            let fill = |to| unsafe { data.gather(to, length) };
            if !self.put_cell(destination, CellPart { kind, key, total, length }, fill)? {
                return Ok(Pushed::Blocked);
            }
            message.sent += length;
            if message.left() == 0 {
                return Ok(Pushed::Whole);
            }
        }
    }

    /// True when a message of many packets may have one more cell with `destination`: it leaves cells for others, for a
    /// receiver that does not look must not starve the rest.
    pub(super) fn has_fair_share(&mut self, destination: u32) -> Result<bool, Corrupt> {
        let fair = (self.segment.plan().config().cells_per_rank as usize / 4).max(2);
        self.cells.collect(&self.segment)?;
        Ok(self.cells.out_with(destination) < fair)
    }

    /// Sends one packet through a cell; `fill` writes its payload. False: there is no cell, and `fill` was not called.
    #[inline]
    pub(super) fn put_cell(
        &mut self,
        destination: u32,
        part: CellPart,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Result<bool, Corrupt> {
        let Some(cell) = self.cells.take(&self.segment, destination)? else { return Ok(false) };
        reached(Step::CellTaken);
        let peer = &mut self.peers[destination as usize];
        let head = CellHead {
            sequence: peer.next_out.number(),
            key: part.key.0,
            total: part.total,
            source: self.rank,
            length: part.length as u32,
            kind: part.kind as u8,
            flags: announce(peer),
            reserved: [0; 6],
        };
        let pointer = self.segment.cell(cell);
        // SAFETY: the cell is ours and free until enqueued; its payload is behind its head.
        unsafe {
            fill(Cell::payload(pointer));
            Cell::write_head(pointer, head);
        }
        let queue = &self.segment.rank_block(destination).recv_queue;
        let hand = &self.segment.rank_block(self.rank).liveness.hand;
        if let Err(corrupt) = hand.enqueue(queue, &self.segment, destination, cell) {
            self.cells.put_back(cell);
            return Err(corrupt);
        }
        reached(Step::CellSent);
        peer.next_out += 1;
        self.notify(destination);
        Ok(true)
    }

    fn push_through_fastbox(
        &mut self,
        destination: u32,
        message: &mut Outgoing,
    ) -> Result<bool, Corrupt> {
        let peer = &mut self.peers[destination as usize];
        if peer.outbox != Outbox::Open || message.total > self.tuning.fastbox_max {
            return Ok(false);
        }
        // No older send waits.
        peer.open();
        let kind = if message.stage == Stage::Called { Kind::Called } else { Kind::Eager };
        let Outgoing { key, total, data, .. } = message;
        let fill = |to, offset, piece| {
            // SAFETY: `send_lines` gives `piece` writable bytes in the segment, where no user buffer lies.
            unsafe { data.after(offset).gather(to, piece) };
        };
        let sent = peer.send_lines(kind, *key, *total, fill)?;
        if sent {
            peer.next_out += 1;
            message.sent = message.total;
            self.notify(destination);
        }
        self.shut_if_told_to_keep(destination);
        Ok(sent)
    }
}

/// The flags of the next cell to `peer`, which say once that its fastbox is in use from then on.
fn announce(peer: &mut Peer) -> u8 {
    if peer.outbox == Outbox::Backed {
        peer.outbox = Outbox::Open;
        // The fastbox opens with the next send that reads its credit, and the baton with it.
        return CellHead::FASTBOX_OPEN;
    }
    0
}
