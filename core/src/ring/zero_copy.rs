//! The zero-copy design: the receiver reads large parts directly into its user's buffer
//! (`[RdmaChannel04]` §5).
//!
//! Small parts go through slots. For a large part, the sender registers the user's memory and puts
//! its address into a slot. When its user's buffer is there, the receiver registers it, reads, and
//! writes an acknowledgement. The acknowledgement is a counter and does not wait behind slots.
//! `put` counts the part when it is acknowledged; `get` counts the bytes as their reads complete.

use super::config::{FETCHED, LinkConfig};
use super::error::Cause;
use super::large::{RegisteredPart, announce, put_small};
use super::pipeline;
use super::poster::Poster;
use super::slot::{SlotKind, Slots, corrupt};
use super::wakeup::WriteCounts;
use crate::buffer::{Cursor, Part};
use crate::hca::{Access, Hca, HcaError, RemoteAddress};

/// Both streams of a link.
#[derive(Debug)]
pub(super) struct ZeroCopy {
    slots: Slots,
    large: usize,
    /// The part that the peer reads, and the number of such parts so far.
    offered: Option<RegisteredPart>,
    offers: u64,
    /// The read in flight, and its request.
    reading: Option<(RegisteredPart, u64)>,
    /// Number of bytes read of the front announcement.
    offset: u64,
    /// Number of the peer's parts that were read completely, and number of those reported to the
    /// peer.
    fetched: u64,
    told: u64,
}

impl ZeroCopy {
    pub(super) const fn new(config: &LinkConfig) -> Self {
        Self {
            slots: Slots::new(config),
            large: config.large as usize,
            offered: None,
            offers: 0,
            reading: None,
            offset: 0,
            fetched: 0,
            told: 0,
        }
    }

