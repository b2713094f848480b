//! Slots: fixed places for the chunks of a stream, in which messages land one after the other (`[RdmaChannel04]` §4.3).
//!
//! A slot is filled from the bottom: payload, [`Landing`], end. So the flag is in one place, and one write carries payload,
//! size, credit and flag. A device that promises nothing within a write gets the flag as a write of its own.
//! Slot `n` of a stream, from 1, is the ring's `(n - 1) % slots`th.

use core::ptr::NonNull;

use super::config::{Config, RING, TAIL};
use super::credit::Credit;
use super::error::Cause;
use super::knock::Told;
use super::landing::{Head, Landing};
use super::poster::Poster;
use crate::hca::{Hca, Remote};
use crate::progress::Cursor;
use crate::sync::CACHE_LINE;

/// What the payload of a slot is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Bytes of the stream.
    Data = 0,
    /// An [`Announcement`] of bytes that come another way.
    Large = 1,
    /// Nothing: the bytes granted by the last grant are there.
    Done = 2,
}

/// Where a large part lies, or may go: the payload of an announcement or a grant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub(super) struct Announcement {
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) key: u64,
}

/// Bytes of an announcement.
pub(super) const ANNOUNCEMENT: usize = size_of::<Announcement>();

const _: () = assert!(cfg!(strait_loom) || ANNOUNCEMENT + size_of::<Landing>() <= CACHE_LINE);

impl Announcement {
    /// The place that it names.
    pub(super) const fn remote(&self) -> Remote {
        Remote { address: self.address, key: self.key as u32 }
    }
}

/// A place for one message: at both sides, of this length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) near: usize,
    pub(super) far: usize,
    pub(super) length: usize,
}

impl Place {
    const fn landing(&self) -> usize {
        self.near + self.length - size_of::<Landing>()
    }

    /// Writes the message's image into this side's memory, payload first.
    ///
    /// # Safety
    ///
    /// No request reads the place.
    pub(super) unsafe fn fill(&self, poster: &Poster, head: Head, number: u64, from: &mut Cursor) {
        let landing = self.landing();
        // SAFETY: the place lies in the memory lent, and by the contract nobody else touches it now. The payload fits
        // before the landing, which is 8-aligned and has the layout of these two values.
        unsafe {
            from.gather(poster.at(landing - head.length as usize), head.length as usize);
            poster.at(landing).cast::<Head>().write(head);
            poster.at(landing + size_of::<Head>()).cast::<u64>().write(number);
        }
    }

    /// Payload of the message that the image holds, bytes.
    fn filled_length(&self, poster: &Poster) -> usize {
        // SAFETY: the place lies in the memory lent, and only devices of this rank reach its image, and only read it.
        unsafe { poster.at(self.landing()).cast::<Head>().read() }.length as usize
    }

    /// Sends the image to the peer: in one write, or the flag in one of its own. False: not now, or not all; `half`
    /// remembers.
    pub(super) fn send<H: Hca>(
        &self,
        poster: &mut Poster,
        hca: &mut H,
        length: usize,
        half: &mut bool,
        mark: u64,
    ) -> Result<bool, Cause> {
        const FLAG: usize = size_of::<u64>();
        let start = self.length - size_of::<Landing>() - length;
        let ways = |at: usize| (self.near + at, self.far + at);
        if poster.ordered_bytes() {
            let whole = self.length - start;
            // SAFETY: the image is filled again only when `mark` is done.
            return unsafe { poster.write(hca, ways(start), whole, mark) };
        }
        let body = self.length - FLAG - start;
        if !*half {
            // SAFETY: as above.
            *half = unsafe { poster.write(hca, ways(start), body, poster.mark()) }?;
        }
        // SAFETY: as above.
        if *half && unsafe { poster.write_flag(hca, ways(self.length - FLAG), mark) }? {
            *half = false;
            return Ok(true);
        }
        Ok(false)
    }

