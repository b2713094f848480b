//! The sender's half of a large message.

use super::{
    CopyJob, CopyTicket, GRACE, Home, JOB_LEAST, JOB_MOST, JOB_MOST_ALONE, RING_BEGINNING,
    RING_CLAIM, ReadTime, RemoteBuffer, Rtr, RtrAck, SendCookie, Span, Transfer, WireAddress,
};
use crate::buffer::{Cursor, Direction};
use crate::layout::Segment;
use crate::shm::{ChunkRequest, Descriptor, Grains, ReceiveCookie};
use crate::wire::{Corrupt, Turn};

/// A large message, from its RTS, or the RTR that it uses, to its end.
#[derive(Clone, Copy, Debug)]
pub struct LmtSender {
    peer: u32,
    home: Home,
    uses_rtr: bool,
    /// [`Turn::word`] of its turn.
    turn: u32,
    total: usize,
    data: Cursor,
    /// Offset in the message of the first byte of `data`.
    base: usize,
    answer: Option<CheckedGrant>,
    transfer: Transfer,
    /// The message goes through the copy ring while both sides are inside the library. While one of
    /// them is not, the other moves what is unclaimed by one copy.
    adapts: bool,
    /// Progress calls in a row that found the receiver away.
    away: u8,
    /// Where the receiver may read the message.
    lies: WireAddress,
    /// True if writing to the peer's private memory is worth a try.
    may_write: bool,
    /// True if this side writes to the peer's heap.
    uses_heaps: bool,
    /// The receiver no longer reads: the remaining bytes are ours.
    alone: bool,
    withdrawn: bool,
    /// Grains that this side claimed for the copy ring.
    streamed: u32,
    /// Grains that this side claimed and moved by copies.
    copied: u32,
    /// Bytes that this side claimed and sends through the copy ring.
    ours: ByteRange,
    /// Bytes that the receiver claimed and left to this side, which sends them through the copy
    /// ring.
    left: ByteRange,
}

/// A message, and the transfers that it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) data: Cursor,
    /// Location of `data`.
    pub(crate) place: WireAddress,
    pub(crate) transfer: Transfer,
    /// True if a message through the copy ring may go on by one copy while a side is away.
    pub(crate) adapts: bool,
    /// True if writing to the peer's private memory is worth a try.
    pub(crate) may_write: bool,
    /// True if data in a heap are read and written in place.
    pub(crate) uses_heaps: bool,
}

impl Ways {
    /// Returns where the receiver may read the message.
    const fn lies(&self) -> WireAddress {
        match self.place {
            WireAddress::Private(_) if !self.transfer.reads() && !self.adapts => {
                WireAddress::Nowhere
            }
            place => place,
        }
    }
}

/// The receiver's answer, with its numbers checked.
#[derive(Clone, Copy, Debug)]
struct CheckedGrant {
    handle: u32,
    to: Option<RemoteBuffer>,
    span: Span,
}

/// A range of bytes in the message.
#[derive(Clone, Copy, Debug, Default)]
struct ByteRange {
    first: usize,
    end: usize,
}

impl ByteRange {
    const fn is_empty(self) -> bool {
        self.first >= self.end
    }
}

impl From<(usize, usize)> for ByteRange {
    fn from((first, end): (usize, usize)) -> Self {
        Self { first, end }
    }
}

/// A piece of a message for the copy ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingPiece {
    /// The receiver's name for the transfer.
    pub(crate) handle: u32,
    /// Offset in the message, in bytes.
    pub(crate) offset: usize,
    /// Number of bytes left to send from there; not zero.
    pub(crate) length: usize,
    /// Location of these bytes.
    pub(crate) data: Cursor,
}

impl LmtSender {
    /// Prepares to announce a message to `peer`. `home` is a descriptor of this rank; its last use
    /// had another generation and is complete. `turn` is the message's turn in the speculative
    /// rendezvous.
    pub(crate) fn pre_send(
        peer: u32,
        home: Home,
        ways: Ways,
        turn: Option<Turn>,
        descriptor: &Descriptor,
    ) -> Self {
        descriptor.grant.begin();
        descriptor.chunks.begin(home.generation);
        Self { turn: Turn::word(turn), ..Self::new(peer, home, ways) }
    }

