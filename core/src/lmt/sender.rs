//! The sender's half of a large message.

use super::{
    Direction, Home, JOB_LEAST, JOB_MOST, Job, Place, Remote, Rtr, RtrAck, SendCookie, Span,
    Ticket, Transfer,
};
use crate::layout::{Corrupt, Segment};
use crate::progress::Cursor;
use crate::rndv::Turn;
use crate::shm::{Claim, Descriptor, Grains, ReceiveCookie};

/// One large message, from its RTS, or the RTR that it uses, to its end.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    peer: u32,
    home: Home,
    uses_rtr: bool,
    /// [`Turn::word`] of its turn.
    turn: u32,
    total: usize,
    data: Cursor,
    /// Place in the message of the first byte of `data`.
    base: usize,
    answer: Option<Answer>,
    transfer: Transfer,
    /// Where the receiver may read the message.
    lies: Place,
    /// Whether writing to the peer's private memory is worth a try.
    may_write: bool,
    /// Whether to write to the peer's heap.
    uses_heaps: bool,
    /// The receiver reads no more: its rest is ours.
    alone: bool,
    withdrawn: bool,
    /// What nobody has claimed goes through the copy ring, though the receiver may read.
    streams: bool,
    /// Bytes that we claimed and that go through the copy ring.
    ours: Bytes,
    /// Bytes that the receiver claimed and left to us: they go the same way.
    left: Bytes,
}

/// A message, and the ways that it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) data: Cursor,
    /// Where `data` lie.
    pub(crate) place: Place,
    pub(crate) transfer: Transfer,
    /// Whether writing to the peer's private memory is worth a try.
    pub(crate) may_write: bool,
    /// Whether what lies in a heap is read and written there.
    pub(crate) uses_heaps: bool,
}

impl Ways {
    /// Where the receiver may read the message.
    const fn lies(&self) -> Place {
        match self.place {
            Place::Private(_) if !self.transfer.reads() => Place::Nowhere,
            place => place,
        }
    }
}

/// The receiver's answer, its numbers checked.
#[derive(Clone, Copy, Debug)]
struct Answer {
    handle: u32,
    to: Option<Remote>,
    span: Span,
}

/// From the first to the end.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    first: usize,
    end: usize,
}

impl Bytes {
    const fn is_empty(self) -> bool {
        self.first >= self.end
    }
}

impl From<(usize, usize)> for Bytes {
    fn from((first, end): (usize, usize)) -> Self {
        Self { first, end }
    }
}

/// A piece of a message for the copy ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The receiver's name of the transfer.
    pub(crate) handle: u32,
    /// Place in the message.
    pub(crate) offset: usize,
    /// Bytes left to send from there; not zero.
    pub(crate) length: usize,
    /// Where they are.
    pub(crate) data: Cursor,
}

impl Sender {
    /// Prepares to announce a message to `peer`, in the sender's descriptor `home`, whose last use was another generation and
    /// is over. `turn` is the message's in the speculative rendezvous.
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

    /// Sends a message to `peer` by an RTR of its, which the caller has used just now. The buffer can be written at `to`.
    pub(crate) fn by_rtr(peer: u32, rtr: &Rtr, to: Option<Remote>, ways: Ways) -> Self {
        let half = Self::new(peer, rtr.home(peer), ways);
        // `Rtr::parse` checked that the capacity fits.
        let span = Span { length: half.total.min(rtr.capacity as usize) };
        let to = to.filter(|to| half.uses_heaps || matches!(to, Remote::Private(_)));
        let alone = match half.lies {
            Place::Nowhere => true,
            Place::Private(_) => rtr.reads == 0,
            Place::Heap(_) => false,
        };
        let answer = Some(Answer { handle: rtr.handle, to, span });
        Self { uses_rtr: true, turn: rtr.turn, answer, alone, ..half }
    }

