//! What zero copy and rendezvous have in common: users' memory that the device reaches while a transfer lasts.

use core::ptr::NonNull;

use super::error::Cause;
use super::pipeline;
use super::poster::Poster;
use super::slot::{ANNOUNCEMENT, Announcement, Kind, Slots};
use crate::hca::{Access, Hca, HcaError, Piece, Region};
use crate::progress::{Cursor, Part};

/// Less than this is not worth a registration of its own, bytes.
const LEAST: usize = 4096;

/// A part of a user's buffer, registered for one transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) part: Part,
    region: Region,
}

// SAFETY: a held part is used by the device, and by one thread at a time; its owner vouches for the memory.
unsafe impl Send for Held {}

impl Held {
    /// Registers the beginning of `part`: `most` bytes, or as much as the system lets. `None`: it lets nothing.
    ///
    /// # Safety
    ///
    /// The part is valid for `access` until [`Held::release`].
    pub(super) unsafe fn new<H: Hca>(
        hca: &mut H,
        part: Part,
        most: usize,
        access: Access,
    ) -> Result<Option<Self>, Cause> {
        let mut length = part.length.min(most);
        loop {
            // SAFETY: by the contract.
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

    /// Gives the registration back.
    pub(super) fn release<H: Hca>(self, hca: &mut H) -> Result<(), Cause> {
        hca.deregister(self.region).map_err(Cause::Device)
    }

    /// What a request of this rank names.
    pub(super) const fn piece(&self) -> Piece {
        let Self { part, region } = self;
        Piece { base: part.base, length: part.length as u32, key: region.local_key }
    }

    /// What a peer's request names.
    pub(super) fn announcement(&self) -> Announcement {
        Announcement {
            address: self.part.base.addr().get() as u64,
            length: self.part.length as u64,
            key: self.region.remote_key.into(),
        }
    }

    /// Whether a call that goes on with this transfer begins with the same buffer.
    pub(super) fn check(&self, again: Option<Part>) -> Result<(), Cause> {
        let same = |part: &Part| part.base == self.part.base && part.length >= self.part.length;
        if again.is_none_or(|part| same(&part)) { Ok(()) } else { Err(Cause::AnotherBuffer) }
    }
}

/// Takes the parts before the first one of at least `large` bytes, as far as there is room. Also that one, when they are all in:
/// it is next.
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

/// The bytes of an announcement, to put into a slot or a grant.
pub(super) fn cursor(announcement: &Announcement) -> Cursor {
    let part = Part { base: NonNull::from(announcement).cast(), length: ANNOUNCEMENT };
    // SAFETY: the callers use the cursor while the announcement lives.
    unsafe { Cursor::contiguous(part) }
}

/// Fills a slot with an announcement. There has to be room.
pub(super) fn announce<H: Hca>(
    slots: &mut Slots,
    poster: &Poster,
    hca: &mut H,
    announcement: &Announcement,
) {
    slots.fill(poster, hca, Kind::Large, &mut cursor(announcement));
}
