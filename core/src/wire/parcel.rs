//! What the packet says that hands a parcel over.

use super::Payload;
use crate::layout::{Corrupt, golden};
use crate::shm::{PIECES_MAX, RUN_MAX, Run};
use crate::sync::CACHE_LINE;

/// The description of a part of a message that lies in a run of parcels: the payload of a packet of kind [`super::Kind::Parcel`].
///
/// | offset | size | field    | meaning                                  |
/// |-------:|-----:|----------|------------------------------------------|
/// |      0 |    8 | `total`  | length of the whole message, bytes       |
/// |      8 |    8 | `offset` | place of the part in it, bytes           |
/// |     16 |    4 | `length` | length of the part, bytes; not 0         |
/// |     20 |    2 | `number` | the first of the pair's parcels it is in |
/// |     22 |    2 | `pieces` | pieces that are marked as they come      |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct ParcelHead {
    /// Length of the whole message, bytes.
    pub total: u64,
    /// Place of the part in it, bytes.
    pub offset: u64,
    /// Length of the part, bytes.
    pub length: u32,
    /// The first of the pair's parcels the part lies in.
    pub number: u16,
    /// Pieces that are filled after the packet, each with a mark when it is there; 0: all of the part was there before.
    pub pieces: u16,
}

golden::structure!(ParcelHead { total, offset, length, number, pieces });

// SAFETY: numbers without a gap.
unsafe impl Payload for ParcelHead {}

impl ParcelHead {
    /// Bytes in a packet: they fit the one line of a fastbox.
    pub const LENGTH: usize = 24;

    /// As the payload of a packet.
    #[inline(always)]
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Reads a head that another process wrote. Whether there is such a parcel is for its owner to say.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for a part that no run holds, or that does not lie in its message.
    #[inline(always)]
    pub fn parse(packet: [u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let head = Self::from_bytes(&packet);
        let Self { total, offset, length, pieces, .. } = head;
        if total > isize::MAX as u64 || offset >= total {
            return Err(Corrupt::Length { found: total, max: isize::MAX as u64 });
        }
        let max = (total - offset).min(RUN_MAX as u64);
        if length == 0 || u64::from(length) > max {
            return Err(Corrupt::Length { found: u64::from(length), max });
        }
        if u32::from(pieces) > PIECES_MAX {
            return Err(Corrupt::Length { found: u64::from(pieces), max: u64::from(PIECES_MAX) });
        }
        Ok(head)
    }

    /// The parcels that the part lies in.
    #[inline(always)]
    #[must_use]
    pub const fn run(&self) -> Run {
        Run { number: self.number as u32, length: self.length as usize }
    }

    /// Bytes of each piece but the last: whole lines. Not 0.
    #[inline(always)]
    #[must_use]
    pub const fn piece(&self) -> usize {
        let pieces = if self.pieces == 0 { 1 } else { self.pieces as usize };
        (self.length as usize).div_ceil(pieces).next_multiple_of(CACHE_LINE)
    }
}

static_assertions::const_assert_eq!(size_of::<ParcelHead>(), ParcelHead::LENGTH);
static_assertions::const_assert!(ParcelHead::LENGTH <= crate::shm::SHORT_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_gives_its_numbers_back() {
        let (total, offset, length) = (70_000, 65_536, 4464);
        let head = ParcelHead { total, offset, length, number: 3, pieces: 2 };
        assert_eq!(ParcelHead::parse(head.pack()), Ok(head));
        assert_eq!(head.piece(), 2240);
    }

    #[test]
    fn a_part_that_cannot_be_is_refused() {
        let length = RUN_MAX as u32;
        let good = ParcelHead { total: 70_000, offset: 0, length, number: 0, pieces: 4 };
        assert!(ParcelHead::parse(good.pack()).is_ok());
        for bad in [
            ParcelHead { length: 0, ..good },
            ParcelHead { length: RUN_MAX as u32 + 1, ..good },
            ParcelHead { offset: 60_000, ..good },
            ParcelHead { offset: 70_000, ..good },
            ParcelHead { total: u64::MAX, ..good },
            ParcelHead { pieces: 5, ..good },
        ] {
            assert!(ParcelHead::parse(bad.pack()).is_err(), "{bad:?}");
        }
    }
}
