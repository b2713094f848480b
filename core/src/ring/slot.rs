//! Slots: places of fixed size for the chunks of a stream, in which messages arrive one after the
//! other (`[RdmaChannel04]` §4.3).
//!
//! A slot is filled from the bottom: payload, [`Landing`], end. The flag is therefore always in the
//! same place, and one write carries payload, size, credit and flag. For a device that guarantees
//! no order within a write, the flag is a write of its own. Slot `n` of a stream, counted from 1,
//! is at index `(n - 1) % slots` of the ring.

use core::ptr::NonNull;

use super::announcement::{ANNOUNCEMENT, Announcement};
use super::config::{LinkConfig, RING, TAIL};
use super::credit::Credit;
use super::error::Cause;
use super::landing::{Landing, LandingHead};
use super::poster::Poster;
use super::wakeup::WriteCounts;
use crate::buffer::Cursor;
use crate::hca::Hca;

/// The kind of a slot's payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(super) enum SlotKind {
    /// Bytes of the stream.
    Data = 0,
    /// An [`Announcement`] of bytes that are transferred separately.
    Large = 1,
    /// An empty payload: the bytes of the last grant are written.
    Done = 2,
}

/// A place for one message, with its offsets in the memory of both sides and its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotLocation {
    pub(super) near: usize,
    pub(super) far: usize,
    pub(super) length: usize,
}

impl SlotLocation {
    const fn landing(&self) -> usize {
        self.near + self.length - size_of::<Landing>()
    }

    /// Writes the message's image into this side's memory, payload first.
    ///
    /// # Safety
    ///
    /// No request reads the place.
    pub(super) unsafe fn fill(
        &self,
        poster: &Poster,
        head: LandingHead,
        number: u64,
        from: &mut Cursor,
    ) {
        let landing = self.landing();
        // SAFETY: the place is in the lent memory, and no request reads it now (contract of
        // `fill`). The payload fits before the landing, which is 8-aligned and has the layout of
        // these two values.
        unsafe {
            from.gather(poster.at(landing - head.length as usize), head.length as usize);
            poster.at(landing).cast::<LandingHead>().write(head);
            poster.at(landing + size_of::<LandingHead>()).cast::<u64>().write(number);
        }
    }

    /// Returns the payload length in bytes of the message that the image holds.
    fn filled_length(&self, poster: &Poster) -> usize {
        // SAFETY: the place is in the lent memory. Only devices of this rank access its image, and
        // only read it.
        unsafe { poster.at(self.landing()).cast::<LandingHead>().read() }.length as usize
    }

    /// Sends the image to the peer in one write, or in two if the flag needs its own. Returns false
    /// if that is not possible now, or only in part; `half` remembers the first write.
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
            // SAFETY: the image is filled again only after `mark` is done.
            return unsafe { poster.write(hca, ways(start), whole, mark) };
        }
        let body = self.length - FLAG - start;
        if !*half {
            // SAFETY: the image is filled again only after `mark` is done, and this write precedes
            // that of the flag.
            *half = unsafe { poster.write(hca, ways(start), body, poster.mark()) }?;
        }
        // SAFETY: the flag is part of the image, which is filled again only after `mark` is done.
        if *half && unsafe { poster.write_flag(hca, ways(self.length - FLAG), mark) }? {
            *half = false;
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns head and payload of the message that has arrived in this place of the ring, if it is
    /// message `number`.
    pub(super) fn look(
        &self,
        poster: &Poster,
        number: u64,
    ) -> Result<Option<(LandingHead, NonNull<u8>)>, Cause> {
        let at = self.landing();
        // SAFETY: the place is in the lent memory, 8-aligned, and only the peer's device writes it.
        let landing = unsafe { poster.at(at).cast::<Landing>().as_ref() };
        if !landing.holds(number) {
            return Ok(None);
        }
        // SAFETY: the message has arrived, and the caller has not given its credit.
        let head = unsafe { landing.head() };
        let most = (self.length - size_of::<Landing>()) as u64;
        if u64::from(head.length) > most {
            let (what, found) = ("the length of a message", head.length.into());
            return Err(Cause::Corrupt { what, found, most });
        }
        Ok(Some((head, poster.at(at - head.length as usize))))
    }
}

/// Both streams of slots of a link. Numbers count slots from the start of a stream.
#[derive(Debug)]
pub(super) struct Slots {
    count: u64,
    stride: usize,
    chunk: usize,
    staging: usize,
    /// Number of slots filled with a message.
    filled: u64,
    /// Number of slots that the device has taken.
    sent: u64,
    /// True if the device has taken everything but the flag of the next slot.
    half: bool,
    /// Number of slots that the peer has consumed, as far as it has reported.
    credited: u64,
    /// Number of slots that were seen to have arrived; their credits are counted.
    noticed: u64,
    /// Number of slots consumed.
    consumed: u64,
    /// Number of bytes consumed of the next slot.
    offset: usize,
    credit: Credit,
    /// The last credit that was written by a request of its own.
    credit_written: u64,
}