    /// Sends a message to `peer` by an RTR that the caller has just used. The receive buffer can be
    /// written at `to`.
    pub(crate) fn by_rtr(peer: u32, rtr: &Rtr, to: Option<RemoteBuffer>, ways: Ways) -> Self {
        let half = Self::new(peer, rtr.home(peer), ways);
        // `Rtr::parse` checked that the capacity fits `usize`.
        let span = Span { length: half.total.min(rtr.capacity as usize) };
        let to = to.filter(|to| half.uses_heaps || matches!(to, RemoteBuffer::Private(_)));
        let alone = match half.lies {
            WireAddress::Nowhere => true,
            WireAddress::Private(_) => rtr.reads == 0,
            WireAddress::Heap(_) => false,
        };
        let answer = Some(CheckedGrant { handle: rtr.handle, to, span });
        Self { uses_rtr: true, turn: rtr.turn, answer, alone, ..half }
    }

    fn new(peer: u32, home: Home, ways: Ways) -> Self {
        let Ways { data, transfer, may_write, uses_heaps, .. } = ways;
        let in_heap = matches!(ways.place, WireAddress::Heap(_));
        let adapts = ways.adapts && transfer.is_ring() && !in_heap;
        Self {
            peer,
            home,
            uses_rtr: false,
            turn: 0,
            total: data.remaining(),
            data,
            base: 0,
            answer: None,
            transfer,
            adapts,
            away: 0,
            lies: ways.lies(),
            may_write: may_write && (transfer.writes() || adapts),
            uses_heaps,
            alone: false,
            withdrawn: false,
            streamed: 0,
            copied: 0,
            ours: ByteRange::default(),
            left: ByteRange::default(),
        }
    }

    /// Returns the contents of the RTS.
    pub(crate) fn cookie(&self) -> SendCookie {
        let (address, lies) = self.location();
        let private = if self.may_write { SendCookie::WRITES_PRIVATE } else { 0 };
        let heap = if self.uses_heaps { SendCookie::WRITES_HEAP } else { 0 };
        SendCookie {
            total: self.total as u64,
            address,
            place: self.home.place,
            generation: self.home.generation,
            writes: private | heap,
            lies,
            turn: self.turn,
            reserved: 0,
        }
    }

    /// Returns the contents of the RTR-ACK, or `None` for a message that is announced.
    pub(crate) fn rtr_ack(&self) -> Option<RtrAck> {
        let (address, lies) = self.location();
        let (turn, Home { place, generation, .. }) = (self.turn, self.home);
        let ack = RtrAck { total: self.total as u64, address, place, generation, lies, turn };
        self.uses_rtr.then_some(ack)
    }

    /// Returns the location of the message as the receiver is told it.
    fn location(&self) -> (u64, u32) {
        let (address, meaning) = self.lies.pack();
        let away = self.adapts && matches!(self.lies, WireAddress::Private(_));
        let time = if away { ReadTime::SenderAway } else { ReadTime::Always };
        (address, time.pack(meaning))
    }

    /// Polls for the receiver's answer. Returns true if it has just arrived.
    pub(crate) fn start_send(
        &mut self,
        segment: &Segment,
        descriptor: &Descriptor,
    ) -> Result<bool, Corrupt> {
        if self.answer.is_some() {
            return Ok(false);
        }
        let Some(cookie) = descriptor.grant.answer(self.home.generation) else { return Ok(false) };
        let ReceiveCookie { handle, address, lies, length, moves } = cookie;
        if length > self.total as u64 {
            return Err(Corrupt::Length { found: length, max: self.total as u64 });
        }
        let span = Span { length: length as usize };
        let to = WireAddress::parse(address, lies)?.reach(segment, self.peer, span.length)?;
        self.answer = Some(CheckedGrant { handle, to, span });
        self.alone |= !moves;
        Ok(true)
    }

    /// Takes over the grains that the receiver could not move. Returns true if the receiver has
    /// just asked for it.
    pub(crate) fn handle_cookie(&mut self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let Some(CheckedGrant { span, .. }) = self.answer.filter(|_| !self.alone) else {
            return Ok(false);
        };
        let Some(grains) = descriptor.grant.refused() else { return Ok(false) };
        if self.post_send(descriptor)? {
            // The request is part of a later transfer: the receiver owns the descriptor, and this
            // transfer is complete.
            return Ok(false);
        }
        self.left = span.bytes(grains)?.into();
        self.alone = true;
        Ok(true)
    }

    /// Returns true once every requested byte has arrived. The user may then reuse the memory, and
    /// the descriptor is free.
    pub(crate) fn post_send(&self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let Some(CheckedGrant { span, .. }) = self.answer else { return Ok(false) };
        let grains = span.grains();
        Ok(descriptor.chunks.done(self.home.generation, grains)? == grains)
    }

    /// Returns true if all of the message went by the transfer that was chosen, so that its time
    /// says something about that transfer.
    pub(crate) fn is_unmixed(&self) -> bool {
        let whole = |answer: CheckedGrant| self.streamed == answer.span.grains();
        !self.adapts || self.answer.is_some_and(whole)
    }

