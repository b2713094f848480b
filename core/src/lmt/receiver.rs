//! The receiver's half of a large message.

use super::{
    Direction, Home, JOB_LEAST, JOB_MOST, Job, Place, Remote, Rtr, SendCookie, Span, Ticket,
};
use crate::layout::Corrupt;
use crate::progress::Cursor;
use crate::rndv::Turn;
use crate::shm::{Claim, Descriptor, Grains, ReceiveCookie};

/// One large message that met its receive, or the receive that has asked for one.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    peer: u32,
    home: Home,
    buffer: Cursor,
    /// What is wanted; `None` as long as nobody has said what comes.
    span: Option<Span>,
    /// Where the message is read, as long as that is worth a try.
    from: Option<Remote>,
    /// Where the peer may write to `buffer`.
    lent: Place,
    /// Nobody wants the message any more.
    dropped: bool,
}

impl Receiver {
    /// Prepares to receive the message that `peer` announced with `cookie`, as much as `buffer` has room for. It can be read
    /// at `from`; `buffer` lies at `place`.
    pub(crate) fn pre_recv(
        peer: u32,
        cookie: SendCookie,
        from: Option<Remote>,
        buffer: Cursor,
        place: Place,
    ) -> Self {
        // The cookie's total was checked when it was parsed.
        let length = buffer.remaining().min(cookie.total as usize);
        Self {
            peer,
            home: Home { owner: peer, place: cookie.place, generation: cookie.generation },
            buffer,
            span: Some(Span { length }),
            from,
            lent: match place {
                Place::Private(_) if cookie.writes & SendCookie::WRITES_PRIVATE == 0 => {
                    Place::Nowhere
                }
                Place::Heap(_) if cookie.writes & SendCookie::WRITES_HEAP == 0 => Place::Nowhere,
                place => place,
            },
            dropped: false,
        }
    }

    /// Prepares to ask `peer` for a message into `buffer`, which lies at `place`, in the descriptor `home` of our own, whose
    /// last use is over.
    pub(crate) fn ask(
        peer: u32,
        home: Home,
        buffer: Cursor,
        place: Place,
        descriptor: &Descriptor,
    ) -> Self {
        descriptor.grant.begin();
        descriptor.chunks.ask(home.generation);
        Self { peer, home, buffer, span: None, from: None, lent: place, dropped: false }
    }

    /// What the RTR says. The peer will call the receive `handle`. `reads`: to read the peer's private memory is worth a
    /// try.
    pub(crate) fn rtr(&self, handle: u32, turn: Turn, reads: bool) -> Rtr {
        let (address, lies) = self.lent.pack();
        let (capacity, Home { place, generation, .. }) = (self.buffer.remaining(), self.home);
        let (capacity, turn, reads) = (capacity as u64, Turn::word(Some(turn)), u32::from(reads));
        Rtr { address, capacity, place, generation, handle, lies, turn, reads }
    }

    /// The RTR was used for a message of `total` bytes, which can be read at `from`.
    pub(crate) fn start_used(&mut self, total: usize, from: Option<Remote>) {
        self.span = Some(Span { length: self.buffer.remaining().min(total) });
        self.from = from;
    }

    /// Tells the sender that the receive is there; from now on both sides may move. Chunks in the copy ring will bear
    /// `handle`.
    pub(crate) fn start_recv(&self, descriptor: &Descriptor, handle: u32) {
        let (address, lies) = self.lent.pack();
        let length = self.span.map_or(0, |span| span.length) as u64;
        let cookie = ReceiveCookie { handle, address, lies, length, moves: self.from.is_some() };
        descriptor.grant.open(self.home.generation, cookie);
    }

    /// True when all bytes are here.
    pub(crate) fn post_recv(&self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let Some(span) = self.span else { return Ok(false) };
        let grains = span.grains();
        Ok(descriptor.chunks.done(self.home.generation, grains)? == grains)
    }

    /// Claims something to read from the sender's memory.
    pub(crate) fn claim(&self, descriptor: &Descriptor, half: u32) -> Result<Option<Job>, Corrupt> {
        let Some((from, span)) = self.from.zip(self.span) else { return Ok(None) };
        let claim = Claim {
            generation: self.home.generation,
            grains: span.grains(),
            least: JOB_LEAST,
            most: JOB_MOST,
            sender: false,
        };
        let Some(grains) = descriptor.chunks.claim(claim) else { return Ok(None) };
        let (begin, end) = span.bytes(grains)?;
        Ok(Some(Job {
            peer: self.peer,
            direction: Direction::Read,
            local: self.buffer.after(begin),
            remote: from.after(begin),
            length: end - begin,
            ticket: Ticket { half, grains },
        }))
    }

    /// Takes the result of a job that failed: the sender gets its grains, and moves the rest too.
    pub(crate) fn refused(&mut self, descriptor: &Descriptor, grains: Grains) {
        self.from = None;
        descriptor.grant.refuse(grains);
    }

    /// Checks a piece that came through the copy ring. Returns where it belongs, or `None` when nobody wants it, and the number of
    /// grains that it completes.
    pub(crate) fn place(
        &self,
        generation: u32,
        offset: u64,
        length: usize,
    ) -> Result<(Option<Cursor>, u32), Corrupt> {
        let span = self.span.unwrap_or(Span { length: 0 });
        let max = span.length as u64;
        let end = offset.checked_add(length as u64).filter(|end| *end <= max);
        let (Some(end), true) = (end, generation == self.home.generation) else {
            return Err(Corrupt::Length { found: offset, max });
        };
        let (begin, end) = (offset as usize, end as usize);
        let to = (!self.dropped).then(|| self.buffer.after(begin));
        Ok((to, span.ending(begin, end)))
    }

    /// Takes the receiver's memory away from the sender, and lets what has not come go. True when the sender is out of it;
    /// otherwise ask again.
    pub(crate) fn close(&mut self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        self.dropped = true;
        self.from = None;
        let generation = self.home.generation;
        let Some(span) = self.span else {
            let claimed = descriptor.chunks.abandon(generation);
            return Ok(descriptor.chunks.done(generation, claimed)? == claimed);
        };
        if let Some(rest) = descriptor.chunks.close(generation, span.grains()) {
            descriptor.chunks.finish(rest.count);
        }
        Ok(self.lent == Place::Nowhere || self.post_recv(descriptor)?)
    }

    /// True as long as nobody has said what comes.
    pub(crate) const fn is_asking(&self) -> bool {
        self.span.is_none()
    }

    /// The sender's rank.
    pub(crate) const fn peer(&self) -> u32 {
        self.peer
    }

    /// The descriptor of the transfer.
    pub(crate) const fn home(&self) -> Home {
        self.home
    }
}
