//! The receiver's half of a large message.

use super::{
    CopyJob, CopyTicket, GRACE, Home, JOB_LEAST, JOB_MOST, JOB_MOST_ALONE, ReadTime, RemoteBuffer,
    Rtr, RtrAck, SendCookie, Span, WireAddress,
};
use crate::buffer::{Cursor, Direction};
use crate::shm::{ChunkRequest, Descriptor, Grains, ReceiveCookie};
use crate::wire::{Corrupt, Turn};

/// A large message that met its receive, or a receive that has asked for one.
#[derive(Clone, Copy, Debug)]
pub struct LmtReceiver {
    peer: u32,
    home: Home,
    buffer: Cursor,
    /// The bytes to receive; `None` until the message is known.
    span: Option<Span>,
    /// Where to read the message, while reading is worth a try.
    from: Option<RemoteBuffer>,
    /// When to read it.
    read_time: ReadTime,
    /// Progress calls in a row that found the sender away.
    away: u8,
    /// Grains that have arrived through the copy ring and are not reported yet.
    arrived: u32,
    /// Where the peer may write to `buffer`.
    lent: WireAddress,
    /// True once the message is no longer wanted.
    dropped: bool,
}

impl LmtReceiver {
    /// Prepares to receive the message that `peer` announced with `cookie`, up to the size of
    /// `buffer`. The message can be read at `from`; `buffer` lies at `place`.
    pub(crate) fn pre_recv(
        peer: u32,
        cookie: SendCookie,
        from: Option<RemoteBuffer>,
        buffer: Cursor,
        place: WireAddress,
    ) -> Self {
        // `SendCookie::parse` checked that the total fits `usize`.
        let length = buffer.remaining().min(cookie.total as usize);
        Self {
            peer,
            home: Home { owner: peer, place: cookie.place, generation: cookie.generation },
            buffer,
            span: Some(Span { length }),
            from,
            read_time: cookie.read_time(),
            away: 0,
            arrived: 0,
            lent: match place {
                WireAddress::Private(_) if cookie.writes & SendCookie::WRITES_PRIVATE == 0 => {
                    WireAddress::Nowhere
                }
                WireAddress::Heap(_) if cookie.writes & SendCookie::WRITES_HEAP == 0 => {
                    WireAddress::Nowhere
                }
                place => place,
            },
            dropped: false,
        }
    }

    /// Prepares to ask `peer` for a message into `buffer`, which lies at `place`. `home` is a
    /// descriptor of this rank, and its last use is complete.
    pub(crate) fn ask(
        peer: u32,
        home: Home,
        buffer: Cursor,
        place: WireAddress,
        descriptor: &Descriptor,
    ) -> Self {
        descriptor.grant.begin();
        descriptor.chunks.ask(home.generation);
        Self {
            peer,
            home,
            buffer,
            span: None,
            from: None,
            read_time: ReadTime::Always,
            away: 0,
            arrived: 0,
            lent: place,
            dropped: false,
        }
    }

    /// Returns the contents of the RTR. The peer will use `handle` as the name of the receive.
    /// `reads` says that reading the peer's private memory is worth a try.
    pub(crate) fn rtr(&self, handle: u32, turn: Turn, reads: bool) -> Rtr {
        let (address, lies) = self.lent.pack();
        let (capacity, Home { place, generation, .. }) = (self.buffer.remaining(), self.home);
        let (capacity, turn, reads) = (capacity as u64, Turn::word(Some(turn)), u32::from(reads));
        Rtr { address, capacity, place, generation, handle, lies, turn, reads }
    }

    /// Notes that the RTR was used for the message that `ack` describes, which can be read at
    /// `from`.
    pub(crate) fn start_used(&mut self, ack: RtrAck, from: Option<RemoteBuffer>) {
        // `RtrAck::parse` checked that the total fits `usize`.
        let total = ack.total as usize;
        self.read_time = ack.read_time();
        self.span = Some(Span { length: self.buffer.remaining().min(total) });
        self.from = from;
    }

