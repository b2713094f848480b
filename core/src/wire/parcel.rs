//! The payload of the packet that hands over a parcel.

use super::{Corrupt, WirePayload};
use crate::golden;
use crate::sync::CACHE_LINE;

/// Size of a parcel in bytes.
pub const PARCEL: usize = 16 * 1024;

/// Largest number of parcels of a pair.
pub const PARCELS_MAX: u32 = u64::BITS;

/// Largest number of pieces of a run; each parcel has this many marks.
pub const PIECES_MAX: u32 = 4;

/// Size in bytes of the longest run: four parcels.
pub const RUN_MAX: usize = 4 * PARCEL;

/// Consecutive parcels that hold one part of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParcelRun {
    /// Number of the first parcel, less than [`PARCELS_MAX`].
    pub number: u32,
    /// Number of bytes in the run, from 1 to [`RUN_MAX`].
    pub length: usize,
}

impl ParcelRun {
    /// Returns a mask in which bit n is set if the run contains parcel n.
    pub(crate) const fn bits(self) -> u64 {
        ((1 << parcels_of(self.length)) - 1) << self.number
    }
}

/// Returns the number of parcels that hold `length` bytes.
pub(crate) const fn parcels_of(length: usize) -> u32 {
    length.div_ceil(PARCEL) as u32
}

/// Describes a part of a message that lies in a run of parcels. It is the payload of a packet of
/// kind [`super::PacketKind::Parcel`].
///
/// | offset | size | field    | meaning                                  |
/// |-------:|-----:|----------|------------------------------------------|
/// |      0 |    8 | `total`  | length of the whole message, bytes       |
/// |      8 |    8 | `offset` | place of the part in it, bytes           |
/// |     16 |    4 | `length` | length of the part, bytes; not 0         |
/// |     20 |    1 | `number` | the first of the pair's parcels it is in |
/// |     21 |    1 | `asks`   | not 0: the message is synchronous        |
/// |     22 |    1 | `pieces` | pieces that are marked as they come      |
/// |     23 |    1 | `lent`   | not 0: the receiver returns the parcels  |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct ParcelHead {
    /// Length of the whole message, in bytes.
    pub total: u64,
    /// Offset of the part in the message, in bytes.
    pub offset: u64,
    /// Length of the part, in bytes.
    pub length: u32,
    /// The first of the pair's parcels that hold the part.
    pub number: u8,
    /// Not zero if the receiver answers when the receive has started, as it does to a packet of
    /// kind [`super::PacketKind::Synchronous`].
    pub asks: u8,
    /// Number of pieces that are filled after the packet is sent, each with a mark once it is
    /// complete. Zero means that the whole part was complete before.
    pub pieces: u8,
    /// Not zero if the receiver returns the parcels when it has read them. Else it keeps them.
    pub lent: u8,
}

golden::structure!(ParcelHead { total, offset, length, number, asks, pieces, lent });

// SAFETY: all fields are integers, and there is no padding.
unsafe impl WirePayload for ParcelHead {}

impl ParcelHead {
    /// Size in bytes in a packet. It fits the single line of a fastbox.
    pub const LENGTH: usize = 24;

    /// Returns the head as the payload of a packet.
    #[inline(always)]
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Parses a head that another process wrote. The parcels' owner checks whether such a parcel
    /// exists.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for a part that no run holds, that lies outside its message, or that has
    /// too many pieces.
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

    /// Returns the run of parcels that holds the part.
    #[inline(always)]
    #[must_use]
    pub const fn run(&self) -> ParcelRun {
        ParcelRun { number: self.number as u32, length: self.length as usize }
    }

    /// Returns the size in bytes of each piece but the last: a non-zero number of whole lines.
    #[inline(always)]
    #[must_use]
    pub const fn piece(&self) -> usize {
        let pieces = if self.pieces == 0 { 1 } else { self.pieces as usize };
        (self.length as usize).div_ceil(pieces).next_multiple_of(CACHE_LINE)
    }
}

static_assertions::const_assert_eq!(size_of::<ParcelHead>(), ParcelHead::LENGTH);
static_assertions::const_assert!(ParcelHead::LENGTH <= super::SHORT_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_gives_its_numbers_back() {
        let (total, offset, length) = (70_000, 65_536, 4464);
        let head = ParcelHead { total, offset, length, number: 3, asks: 1, pieces: 2, lent: 1 };
        assert_eq!(ParcelHead::parse(head.pack()), Ok(head));
        assert_eq!(head.piece(), 2240);
    }

    #[test]
    fn a_part_that_cannot_be_is_refused() {
        let length = RUN_MAX as u32;
        let (total, offset) = (70_000, 0);
        let good = ParcelHead { total, offset, length, number: 0, asks: 0, pieces: 4, lent: 0 };
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