    /// The message that has landed in this place of the ring, if it is `number`: its head, and its payload.
    pub(super) fn look(
        &self,
        poster: &Poster,
        number: u64,
    ) -> Result<Option<(Head, NonNull<u8>)>, Cause> {
        let at = self.landing();
        // SAFETY: the place lies in the memory lent, 8-aligned; the peer's device alone writes it.
        let landing = unsafe { poster.at(at).cast::<Landing>().as_ref() };
        if !landing.holds(number) {
            return Ok(None);
        }
        // SAFETY: it has landed, and the caller has not given its credit.
        let head = unsafe { landing.head() };
        let most = (self.length - size_of::<Landing>()) as u64;
        if u64::from(head.length) > most {
            let (what, found) = ("the length of a message", head.length.into());
            return Err(Cause::Corrupt { what, found, most });
        }
        Ok(Some((head, poster.at(at - head.length as usize))))
    }
}

/// A link's two streams of slots. Numbers count slots since the beginning.
#[derive(Debug)]
pub(super) struct Slots {
    count: u64,
    stride: usize,
    chunk: usize,
    staging: usize,
    /// Filled with a message.
    filled: u64,
    /// Handed to the device.
    sent: u64,
    /// Whether of the next one all but the flag is handed to the device.
    half: bool,
    /// What the peer has consumed, as far as it has said so.
    credited: u64,
    /// Landed, as far as anybody looked: their credits are taken in.
    noticed: u64,
    /// Consumed.
    consumed: u64,
    /// Bytes consumed of the slot after.
    offset: usize,
    credit: Credit,
    /// The last credit that was a write of its own.
    credit_written: u64,
}

impl Slots {
    pub(super) const fn new(config: &Config) -> Self {
        Self {
            count: config.slots as u64,
            stride: config.stride(),
            chunk: config.chunk as usize,
            staging: config.staging(),
            filled: 0,
            sent: 0,
            half: false,
            credited: 0,
            noticed: 0,
            consumed: 0,
            offset: 0,
            credit: Credit::new(config.slots as u64),
            credit_written: 0,
        }
    }

    /// Slots that may be filled now. Looks for credits first.
    pub(super) fn room(&mut self, poster: &Poster) -> Result<u64, Cause> {
        self.notice(poster)?;
        self.take_credit(poster.counter(TAIL))?;
        Ok(self.count - (self.filled - self.credited.min(poster.done_mark())))
    }

    /// Fills the next slot with up to a chunk of `from`. There has to be room. Returns how many bytes.
    pub(super) fn fill<H: Hca>(
        &mut self,
        poster: &Poster,
        hca: &mut H,
        kind: Kind,
        from: &mut Cursor,
    ) -> usize {
        let length = from.remaining().min(self.chunk);
        self.filled += 1;
        let credit = self.credit.tell(self.consumed);
        let head = Head { length: length as u32, kind: kind as u32, credit };
        // SAFETY: the peer has consumed what was there, and our device is done with it: `room` says so.
        unsafe { self.place(self.filled).fill(poster, head, self.filled, from) };
        hca.copied(length);
        length
    }

    /// Whether the device has taken all filled slots.
    pub(super) const fn are_sent(&self) -> bool {
        self.sent == self.filled
    }

    /// Hands filled slots to the device, as far as it takes them; and the credit, if it is due.
    pub(super) fn progress<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<(), Cause> {
        while self.sent < self.filled {
            let place = self.place(self.sent + 1);
            let length = place.filled_length(poster);
            if !place.send(poster, hca, length, &mut self.half, self.sent + 1)? {
                return Ok(());
            }
            self.sent += 1;
        }
        if self.credit.is_due(self.consumed) && poster.write_word(hca, self.consumed, TAIL)? {
            self.credit_written = self.credit.tell(self.consumed);
        }
        Ok(())
    }

    /// Writes the credit that the peer has.
    pub(super) fn probe<H: Hca>(&self, poster: &mut Poster, hca: &mut H) -> Result<(), Cause> {
        poster.probe(hca, self.credit.told(), TAIL)
    }

    /// How much was written to the peer.
    pub(super) const fn told(&self) -> Told {
        [self.sent, self.credit_written, 0, 0]
    }