    /// Tells the sender that the receive is posted. From now on both sides may move data. Chunks in
    /// the copy ring will carry `handle`.
    pub(crate) fn start_recv(&self, descriptor: &Descriptor, handle: u32) {
        let (address, lies) = self.lent.pack();
        let length = self.span.map_or(0, |span| span.length) as u64;
        let cookie = ReceiveCookie { handle, address, lies, length, moves: self.from.is_some() };
        descriptor.grant.open(self.home.generation, cookie);
    }

    /// Returns true once all bytes have arrived.
    pub(crate) fn post_recv(&self, descriptor: &Descriptor) -> Result<bool, Corrupt> {
        let Some(span) = self.span else { return Ok(false) };
        let grains = span.grains();
        Ok(descriptor.chunks.done(self.home.generation, grains)? == grains)
    }

    /// Looks whether the sender waits inside the library. Called once in each progress call.
    /// Returns whether this side will soon read the message alone if the sender stays away. It must
    /// not sleep before that.
    pub(crate) fn look_for_peer(&mut self, is_inside: bool) -> bool {
        self.away = if is_inside { 0 } else { self.away.saturating_add(1) };
        let may_claim = self.read_time == ReadTime::SenderAway && self.from.is_some();
        may_claim && (1..GRACE).contains(&self.away)
    }

    /// Claims grains to read from the sender's memory. `is_inside` returns whether the sender
    /// waits inside the library.
    pub(crate) fn claim(
        &self,
        descriptor: &Descriptor,
        half: u32,
        is_inside: impl FnOnce() -> bool,
    ) -> Result<Option<CopyJob>, Corrupt> {
        let Some((from, span)) = self.from.zip(self.span) else { return Ok(None) };
        let most = match self.read_time {
            ReadTime::Always => JOB_MOST,
            ReadTime::SenderAway if self.away < GRACE || is_inside() => return Ok(None),
            ReadTime::SenderAway => JOB_MOST_ALONE,
        };
        let claim = ChunkRequest {
            generation: self.home.generation,
            grains: span.grains(),
            least: JOB_LEAST,
            most,
            sender: false,
        };
        let Some(grains) = descriptor.chunks.claim(claim) else { return Ok(None) };
        let (begin, end) = span.bytes(grains)?;
        Ok(Some(CopyJob {
            peer: self.peer,
            direction: Direction::Read,
            local: self.buffer.after(begin),
            remote: from.after(begin),
            length: end - begin,
            ticket: CopyTicket { half, grains },
        }))
    }

    /// Handles a failed job: the sender takes over its grains and all remaining ones.
    pub(crate) fn refused(&mut self, descriptor: &Descriptor, grains: Grains) {
        self.from = None;
        descriptor.grant.refuse(grains);
    }

    /// Checks a piece that arrived through the copy ring. Returns its destination, or `None` if it
    /// is no longer wanted, and the number of grains that it completes.
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

    /// Counts `completed` grains that arrived through the copy ring. Returns how many grains are to
    /// be reported as done now. `more` says that further chunks of the same claim follow.
    pub(crate) const fn count_arrived(&mut self, completed: u32, more: bool) -> u32 {
        let arrived = self.arrived.saturating_add(completed);
        let (kept, done) = if more { (arrived, 0) } else { (0, arrived) };
        self.arrived = kept;
        done
    }

    /// Takes the buffer back from the sender and drops the bytes that have not arrived. Returns
    /// true once the sender no longer accesses the buffer; otherwise the caller retries.
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
        Ok(self.lent == WireAddress::Nowhere || self.post_recv(descriptor)?)
    }

    /// Returns true until the message is known.
    pub(crate) const fn is_asking(&self) -> bool {
        self.span.is_none()
    }

    /// Returns the sender's rank.
    pub(crate) const fn peer(&self) -> u32 {
        self.peer
    }

    /// Returns the descriptor of the transfer.
    pub(crate) const fn home(&self) -> Home {
        self.home
    }
}
