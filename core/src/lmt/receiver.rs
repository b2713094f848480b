//! The receiver's half of a large message.

use super::{Direction, JOB_LEAST, JOB_MOST, Job, Place, Remote, SendCookie, Span, Ticket};
use crate::layout::Corrupt;
use crate::progress::Cursor;
use crate::shm::{Claim, Descriptor, Grains, ReceiveCookie};

/// One announced message that met its receive.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    peer: u32,
    cookie: SendCookie,
    buffer: Cursor,
    span: Span,
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
            cookie,
            buffer,
            span: Span { length },
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

    /// Tells the sender that the receive is there; from now on both sides may move. Chunks in the copy ring will bear
    /// `handle`.
    pub(crate) fn start_recv(&self, descriptor: &Descriptor, handle: u32) {
        let (address, lies) = self.lent.pack();
        let length = self.span.length as u64;
        let cookie = ReceiveCookie { handle, address, lies, length, moves: self.from.is_some() };
        descriptor.grant.open(self.cookie.generation, cookie);
    }

    /// True when all bytes are here.
    pub(crate) fn post_recv(&self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let grains = self.span.grains();
        Ok(descriptor.chunks.done(self.cookie.generation, grains)? == grains)
    }

    /// Claims something to read from the sender's memory.
    pub(crate) fn claim(&self, descriptor: &Descriptor, half: u32) -> Result<Option<Job>, Corrupt> {
        let Some(from) = self.from else { return Ok(None) };
        let claim = Claim {
            generation: self.cookie.generation,
            grains: self.span.grains(),
            least: JOB_LEAST,
            most: JOB_MOST,
            sender: false,
        };
        let Some(grains) = descriptor.chunks.claim(claim) else { return Ok(None) };
        let (begin, end) = self.span.bytes(grains)?;
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
        let max = self.span.length as u64;
        let end = offset.checked_add(length as u64).filter(|end| *end <= max);
        let (Some(end), true) = (end, generation == self.cookie.generation) else {
            return Err(Corrupt::Length { found: offset, max });
        };
        let (begin, end) = (offset as usize, end as usize);
        let to = (!self.dropped).then(|| self.buffer.after(begin));
        Ok((to, self.span.ending(begin, end)))
    }

    /// Takes the receiver's memory away from the sender, and lets what has not come go. True when the sender is out of it;
    /// otherwise ask again.
    pub(crate) fn close(&mut self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        self.dropped = true;
        self.from = None;
        let generation = self.cookie.generation;
        if let Some(rest) = descriptor.chunks.close(generation, self.span.grains()) {
            descriptor.chunks.finish(rest.count);
        }
        Ok(self.lent == Place::Nowhere || self.post_recv(descriptor)?)
    }

    /// The sender's rank.
    pub(crate) const fn peer(&self) -> u32 {
        self.peer
    }

    /// The sender's number of the descriptor.
    pub(crate) const fn descriptor(&self) -> u32 {
        self.cookie.place
    }
}