    fn new(peer: u32, home: Home, ways: Ways) -> Self {
        let Ways { data, transfer, may_write, uses_heaps, .. } = ways;
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
            lies: ways.lies(),
            may_write: may_write && transfer.writes(),
            uses_heaps,
            alone: false,
            withdrawn: false,
            streams: false,
            ours: Bytes::default(),
            left: Bytes::default(),
        }
    }

    /// What the RTS says.
    pub(crate) fn cookie(&self) -> SendCookie {
        let (address, lies) = self.lies.pack();
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

    /// What the RTR-ACK says; `None` for a message that is announced.
    pub(crate) fn rtr_ack(&self) -> Option<RtrAck> {
        let (address, lies) = self.lies.pack();
        let (turn, Home { place, generation, .. }) = (self.turn, self.home);
        let ack = RtrAck { total: self.total as u64, address, place, generation, lies, turn };
        self.uses_rtr.then_some(ack)
    }

    /// Looks for the receiver's answer. True when it has come just now.
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
        let to = Place::parse(address, lies)?.reach(segment, self.peer, span.length)?;
        self.answer = Some(Answer { handle, to, span });
        self.alone |= !moves;
        Ok(true)
    }

    /// Takes over what the receiver could not move. True when it has asked just now.
    pub(crate) fn handle_cookie(&mut self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let Some(Answer { span, .. }) = self.answer.filter(|_| !self.alone) else {
            return Ok(false);
        };
        let Some(grains) = descriptor.grant.refused() else { return Ok(false) };
        if self.post_send(descriptor)? {
            // Of a later transfer: the receiver owns the descriptor, and this one is over.
            return Ok(false);
        }
        self.left = span.bytes(grains)?.into();
        self.alone = true;
        Ok(true)
    }

    /// True when every byte that was wanted has arrived: the memory is the user's again, the descriptor free.
    pub(crate) fn post_send(&self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let Some(Answer { span, .. }) = self.answer else { return Ok(false) };
        let grains = span.grains();
        Ok(descriptor.chunks.done(self.home.generation, grains)? == grains)
    }

    /// Bytes that nobody had claimed a moment ago.
    pub(crate) fn unclaimed(&self, descriptor: &Descriptor) -> usize {
        let Some(Answer { span, .. }) = self.answer else { return self.total };
        descriptor.chunks.unclaimed(self.home.generation, span.grains()) as usize * super::GRAIN
    }

    /// Has what nobody has claimed travel by another transfer than before, when that was one copy that both sides make.
    pub(crate) const fn go_on_by(&mut self, transfer: Transfer) {
        self.transfer = transfer;
        self.may_write &= transfer.writes();
        self.streams = !transfer.reads();
    }

    /// Claims something to write to the receiver's memory.
    pub(crate) fn claim(&self, descriptor: &Descriptor, half: u32) -> Result<Option<Job>, Corrupt> {
        let Some((to, span)) = self.writes() else { return Ok(None) };
        let Some(grains) = descriptor.chunks.claim(self.share(span)) else { return Ok(None) };
        let (begin, end) = span.bytes(grains)?;
        Ok(Some(Job {
            peer: self.peer,
            direction: Direction::Write,
            local: self.data.after(begin - self.base),
            remote: to.after(begin),
            length: end - begin,
            ticket: Ticket { half, grains },
        }))
    }

    /// Takes the result of a job that failed: its grains go through the copy ring.
    pub(crate) fn refused(&mut self, grains: Grains) -> Result<(), Corrupt> {
        self.may_write = false;
        if let Some(Answer { span, .. }) = self.answer {
            self.ours = span.bytes(grains)?.into();
        }
        Ok(())
    }

    /// What goes through the copy ring next, if anything does.
    pub(crate) fn piece(&mut self, descriptor: &Descriptor) -> Result<Option<Piece>, Corrupt> {
        let Some(Answer { handle, span, .. }) = self.answer else { return Ok(None) };
        if self.ours.is_empty() && self.left.is_empty() {
            // While the receiver reads, the ring would only take its time.
            if self.writes().is_some() || !self.alone && !self.streams {
                return Ok(None);
            }
            // Nobody else claims: all that is left.
            let all = Claim { least: span.grains(), most: span.grains(), ..self.share(span) };
            let Some(grains) = descriptor.chunks.claim(all) else { return Ok(None) };
            self.ours = span.bytes(grains)?.into();
            // When all before is done, the receiver is moving nothing, and nothing is left for it to claim.
            let done = descriptor.chunks.done(self.home.generation, span.grains())?;
            self.alone |= done == grains.first;
        }
        let Bytes { first: offset, end } = *self.next_bytes();
        Ok(Some(Piece {
            handle,
            offset,
            length: end - offset,
            data: self.data.after(offset - self.base),
        }))
    }

    /// Says that the next `length` bytes of the piece have left.
    pub(crate) fn piece_left(&mut self, length: usize) {
        self.next_bytes().first += length;
    }

    fn next_bytes(&mut self) -> &mut Bytes {
        if self.ours.is_empty() { &mut self.left } else { &mut self.ours }
    }

    /// The bytes from `offset` on, if they are sure to go through the copy ring once the receive is there, which it is not yet.
    pub(crate) fn ahead(&self, offset: usize) -> Option<Cursor> {
        let sure = self.answer.is_none() && self.lies == Place::Nowhere && !self.withdrawn;
        (sure && offset < self.total).then(|| self.data.after(offset))
    }

    /// Takes the sender's memory away from the receiver. True when the receiver is out of it; otherwise ask again.
    pub(crate) fn withdraw(&mut self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let claimed = descriptor.chunks.withdraw(self.home.generation);
        self.withdrawn = true;
        // Should it not even be announced yet, it is not to be read where it was.
        self.lies = Place::Nowhere;
        if self.alone || self.handle_cookie(descriptor)? {
            // A receiver that does not read, or has stopped, claims nothing.
            self.alone = true;
            return Ok(true);
        }
        let quiet = descriptor.chunks.done(self.home.generation, claimed)? == claimed;
        self.alone |= quiet;
        Ok(quiet)
    }

    /// Place in the message and number of the bytes that this side may still need.
    pub(crate) fn rest(&self, descriptor: &Descriptor) -> (usize, usize) {
        let claimed = descriptor.chunks.withdraw(self.home.generation) as usize * super::GRAIN;
        let unsent = [self.ours, self.left].into_iter().filter(|bytes| !bytes.is_empty());
        let from = unsent.fold(claimed, |from, bytes| from.min(bytes.first));
        let from = from.clamp(self.base, self.total);
        (from, self.total - from)
    }

    /// The bytes from `base` on, where they are now.
    pub(crate) fn data(&self, base: usize) -> Cursor {
        self.data.after(base - self.base)
    }

    /// Goes on from a copy of the bytes from `base` on.
    pub(crate) const fn move_to(&mut self, copy: Cursor, base: usize) {
        self.data = copy;
        self.base = base;
    }

    /// True when it uses an RTR.
    pub(crate) const fn uses_rtr(&self) -> bool {
        self.uses_rtr
    }

    /// The receiver's rank.
    pub(crate) const fn peer(&self) -> u32 {
        self.peer
    }

    /// The descriptor of the transfer.
    pub(crate) const fn home(&self) -> Home {
        self.home
    }

    /// How the message travels.
    pub(crate) const fn transfer(&self) -> Transfer {
        self.transfer
    }

    /// Length of the message, bytes.
    pub(crate) const fn total(&self) -> usize {
        self.total
    }

    /// True when the message went, or goes, to the receiver's heap: that says nothing of the transfer chosen for it.
    pub(crate) const fn goes_to_heap(&self) -> bool {
        matches!(self.answer, Some(Answer { to: Some(Remote::Mapped(_)), .. }))
    }

    /// Where we write to the receiver's memory, and how much there is to write in all.
    fn writes(&self) -> Option<(Remote, Span)> {
        let Answer { to, span, .. } = self.answer?;
        let to = to.filter(|to| self.may_write || matches!(to, Remote::Mapped(_)))?;
        Some((to, span))
    }

    const fn share(&self, span: Span) -> Claim {
        Claim {
            generation: self.home.generation,
            grains: span.grains(),
            least: JOB_LEAST,
            most: JOB_MOST,
            sender: true,
        }
    }
}