    /// Whether so much of the peer's has landed.
    pub(super) fn has_landed(
        &mut self,
        poster: &Poster,
        &[sent, credit, ..]: &Told,
    ) -> Result<bool, Cause> {
        self.notice(poster)?;
        Ok(self.noticed >= sent && poster.counter(TAIL) >= credit)
    }

    /// As [`Slots::progress`]. True: the peer has all of it.
    pub(super) fn drain<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<bool, Cause> {
        self.progress(poster, hca)?;
        let handed = self.are_sent() && !self.credit.is_due(self.consumed);
        Ok(handed && poster.drain(hca, self.credit.told(), TAIL)?)
    }

    /// What the oldest slot that is not consumed holds.
    pub(super) fn front(&mut self, poster: &Poster) -> Result<Option<Front>, Cause> {
        self.notice(poster)?;
        let number = self.consumed + 1;
        let Some((head, payload)) = self.landed(number).look(poster, number)? else {
            return Ok(None);
        };
        let kind = match head.kind {
            0 => Kind::Data,
            1 => Kind::Large,
            2 => Kind::Done,
            found => return Err(corrupt("the kind of a message", found.into(), 2)),
        };
        Ok(Some(Front { kind, length: head.length as usize, payload }))
    }

    /// Copies as much of the front slot's data as `into` has room for. Returns how many bytes, none when it is not data.
    pub(super) fn get<H: Hca>(
        &mut self,
        poster: &Poster,
        hca: &mut H,
        into: &mut Cursor,
    ) -> Result<usize, Cause> {
        let mut got = 0;
        while let Some(Front { kind: Kind::Data, length, payload }) = self.front(poster)? {
            let piece = length.saturating_sub(self.offset).min(into.remaining());
            // SAFETY: the payload has `length` bytes, and the peer does not write them before they are credited.
            unsafe { into.scatter(payload.add(length.min(self.offset)), piece) };
            got += piece;
            self.offset += piece;
            if self.offset < length {
                break;
            }
            self.consume();
        }
        hca.copied(got);
        Ok(got)
    }

    /// Gives the front slot back to the peer: the credit travels later.
    pub(super) const fn consume(&mut self) {
        self.consumed += 1;
        self.offset = 0;
    }

    /// Takes in the credits of slots that have landed since the last look. They need not be consumed for it, so a peer's
    /// credit never waits for this rank's user.
    fn notice(&mut self, poster: &Poster) -> Result<(), Cause> {
        while self.noticed < self.consumed + self.count {
            let next = self.noticed + 1;
            let Some((head, _)) = self.landed(next).look(poster, next)? else { return Ok(()) };
            self.noticed = next;
            if head.credit > self.credited {
                self.take_credit(head.credit)?;
            }
        }
        Ok(())
    }

    fn take_credit(&mut self, found: u64) -> Result<(), Cause> {
        if found > self.filled {
            return Err(corrupt("a credit", found, self.filled));
        }
        self.credited = self.credited.max(found);
        Ok(())
    }

    /// The place of slot `number` of our stream.
    const fn place(&self, number: u64) -> Place {
        let at = self.at(number);
        Place { near: self.staging + at, far: RING + at, length: self.stride }
    }

    /// The place where slot `number` of the peer's stream lands.
    const fn landed(&self, number: u64) -> Place {
        let at = self.at(number);
        Place { near: RING + at, far: self.staging + at, length: self.stride }
    }

    const fn at(&self, number: u64) -> usize {
        ((number - 1) % self.count) as usize * self.stride
    }
}

/// A slot that has landed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    pub(super) kind: Kind,
    pub(super) length: usize,
    pub(super) payload: NonNull<u8>,
}

impl Front {
    /// The announcement that it is.
    pub(super) fn announcement(&self) -> Result<Announcement, Cause> {
        if self.length != ANNOUNCEMENT {
            let what = "the length of an announcement";
            return Err(corrupt(what, self.length as u64, ANNOUNCEMENT as u64));
        }
        // SAFETY: the payload has that many bytes, any of which make an announcement.
        Ok(unsafe { self.payload.cast::<Announcement>().read_unaligned() })
    }
}

pub(super) const fn corrupt(what: &'static str, found: u64, most: u64) -> Cause {
    Cause::Corrupt { what, found, most }
}
