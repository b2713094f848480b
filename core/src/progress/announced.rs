//! Large messages on their way out: from the announcement to the end.

use super::peer::Pushed;
use super::request::{Owned, Request};
use super::ring::{Outlet, Stream};
use super::{Cursor, Engine, Outcome, Part, ProgressError, SendMode, StillClaimed};
use crate::layout::{Corrupt, DESCRIPTORS_PER_RANK};
use crate::lmt::{Chosen, Home, Place, Sender, Span, Transfer, Ways};
use crate::memory::{Memory, OutOfMemory, Table};
use crate::sync::{Step, reached};
use crate::wire::{Key, Kind};

/// An announced message, and who waits for its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outbound {
    pub(super) half: Sender,
    /// `None` when the message goes on by itself.
    pub(super) request: Option<u32>,
    pub(super) tag: u32,
    /// Set once the RTS has left.
    announced: bool,
    course: Course,
    /// When the receive was there, or the transfer was chosen if that was later. `None`: not yet, or nobody has told the time since.
    met: Option<u64>,
    /// Bytes that have travelled since.
    measured: usize,
    /// The engine's own copy of what was left when the user took the buffer back.
    pub(super) owned: Option<Owned>,
}

/// How the transfer of a message was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Course {
    /// By whoever tunes, or there was no choice.
    Given,
    /// By [`Transfer::Auto`]: what it takes is measured.
    Chosen(Chosen),
    /// It is yet to be chosen: the message uses an RTR of a receiver that computed. Until that waits inside the library
    /// the sender alone moves.
    Open,
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

    pub(super) fn take(&mut self) -> Option<(u32, u32)> {
        self.free_count = self.free_count.checked_sub(1)?;
        let place = self.free[self.free_count];
        let generation = &mut self.generations[place as usize];
        // Zeroed memory is generation 0: no use has that number.
        *generation = generation.wrapping_add(1).max(1);
        Some((place, *generation))
    }

    pub(super) const fn free(&self) -> usize {
        self.free_count
    }

    pub(super) fn in_use(&self) -> usize {
        self.free.len() - self.free_count
    }

    pub(super) fn put_back(&mut self, place: u32) {
        self.free[self.free_count] = place;
        self.free_count += 1;
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Prepares to announce a message, if that is how a message of this length travels to `destination`. `None`: it goes
    /// through cells, or in parcels, unless the receiver has asked for it. So does one that finds all descriptors taken: it may
    /// have to overtake their messages' receives. So does a message to this rank itself, which nobody else could receive
    /// meanwhile, and one to a peer to whom there is no copy ring: nothing else may be left for it when the kernel forbids the
    /// one copy. Parcels do not say that a receive has begun: a synchronous message goes in none.
    pub(super) fn pre_send(
        &mut self,
        mode: SendMode,
        destination: u32,
        key: Key,
        data: Cursor,
    ) -> Result<Option<u32>, OutOfMemory> {
        let total = data.remaining();
        let large = total > self.tuning.eager_max
            && Span::fits(total)
            && (mode == SendMode::Synchronous
                || self.asked_by.is_asked(destination, key)
                || !self.goes_in_parcels(destination, total));
        let peer = &mut self.peers[destination as usize];
        if !large || !matches!(peer.outlet, Outlet::Open(_)) || destination == self.rank {
            return Ok(None);
        }
        self.senders.reserve()?;
        // An RTR brings one of its own; but only who can do without may ask for it.
        let Some((place, generation)) = self.descriptors.take() else { return Ok(None) };
        let home = Home { owner: self.rank, place, generation };
        let (half, course) = match self.start(destination, key, data) {
            Ok(used) => {
                self.descriptors.put_back(place);
                used
            }
            Err(turn) => {
                let (ways, course) = self.choose(destination, data);
                let descriptor = home.of(&self.segment);
                (Sender::pre_send(destination, home, ways, turn, descriptor), course)
            }
        };
        let outbound = Outbound {
            half,
            request: None,
            tag: key.tag(),
            announced: false,
            course,
            met: None,
            measured: total,
            owned: None,
        };
        self.senders.insert(outbound).map(Some)
    }

    /// Chooses how a message travels.
    pub(super) fn choose(&mut self, destination: u32, data: Cursor) -> (Ways, Course) {
        let ways = self.ways(destination, data, self.tuning.transfer);
        if ways.transfer != Transfer::Auto {
            return (ways, Course::Given);
        }
        let choice = &mut self.peers[destination as usize].choice;
        let (transfer, course) = match ways.place {
            Place::Private(_) => {
                let (transfer, chosen) = choice.choose(data.remaining());
                (transfer, Course::Chosen(chosen))
            }
            // It is read where it is; should it be withdrawn, the rest goes through the ring. Or the receiver could not read
            // it, and the sender alone is slower than the ring.
            _ => (choice.ring(data.remaining()), Course::Given),
        };
        (Ways { transfer, ..ways }, course)
    }

    /// Chooses how the rest of a message travels whose receiver computed when it began, if the receiver waits now.
    fn choose_late(&mut self, number: u32) {
        let segment = self.segment;
        let Some(outbound) = self.senders.get_mut(number) else { return };
        let half = &mut outbound.half;
        let destination = half.peer();
        if !segment.rank_block(destination).liveness.is_inside() {
            return;
        }
        let rest = half.unclaimed(half.home().of(&segment));
        if rest < half.total() / 2 || half.goes_to_heap() {
            // A little tells nothing of how long a message takes.
            outbound.course = Course::Given;
            return;
        }
        let (transfer, chosen) = self.peers[destination as usize].choice.choose(half.total());
        half.go_on_by(transfer);
        outbound.course = Course::Chosen(chosen);
        (outbound.met, outbound.measured) = (Some(self.now), rest);
    }

    /// A message that travels by `transfer`.
    pub(super) fn ways(&self, destination: u32, data: Cursor, transfer: Transfer) -> Ways {
        let uses_heaps = self.tuning.transfer.uses_heaps();
        let place = match Place::of(&data, &self.segment, self.rank) {
            Place::Heap(_) if !uses_heaps => Place::Nowhere,
            place => place,
        };
        let may_write = self.peers[destination as usize].may_write;
        Ways { data, place, transfer, may_write, uses_heaps }
    }

    /// Sends the RTS of a message, or its RTR-ACK, if there is room for it.
    pub(super) fn push_rts(
        &mut self,
        destination: u32,
        key: Key,
        number: u32,
    ) -> Result<Pushed, Corrupt> {
        let Some(outbound) = self.senders.get(number) else { return Ok(Pushed::Whole) };
        if let Some(ack) = outbound.half.rtr_ack() {
            if !self.push_control(destination, Kind::RtrAck, key, &ack.pack())? {
                return Ok(Pushed::Blocked);
            }
            reached(Step::RtrAckSent);
        } else {
            let cookie = outbound.half.cookie().pack();
            if !self.push_control(destination, Kind::Rts, key, &cookie)? {
                return Ok(Pushed::Blocked);
            }
            reached(Step::RtsSent);
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
        if !outbound.announced && outbound.half.uses_rtr() {
            // The receiver knows nothing of it yet: its chunks may be moved, but it takes none from the ring.
            return Ok(false);
        }
        if matches!(outbound.course, Course::Open) {
            self.choose_late(number);
        }
        let Some(outbound) = self.senders.get_mut(number) else { return Ok(false) };
        let descriptor = outbound.half.home().of(&segment);
        let mut moved = outbound.half.start_send(&segment, descriptor)?;
        if moved || outbound.half.uses_rtr() {
            // A receive that had asked was there before, but the time was told last before something else, if ever.
            outbound.met.get_or_insert(self.now);
        }
        moved |= outbound.half.handle_cookie(descriptor)?;
        moved |= self.push_chunks(number)?;
        let Some(outbound) = self.senders.get(number) else { return Ok(moved) };
        if outbound.half.post_send(descriptor)? {
            let (source, bytes) = (outbound.half.peer(), outbound.half.total());
            self.finish_sender(number, Ok(super::Status { source, tag: outbound.tag, bytes }));
            moved = true;
        }
        Ok(moved)
    }

    /// Puts what goes through the copy ring there, as far as there is room; before its receive is there, one chunk more.
    fn push_chunks(&mut self, number: u32) -> Result<bool, Corrupt> {
        let segment = self.segment;
        let mut moved = false;
        loop {
            let Some(outbound) = self.senders.get_mut(number) else { return Ok(moved) };
            let half = &mut outbound.half;
            let destination = half.peer();
            let peer = &mut self.peers[destination as usize];
            let Outlet::Open(ring) = &mut peer.outlet else { return Ok(moved) };
            let total = half.total();
            let transfer = match half.transfer() {
                transfer @ (Transfer::CopyRing | Transfer::CopyRingStreamed) => transfer,
                _ => peer.choice.ring(total),
            };
            let stream = Stream { home: half.home(), total, stores: transfer.stores() };
            let descriptor = half.home().of(&segment);
            let Some(piece) = half.piece(descriptor)? else {
                return Ok(moved | ring.prepare(stream, |offset| half.ahead(offset))?);
            };
            let Some(length) = ring.put(stream, &piece)? else { return Ok(moved) };
            half.piece_left(length);
            self.notify(destination);
            moved = true;
        }
    }

    /// Ends an announced message, and gives its descriptor back.
    pub(super) fn finish_sender(&mut self, number: u32, outcome: Outcome) {
        let Some(outbound) = self.senders.remove(number) else { return };
        let Home { owner, place, .. } = outbound.half.home();
        if owner == self.rank {
            self.descriptors.put_back(place);
        }
        if let Course::Chosen(chosen) = outbound.course {
            let measured = outcome.is_ok() && !outbound.half.goes_to_heap();
            let bytes = if measured { outbound.measured } else { 0 };
            let choice = &mut self.peers[outbound.half.peer() as usize].choice;
            choice.ended(chosen, bytes, outbound.met.unwrap_or(self.now), self.now);
        }
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
        let descriptor = outbound.half.home().of(&segment);
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