impl Slots {
    pub(super) const fn new(config: &LinkConfig) -> Self {
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

    /// Returns the number of slots that may be filled now. Polls for credits first.
    pub(super) fn room(&mut self, poster: &Poster) -> Result<u64, Cause> {
        self.notice(poster)?;
        self.take_credit(poster.counter(TAIL))?;
        Ok(self.count - (self.filled - self.credited.min(poster.done_mark())))
    }

    /// Fills the next slot with at most one chunk of `from` and returns the number of bytes. The
    /// caller has checked that there is room.
    pub(super) fn fill<H: Hca>(
        &mut self,
        poster: &Poster,
        hca: &mut H,
        kind: SlotKind,
        from: &mut Cursor,
    ) -> usize {
        let length = from.remaining().min(self.chunk);
        self.filled += 1;
        let credit = self.credit.tell(self.consumed);
        let head = LandingHead { length: length as u32, kind: kind as u32, credit };
        // SAFETY: `room` ensured that the peer has consumed the slot's previous contents and that
        // our device no longer reads them.
        unsafe { self.place(self.filled).fill(poster, head, self.filled, from) };
        hca.copied(length);
        length
    }

    /// Returns true if the device has taken all filled slots.
    pub(super) const fn are_sent(&self) -> bool {
        self.sent == self.filled
    }

    /// Posts filled slots, as far as the device takes them, and the credit if it is due.
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

    /// Writes the credit that the peer already has.
    pub(super) fn probe<H: Hca>(&self, poster: &mut Poster, hca: &mut H) -> Result<(), Cause> {
        poster.probe(hca, self.credit.told(), TAIL)
    }

    /// Returns how much was written to the peer.
    pub(super) const fn told(&self) -> WriteCounts {
        [self.sent, self.credit_written, 0, 0]
    }

    /// Returns true if this much of the peer's writes has arrived.
    pub(super) fn has_landed(
        &mut self,
        poster: &Poster,
        &[sent, credit, ..]: &WriteCounts,
    ) -> Result<bool, Cause> {
        self.notice(poster)?;
        Ok(self.noticed >= sent && poster.counter(TAIL) >= credit)
    }

    /// Calls [`Slots::progress`]. Returns true once the peer has everything.
    pub(super) fn drain<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<bool, Cause> {
        self.progress(poster, hca)?;
        let handed = self.are_sent() && !self.credit.is_due(self.consumed);
        Ok(handed && poster.drain(hca, self.credit.told(), TAIL)?)
    }

    /// Returns the contents of the oldest slot that is not consumed.
    pub(super) fn front(&mut self, poster: &Poster) -> Result<Option<LandedSlot>, Cause> {
        self.notice(poster)?;
        let number = self.consumed + 1;
        let Some((head, payload)) = self.landed(number).look(poster, number)? else {
            return Ok(None);
        };
        let kind = match head.kind {
            0 => SlotKind::Data,
            1 => SlotKind::Large,
            2 => SlotKind::Done,
            found => return Err(corrupt("the kind of a message", found.into(), 2)),
        };
        Ok(Some(LandedSlot { kind, length: head.length as usize, payload }))
    }

    /// Copies as much data of the front slots as `into` has room for. Returns the number of bytes,
    /// which is zero if the front slot holds no data.
    pub(super) fn get<H: Hca>(
        &mut self,
        poster: &Poster,
        hca: &mut H,
        into: &mut Cursor,
    ) -> Result<usize, Cause> {
        let mut got = 0;
        while let Some(LandedSlot { kind: SlotKind::Data, length, payload }) = self.front(poster)? {
            let piece = length.saturating_sub(self.offset).min(into.remaining());
            // SAFETY: the payload has `length` bytes, and the peer does not write them before they
            // are credited.
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

    /// Returns the front slot to the peer. The credit is sent later.
    pub(super) const fn consume(&mut self) {
        self.consumed += 1;
        self.offset = 0;
    }

    /// Counts the credits of slots that have arrived since the last poll. A slot need not be
    /// consumed for that, so a peer's credit never waits for this rank's user.
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

    /// Returns the place of slot `number` of our stream.
    const fn place(&self, number: u64) -> SlotLocation {
        let at = self.at(number);
        SlotLocation { near: self.staging + at, far: RING + at, length: self.stride }
    }

    /// Returns the place where slot `number` of the peer's stream arrives.
    const fn landed(&self, number: u64) -> SlotLocation {
        let at = self.at(number);
        SlotLocation { near: RING + at, far: self.staging + at, length: self.stride }
    }

    const fn at(&self, number: u64) -> usize {
        ((number - 1) % self.count) as usize * self.stride
    }
}

/// A slot that has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct LandedSlot {
    pub(super) kind: SlotKind,
    pub(super) length: usize,
    pub(super) payload: NonNull<u8>,
}

impl LandedSlot {
    /// Returns the announcement in the slot.
    pub(super) fn announcement(&self) -> Result<Announcement, Cause> {
        if self.length != ANNOUNCEMENT {
            let what = "the length of an announcement";
            return Err(corrupt(what, self.length as u64, ANNOUNCEMENT as u64));
        }
        // SAFETY: the payload has that many bytes, and any bytes are a valid announcement.
        Ok(unsafe { self.payload.cast::<Announcement>().read_unaligned() })
    }
}

pub(super) const fn corrupt(what: &'static str, found: u64, most: u64) -> Cause {
    Cause::Corrupt { what, found, most }
}
