//! Users' memory that a device accesses during a transfer; shared by zero copy and rendezvous.

use core::ptr::NonNull;

use super::announcement::{ANNOUNCEMENT, Announcement};
use super::error::Cause;
use super::pipeline;
use super::poster::Poster;
use super::slot::{SlotKind, Slots};
use crate::buffer::{Cursor, Part};
use crate::hca::{Access, Hca, HcaError, Region, Sge};

/// Minimum number of bytes that are worth a registration.
const LEAST: usize = 4096;

/// A part of a user's buffer, registered for one transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisteredPart {
    pub(super) part: Part,
    region: Region,
}

// SAFETY: the device and one thread at a time use a held part; its owner guarantees that the memory
// is valid.
unsafe impl Send for RegisteredPart {}

impl RegisteredPart {
    /// Registers the start of `part`: `most` bytes, or as many as the system permits. Returns
    /// `None` if it permits none.
    ///
    /// # Safety
    ///
    /// The part is valid for `access` until [`RegisteredPart::release`].
    pub(super) unsafe fn new<H: Hca>(
        hca: &mut H,
        part: Part,
        most: usize,
        access: Access,
    ) -> Result<Option<Self>, Cause> {
        let mut length = part.length.min(most);
        loop {
            // SAFETY: the caller guarantees that the part is valid for `access` (contract of
            // `RegisteredPart::new`).
            match unsafe { hca.register(part.base, length, access) } {
                Ok(region) => {
                    return Ok(Some(Self { part: Part { base: part.base, length }, region }));
                }
                Err(HcaError::Memory { .. }) if length > LEAST => length /= 2,
                Err(HcaError::Memory { .. }) => return Ok(None),
                Err(error) => return Err(Cause::Device(error)),
            }
        }
    }

    /// Deregisters the memory.
    pub(super) fn release<H: Hca>(self, hca: &mut H) -> Result<(), Cause> {
        hca.deregister(self.region).map_err(Cause::Device)
    }

    /// Returns the piece for a request of this rank.
    pub(super) const fn piece(&self) -> Sge {
        let Self { part, region } = self;
        Sge { base: part.base, length: part.length as u32, key: region.local_key }
    }

    /// Returns the announcement for a request of the peer.
    pub(super) fn announcement(&self) -> Announcement {
        Announcement {
            address: self.part.base.addr().get() as u64,
            length: self.part.length as u64,
            key: self.region.remote_key.into(),
        }
    }

    /// Returns an error unless a call that continues this transfer starts with the same buffer.
    pub(super) fn check(&self, again: Option<Part>) -> Result<(), Cause> {
        let same = |part: &Part| part.base == self.part.base && part.length >= self.part.length;
        if again.is_none_or(|part| same(&part)) { Ok(()) } else { Err(Cause::AnotherBuffer) }
    }
}

/// Takes the parts before the first one of at least `large` bytes, as far as there is room. If it
/// took all of them, it also returns that large part, which is next.
pub(super) fn put_small<H: Hca>(
    slots: &mut Slots,
    poster: &mut Poster,
    hca: &mut H,
    from: &[Part],
    large: usize,
) -> Result<(usize, Option<Part>), Cause> {
    let place = from.iter().position(|part| part.length >= large);
    // SAFETY: the parts are valid while `Link::put` runs.
    let small = unsafe { Cursor::parts(&from[..place.unwrap_or(from.len())]) };
    let all = small.remaining();
    let taken = pipeline::put(slots, poster, hca, small)?;
    Ok((taken, place.filter(|_| taken == all).map(|place| from[place])))
}

/// Returns a cursor over the bytes of an announcement, to put them into a slot or a grant.
pub(super) fn cursor(announcement: &Announcement) -> Cursor {
    let part = Part { base: NonNull::from(announcement).cast(), length: ANNOUNCEMENT };
    // SAFETY: the callers use the cursor only while the announcement lives.
    unsafe { Cursor::contiguous(part) }
}

/// Fills a slot with an announcement. The caller has checked that there is room.
pub(super) fn announce<H: Hca>(
    slots: &mut Slots,
    poster: &Poster,
    hca: &mut H,
    announcement: &Announcement,
) {
    slots.fill(poster, hca, SlotKind::Large, &mut cursor(announcement));
}
