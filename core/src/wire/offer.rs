//! The payload of an offer packet.

use super::{Corrupt, WirePayload};
use crate::golden;

/// Describes a message that its sender keeps because the receiver has no room for it. It is the
/// payload of a packet of kind [`super::PacketKind::Offer`].
///
/// | offset | size | field    | meaning                                              |
/// |-------:|-----:|----------|------------------------------------------------------|
/// |      0 |    8 | `total`  | length of the message, bytes                         |
/// |      8 |    4 | `place`  | the sender's identifier of the message             |
/// |     12 |    4 | `number` | which offer from this sender to this receiver; not 0 |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Offer {
    /// Length of the message, in bytes.
    pub total: u64,
    /// The sender's identifier of the message.
    pub place: u32,
    /// A number that distinguishes this use of the identifier from others; not zero.
    pub number: u32,
}

golden::structure!(Offer { total, place, number });

// SAFETY: all fields are integers, and there is no padding.
unsafe impl WirePayload for Offer {}

impl Offer {
    /// Size in bytes in a packet. It fits the single line of a fastbox.
    pub const LENGTH: usize = 16;

    /// Returns the offer as the payload of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Parses an offer that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for a length that no message has, or for the number zero.
    pub fn parse(packet: [u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let offer = Self::from_bytes(&packet);
        if offer.total > isize::MAX as u64 || offer.number == 0 {
            return Err(Corrupt::Length { found: offer.total, max: isize::MAX as u64 });
        }
        Ok(offer)
    }
}

static_assertions::const_assert_eq!(size_of::<Offer>(), Offer::LENGTH);
static_assertions::const_assert!(Offer::LENGTH <= super::SHORT_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_gives_its_numbers_back() {
        let offer = Offer { total: 70_000, place: u32::MAX, number: 1 };
        assert_eq!(Offer::parse(offer.pack()), Ok(offer));
    }

    #[test]
    fn an_impossible_offer_is_refused() {
        assert!(Offer::parse([0; Offer::LENGTH]).is_err());
        assert!(Offer::parse([0xff; Offer::LENGTH]).is_err());
    }
}