    pub(super) const fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) const fn holds_put(&self) -> bool {
        self.offered.is_some()
    }

    pub(super) const fn holds_get(&self) -> bool {
        self.reading.is_some()
    }

    /// Takes small parts as far as there is room, and a large part once the peer has read it.
    pub(super) fn put<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        from: &[Part],
    ) -> Result<usize, Cause> {
        self.progress(poster, hca)?;
        if let Some(held) = self.offered {
            held.check(from.iter().find(|part| part.length > 0).copied())?;
            return Ok(self.settle(poster, hca)?.unwrap_or(0));
        }
        let (mut taken, large) = put_small(&mut self.slots, poster, hca, from, self.large)?;
        if let Some(part) = large
            && !self.offer(poster, hca, part)?
        {
            // The system registers no more memory, so the part goes through the slots, like a small
            // one.
            // SAFETY: the part is valid while `Link::put` runs.
            let cursor = unsafe { Cursor::contiguous(part) };
            taken += pipeline::put(&mut self.slots, poster, hca, cursor)?;
        }
        Ok(taken)
    }

    /// Counts the offered part, if the peer has read it.
    pub(super) fn settle<H: Hca>(
        &mut self,
        poster: &Poster,
        hca: &mut H,
    ) -> Result<Option<usize>, Cause> {
        let Some(held) = self.offered else { return Ok(None) };
        if !self.is_fetched(poster)? {
            return Ok(None);
        }
        held.release(hca)?;
        self.offered = None;
        Ok(Some(held.part.length))
    }

    /// Announces a large part, if there is room. Returns false if its memory cannot be registered.
    fn offer<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        part: Part,
    ) -> Result<bool, Cause> {
        if self.slots.room(poster)? == 0 {
            return Ok(true);
        }
        let access = Access { remote_read: true, ..Access::LOCAL_READ };
        // SAFETY: the part is valid until it is counted (contract of `Link::put`), and is released
        // then or in `finalize`.
        let Some(held) = (unsafe { RegisteredPart::new(hca, part, poster.longest(), access) })?
        else {
            return Ok(false);
        };
        announce(&mut self.slots, poster, hca, &held.announcement());
        self.offers += 1;
        self.offered = Some(held);
        self.slots.progress(poster, hca)?;
        Ok(true)
    }

    /// Returns true if the peer has read the part that was offered last.
    fn is_fetched(&self, poster: &Poster) -> Result<bool, Cause> {
        let found = poster.counter(FETCHED);
        if found > self.offers {
            return Err(corrupt("the number of parts that were read", found, self.offers));
        }
        Ok(found == self.offers)
    }

    /// Delivers bytes that have arrived, and starts to read announced parts.
    pub(super) fn get<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        mut into: Cursor,
    ) -> Result<usize, Cause> {
        let mut got = 0;
        loop {
            if let Some((held, request)) = self.reading {
                held.check(into.first())?;
                if !poster.is_done(request) || into.first().is_none() {
                    return Ok(got);
                }
                held.release(hca)?;
                self.reading = None;
                self.offset += held.part.length as u64;
                got += held.part.length;
                into = into.after(held.part.length);
            }
            let Some(front) = self.slots.front(poster)? else { return Ok(got) };
            let bytes = match front.kind {
                SlotKind::Data => self.slots.get(poster, hca, &mut into)?,
                SlotKind::Large => {
                    let announced = front.announcement()?;
                    match announced.length.checked_sub(self.offset) {
                        Some(0) => self.finish(),
                        Some(left) => {
                            let at = announced.remote();
                            let address = at.address.wrapping_add(self.offset);
                            let from = RemoteAddress { address, ..at };
                            if !self.read(poster, hca, into.first(), from, left)? {
                                return Ok(got);
                            }
                        }
                        None => {
                            let what = "the length of an announcement";
                            return Err(corrupt(what, announced.length, u64::MAX));
                        }
                    }
                    continue;
                }
                SlotKind::Done => return Err(corrupt("the kind of a message", 2, 1)),
            };
            got += bytes;
            if bytes == 0 && into.first().is_none() {
                return Ok(got);
            }
        }
    }

    /// Notes that the front announcement is read completely.
    const fn finish(&mut self) {
        self.slots.consume();
        self.offset = 0;
        self.fetched += 1;
    }

    /// Starts to read up to `left` bytes into `part`. Returns false if that is not possible now.
    fn read<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        part: Option<Part>,
        from: RemoteAddress,
        left: u64,
    ) -> Result<bool, Cause> {
        let Some(part) = part else { return Ok(false) };
        let most = poster.longest().min(usize::try_from(left).unwrap_or(usize::MAX));
        // SAFETY: the part is valid until it is counted (contract of `Link::get`), and is released
        // then or in `finalize`.
        let held = unsafe { RegisteredPart::new(hca, part, most, Access::LOCAL) }?
            .ok_or(Cause::Device(HcaError::Memory { bytes: part.length as u64 }))?;
        // SAFETY: the part is registered, and valid until it is counted or released.
        let posted = unsafe { poster.transfer(hca, held.piece(), from, true) };
        if let Ok(Some(request)) = posted {
            self.reading = Some((held, request));
        } else {
            held.release(hca)?;
        }
        posted.map(|request| request.is_some())
    }

    /// Posts everything that the device has not taken yet: slots, credit, acknowledgement.
    pub(super) fn progress<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<(), Cause> {
        if self.told < self.fetched && poster.write_word(hca, self.fetched, FETCHED)? {
            self.told = self.fetched;
        }
        self.slots.progress(poster, hca)
    }

    /// Returns how much was written to the peer.
    pub(super) const fn told(&self) -> WriteCounts {
        let [sent, credit, ..] = self.slots.told();
        [sent, credit, self.told, 0]
    }

    /// Returns true if this much of the peer's writes has arrived.
    pub(super) fn has_landed(
        &mut self,
        poster: &Poster,
        told: &WriteCounts,
    ) -> Result<bool, Cause> {
        Ok(poster.counter(FETCHED) >= told[2] && self.slots.has_landed(poster, told)?)
    }

    /// Calls [`ZeroCopy::progress`]. Returns true once the peer has everything.
    pub(super) fn drain<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<bool, Cause> {
        self.progress(poster, hca)?;
        Ok(self.told == self.fetched && self.slots.drain(poster, hca)?)
    }

    /// Deregisters all users' memory. The connection is closed.
    pub(super) fn finalize<H: Hca>(self, hca: &mut H) -> Result<(), Cause> {
        let reading = self.reading.map(|(held, _)| held);
        self.offered.into_iter().chain(reading).try_for_each(|held| held.release(hca))
    }
}