    /// Looks whether the receiver waits inside the library. Called once in each progress call.
    /// Returns whether this side will soon move the message alone if the receiver stays away. It
    /// must not sleep before that.
    pub(crate) fn look_for_peer(&mut self, is_inside: bool) -> bool {
        self.away = if is_inside { 0 } else { self.away.saturating_add(1) };
        let may_claim = self.adapts && !self.withdrawn && self.answer.is_some();
        may_claim && (1..GRACE).contains(&self.away)
    }

    /// Claims grains to write to the receiver's memory. `is_inside` returns whether the receiver
    /// waits inside the library.
    pub(crate) fn claim(
        &self,
        descriptor: &Descriptor,
        half: u32,
        is_inside: impl FnOnce() -> bool,
    ) -> Result<Option<CopyJob>, Corrupt> {
        let Some((to, span)) = self.writes() else { return Ok(None) };
        let adapts = self.adapts && matches!(to, RemoteBuffer::Private(_));
        // A failed job becomes the bytes of the copy ring, and must not replace others.
        let is_away = || self.away >= GRACE && !is_inside();
        if !self.ours.is_empty() || adapts && (self.withdrawn || !is_away()) {
            return Ok(None);
        }
        let most = if adapts { JOB_MOST_ALONE } else { JOB_MOST };
        let claim = ChunkRequest { most, ..self.share(span) };
        let Some(grains) = descriptor.chunks.claim(claim) else { return Ok(None) };
        let (begin, end) = span.bytes(grains)?;
        Ok(Some(CopyJob {
            peer: self.peer,
            direction: Direction::Write,
            local: self.data.after(begin - self.base),
            remote: to.after(begin),
            length: end - begin,
            ticket: CopyTicket { half, grains },
        }))
    }

    /// Notes that a job is done.
    pub(crate) const fn copied(&mut self, grains: Grains) {
        self.copied += grains.count;
    }

    /// Handles a failed job: its grains go through the copy ring.
    pub(crate) fn refused(&mut self, grains: Grains) -> Result<(), Corrupt> {
        self.may_write = false;
        self.streamed += grains.count;
        if let Some(CheckedGrant { span, .. }) = self.answer {
            self.ours = span.bytes(grains)?.into();
        }
        Ok(())
    }

    /// Returns the next piece for the copy ring, or `None`. `is_inside` returns whether the
    /// receiver waits inside the library, and `has_room` whether the ring has room for a chunk.
    pub(crate) fn piece(
        &mut self,
        descriptor: &Descriptor,
        is_inside: impl FnOnce() -> bool,
        has_room: impl FnOnce() -> bool,
    ) -> Result<Option<RingPiece>, Corrupt> {
        let Some(CheckedGrant { handle, span, .. }) = self.answer else { return Ok(None) };
        if self.ours.is_empty() && self.left.is_empty() {
            let writes = self.writes().map(|(to, _)| to);
            let may_change = !self.withdrawn && (writes.is_some() || !self.alone);
            let most = match writes {
                // While either side copies, the ring would only take time from it.
                Some(RemoteBuffer::Mapped(_)) => return Ok(None),
                _ if !self.adapts && (writes.is_some() || !self.alone) => return Ok(None),
                // While the receiver is away, jobs take what is unclaimed. What does not fit into
                // the ring stays unclaimed, in case that a side leaves.
                _ if may_change && !has_room() => return Ok(None),
                // One claim takes all of a short message. A look would only delay it.
                Some(_) if may_change && span.grains() <= RING_CLAIM && !self.uses_rtr => {
                    RING_CLAIM
                }
                Some(_) if may_change && !is_inside() => {
                    // A receiver that is about to wait finds a beginning. One that sent an RTR may
                    // compute for long, and nothing in the ring arrives meanwhile.
                    if self.uses_rtr || self.away >= GRACE || self.streamed > 0 {
                        return Ok(None);
                    }
                    RING_BEGINNING
                }
                _ if may_change => RING_CLAIM,
                // No other side claims, so this claim takes everything left.
                _ => span.grains(),
            };
            let claim = ChunkRequest { least: most, most, ..self.share(span) };
            let Some(grains) = descriptor.chunks.claim(claim) else { return Ok(None) };
            self.streamed += grains.count;
            self.ours = span.bytes(grains)?.into();
        }
        let ByteRange { first: offset, end } = *self.next_bytes();
        Ok(Some(RingPiece {
            handle,
            offset,
            length: end - offset,
            data: self.data.after(offset - self.base),
        }))
    }

