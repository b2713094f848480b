//! Large messages on their way out: from the announcement to the end.

use core::ptr::NonNull;

use super::peer::Pushed;
use super::request::{Owned, Request};
use super::send::CellPart;
use super::{Cursor, Engine, Outcome, Part, ProgressError, StillClaimed};
use crate::layout::{Corrupt, DESCRIPTORS_PER_RANK};
use crate::lmt::{SendCookie, Sender, Span, Transfer};
use crate::memory::{Memory, OutOfMemory, Table};
use crate::wire::{Key, Kind, TransferKey};

/// An announced message, and who waits for its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outbound {
    pub(super) half: Sender,
    /// `None` when the message goes on by itself.
    pub(super) request: Option<u32>,
    tag: u32,
    /// Set once the RTS has left.
    announced: bool,
    /// The engine's own copy of what was left when the user took the buffer back.
    pub(super) owned: Option<Owned>,
}

/// The descriptors of this rank: which are free, and how often each was used.
#[derive(Debug)]
pub(super) struct Descriptors<M: Memory> {
    generations: Table<u32, M>,
    free: Table<u32, M>,
    free_count: usize,
}

impl<M: Memory + Clone> Descriptors<M> {
    pub(super) fn new(memory: M) -> Result<Self, OutOfMemory> {
        let count = DESCRIPTORS_PER_RANK as usize;
        Ok(Self {
            generations: Table::new(memory.clone(), count, |_| 0)?,
            // The lowest on top: a rank that sends little touches little.
            free: Table::new(memory, count, |place| (count - 1 - place) as u32)?,
            free_count: count,
        })
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        self.free_count = self.free_count.checked_sub(1)?;
        let place = self.free[self.free_count];
        let generation = &mut self.generations[place as usize];
        // Zeroed memory is generation 0: no use has that number.
        *generation = generation.wrapping_add(1).max(1);
        Some((place, *generation))
    }

