//! What the packet says that hands a parcel over.

use super::Payload;
use crate::layout::{Corrupt, golden};
use crate::shm::PARCEL;

/// The description of a part of a message that lies in a parcel: the payload of a packet of kind [`super::Kind::Parcel`].
///
/// | offset | size | field    | meaning                              |
/// |-------:|-----:|----------|--------------------------------------|
/// |      0 |    8 | `total`  | length of the whole message, bytes   |
/// |      8 |    8 | `offset` | place of the part in it, bytes       |
/// |     16 |    4 | `length` | length of the part, bytes; not 0     |
/// |     20 |    4 | `number` | which of the pair's parcels it is in |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct ParcelHead {
    /// Length of the whole message, bytes.
    pub total: u64,
    /// Place of the part in it, bytes.
    pub offset: u64,
    /// Length of the part, bytes.
    pub length: u32,
    /// Which of the pair's parcels the part lies in.
    pub number: u32,
}

golden::structure!(ParcelHead { total, offset, length, number });

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
    /// [`Corrupt::Length`] for a part that no parcel holds, or that does not lie in its message.
    #[inline(always)]
    pub fn parse(packet: [u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let head = Self::from_bytes(&packet);
        let Self { total, offset, length, .. } = head;
        if total > isize::MAX as u64 || offset >= total {
            return Err(Corrupt::Length { found: total, max: isize::MAX as u64 });
        }
        let max = (total - offset).min(PARCEL as u64);
        if length == 0 || u64::from(length) > max {
            return Err(Corrupt::Length { found: u64::from(length), max });
        }
        Ok(head)
    }
}

static_assertions::const_assert_eq!(size_of::<ParcelHead>(), ParcelHead::LENGTH);
static_assertions::const_assert!(ParcelHead::LENGTH <= crate::shm::SHORT_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_gives_its_numbers_back() {
        let head = ParcelHead { total: 70_000, offset: 65_536, length: 4464, number: 3 };
        assert_eq!(ParcelHead::parse(head.pack()), Ok(head));
    }

    #[test]
    fn a_part_that_cannot_be_is_refused() {
        let good = ParcelHead { total: 70_000, offset: 0, length: PARCEL as u32, number: 0 };
        assert!(ParcelHead::parse(good.pack()).is_ok());
        for bad in [
            ParcelHead { length: 0, ..good },
            ParcelHead { length: PARCEL as u32 + 1, ..good },
            ParcelHead { offset: 60_000, ..good },
            ParcelHead { offset: 70_000, ..good },
            ParcelHead { total: u64::MAX, ..good },
        ] {
            assert!(ParcelHead::parse(bad.pack()).is_err(), "{bad:?}");
        }
    }
}