    /// Returns whether a message that goes by one copy cannot go on without the copy ring: a side
    /// was refused, and the other cannot move the bytes either.
    pub(crate) fn needs_ring(&self) -> bool {
        let is_left = !self.ours.is_empty() || !self.left.is_empty();
        self.answer.is_some() && (is_left || self.alone && self.writes().is_none())
    }

    /// Notes that the next `length` bytes of the piece were sent.
    pub(crate) fn piece_left(&mut self, length: usize) {
        self.next_bytes().first += length;
    }

    fn next_bytes(&mut self) -> &mut ByteRange {
        if self.ours.is_empty() { &mut self.left } else { &mut self.ours }
    }

    /// Returns the bytes from `offset` on, if they are likely to go through the copy ring. The
    /// receive is not posted yet.
    pub(crate) fn ahead(&self, offset: usize) -> Option<Cursor> {
        let streams = self.adapts || self.lies == WireAddress::Nowhere;
        let likely = self.answer.is_none() && streams && !self.withdrawn;
        (likely && offset < self.total).then(|| self.data.after(offset))
    }

    /// Takes the message back from the receiver. Returns true once the receiver no longer accesses
    /// it; otherwise the caller retries.
    pub(crate) fn withdraw(&mut self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let claimed = descriptor.chunks.withdraw(self.home.generation);
        self.withdrawn = true;
        // A message that is not yet announced must not be read at its old location.
        self.lies = WireAddress::Nowhere;
        if self.alone || self.handle_cookie(descriptor)? {
            // A receiver that does not read, or no longer reads, claims nothing.
            self.alone = true;
            return Ok(true);
        }
        // What this side claimed and has not sent is never done without it.
        let unsent = self.answer.map_or(0, |CheckedGrant { span, .. }| {
            if self.ours.is_empty() { 0 } else { span.ending(self.ours.first, self.ours.end) }
        });
        let done = descriptor.chunks.done(self.home.generation, claimed)?;
        let is_all_ours = claimed == self.streamed + self.copied;
        let quiet = is_all_ours || done + unsent >= claimed;
        self.alone |= quiet;
        Ok(quiet)
    }

    /// Returns the offset in the message and the number of the bytes that this side may still need.
    pub(crate) fn rest(&self, descriptor: &Descriptor) -> (usize, usize) {
        let claimed = descriptor.chunks.withdraw(self.home.generation) as usize * super::GRAIN;
        let unsent = [self.ours, self.left].into_iter().filter(|bytes| !bytes.is_empty());
        let from = unsent.fold(claimed, |from, bytes| from.min(bytes.first));
        let from = from.clamp(self.base, self.total);
        (from, self.total - from)
    }

    /// Returns the bytes from `base` on, at their current location.
    pub(crate) fn data(&self, base: usize) -> Cursor {
        self.data.after(base - self.base)
    }

    /// Continues with `copy`, a copy of the bytes from `base` on.
    pub(crate) const fn move_to(&mut self, copy: Cursor, base: usize) {
        self.data = copy;
        self.base = base;
    }

    /// Returns true if the message uses an RTR.
    pub(crate) const fn uses_rtr(&self) -> bool {
        self.uses_rtr
    }

    /// Returns the receiver's rank.
    pub(crate) const fn peer(&self) -> u32 {
        self.peer
    }

    /// Returns the descriptor of the transfer.
    pub(crate) const fn home(&self) -> Home {
        self.home
    }

    /// Returns the transfer of the message.
    pub(crate) const fn transfer(&self) -> Transfer {
        self.transfer
    }

    /// Returns the length of the message, in bytes.
    pub(crate) const fn total(&self) -> usize {
        self.total
    }

    /// Returns true if the message goes to the receiver's heap, so that its speed says nothing
    /// about the chosen transfer.
    pub(crate) const fn goes_to_heap(&self) -> bool {
        matches!(self.answer, Some(CheckedGrant { to: Some(RemoteBuffer::Mapped(_)), .. }))
    }

    /// Returns where this side writes to the receiver's memory, and the total number of bytes to
    /// write.
    fn writes(&self) -> Option<(RemoteBuffer, Span)> {
        let CheckedGrant { to, span, .. } = self.answer?;
        let to = to.filter(|to| self.may_write || matches!(to, RemoteBuffer::Mapped(_)))?;
        Some((to, span))
    }

    const fn share(&self, span: Span) -> ChunkRequest {
        ChunkRequest {
            generation: self.home.generation,
            grains: span.grains(),
            least: JOB_LEAST,
            most: JOB_MOST,
            sender: true,
        }
    }
}