    fn put_back(&mut self, place: u32) {
        self.free[self.free_count] = place;
        self.free_count += 1;
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Prepares to announce a message, if that is how a message of this length travels to `destination`. `None`: it goes
    /// through cells. So does one that finds all descriptors taken: it may have to overtake their messages' receives.
    /// And so does a message to this rank itself, which nobody else could receive meanwhile.
    pub(super) fn pre_send(
        &mut self,
        destination: u32,
        key: Key,
        data: Cursor,
    ) -> Result<Option<u32>, OutOfMemory> {
        let total = data.remaining();
        let large = total > self.tuning.eager_max && Span::fits(total);
        if !large || self.tuning.transfer == Transfer::Cells || destination == self.rank {
            return Ok(None);
        }
        self.senders.reserve()?;
        let Some((place, generation)) = self.descriptors.take() else { return Ok(None) };
        let may_write = self.tuning.transfer == Transfer::CmaShared
            && self.peers[destination as usize].may_write;
        let descriptor = self.segment.descriptor(self.rank, place);
        let half = Sender::pre_send(destination, place, generation, data, may_write, descriptor);
        let outbound =
            Outbound { half, request: None, tag: key.tag(), announced: false, owned: None };
        self.senders.insert(outbound).map(Some)
    }

    /// Sends the RTS of a message, if there is room for it.
    pub(super) fn push_rts(
        &mut self,
        destination: u32,
        key: Key,
        number: u32,
    ) -> Result<Pushed, Corrupt> {
        let Some(outbound) = self.senders.get(number) else { return Ok(Pushed::Whole) };
        let mut cookie = [0; SendCookie::LENGTH];
        // SAFETY: the array has the length of a cookie.
        unsafe { outbound.half.cookie().write(NonNull::from(&mut cookie).cast()) };
        if !self.push_control(destination, Kind::Rts, key, &cookie)? {
            return Ok(Pushed::Blocked);
        }
        if let Some(outbound) = self.senders.get_mut(number) {
            outbound.announced = true;
        }
        Ok(Pushed::Whole)
    }

    /// Goes on with the announced message `number`.
    pub(super) fn advance_sender(&mut self, number: u32) -> Result<bool, ProgressError> {
        let segment = self.segment;
        let Some(outbound) = self.senders.get_mut(number) else { return Ok(false) };
        let descriptor = segment.descriptor(self.rank, outbound.half.place());
        let mut moved = outbound.half.start_send(descriptor)?;
        moved |= outbound.half.handle_cookie(descriptor)?;
        moved |= self.push_packets(number)?;
        let Some(outbound) = self.senders.get(number) else { return Ok(moved) };
        if outbound.half.post_send(descriptor)? {
            let (source, bytes) = (outbound.half.peer(), outbound.half.total());
            self.finish_sender(number, Ok(super::Status { source, tag: outbound.tag, bytes }));
            moved = true;
        }
        Ok(moved)
    }

    /// Sends what neither side could move in one copy, as far as there are cells.
    fn push_packets(&mut self, number: u32) -> Result<bool, Corrupt> {
        let segment = self.segment;
        let room = segment.plan().config().cell_payload as usize;
        let mut moved = false;
        loop {
            let Some(outbound) = self.senders.get_mut(number) else { return Ok(moved) };
            let descriptor = segment.descriptor(self.rank, outbound.half.place());
            let destination = outbound.half.peer();
            let Some(piece) = outbound.half.packet(descriptor)? else { return Ok(moved) };
            if !self.has_fair_share(destination)? {
                return Ok(moved);
            }
            let length = piece.length.min(room);
            let key = TransferKey { handle: piece.handle, generation: piece.generation };
            let (total, mut data) = (piece.offset as u64, piece.data);
            let part = CellPart { kind: Kind::Data, key: key.pack(), total, length };
            // SAFETY: `put_cell` gives the payload of a cell, which has room for `length` bytes and lies where no user
            // buffer does; the data are claimed by this transfer.
            let fill = |to| unsafe { data.gather(to, length) };
            if !self.put_cell(destination, part, fill)? {
                return Ok(moved);
            }
            if let Some(outbound) = self.senders.get_mut(number) {
                outbound.half.packet_left(length);
            }
            moved = true;
        }
    }

    /// Ends an announced message, and gives its descriptor back.
    pub(super) fn finish_sender(&mut self, number: u32, outcome: Outcome) {
        let Some(outbound) = self.senders.remove(number) else { return };
        self.descriptors.put_back(outbound.half.place());
        if let Some(request) = outbound.request.and_then(|id| self.request_mut(id)) {
            *request = Request::Done(outcome);
        }
        if let Some(owned) = outbound.owned {
            self.release(owned);
        }
    }

    /// Ends the claim of an announced message on its buffer: it goes on from a copy. True when the claim had ended before.
    pub(super) fn detach_sender(&mut self, number: u32) -> Result<(), StillClaimed> {
        let segment = self.segment;
        let Some(outbound) = self.senders.get_mut(number) else { return Ok(()) };
        if outbound.request.is_none() {
            return Ok(());
        }
        let peer = outbound.half.peer();
        let descriptor = segment.descriptor(self.rank, outbound.half.place());
        // A count that cannot be is met again, and reported, by progress.
        if !outbound.half.withdraw(descriptor).unwrap_or(false) {
            return Err(StillClaimed::Moving { peer });
        }
        let (from, length) = outbound.half.rest(descriptor);
        let size = length.max(1);
        let base = self.memory.allocate(Owned::layout(size)?).ok_or(OutOfMemory { bytes: size })?;
        // SAFETY: the buffer is still claimed (contract of `isend`); the copy has room for all that is left of it, and
        // lives until the transfer ends.
        unsafe {
            outbound.half.data(from).gather(base, length);
            outbound.half.move_to(Cursor::contiguous(Part { base, length }), from);
        }
        outbound.owned = Some(Owned { base, length: size });
        outbound.request = None;
        Ok(())
    }

    /// Fails what was announced to a rank that is gone. What waits to be announced fails with its request.
    pub(super) fn fail_senders_to(&mut self, rank: u32, outcome: Outcome) {
        let mut from = 0;
        while let Some((number, outbound)) = self.senders.next_from(from) {
            from = number + 1;
            if outbound.half.peer() == rank && outbound.announced {
                self.finish_sender(number, outcome);
            }
        }
    }
}
