//! What an offer says.

use crate::layout::Corrupt;

/// The description of a message that its sender keeps because the receiver has no room for it: the payload of a packet of
/// kind [`super::Kind::Offer`].
///
/// | offset | size | field    | meaning                                              |
/// |-------:|-----:|----------|------------------------------------------------------|
/// |      0 |    8 | `total`  | length of the message, bytes                         |
/// |      8 |    4 | `place`  | the sender's name of the message, for the call       |
/// |     12 |    4 | `number` | which offer from this sender to this receiver; not 0 |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offer {
    /// Length of the message, bytes.
    pub total: usize,
    /// The sender's name of the message.
    pub place: u32,
    /// Tells this use of the name from others; not zero.
    pub number: u32,
}

impl Offer {
    /// Bytes in a packet: they fit the one line of a fastbox.
    pub const LENGTH: usize = 16;

    /// As the payload of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        let total = self.total as u128;
        let word = total | u128::from(self.place) << 64 | u128::from(self.number) << 96;
        word.to_ne_bytes()
    }

    /// Reads an offer that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for a length that no message has, or the number zero.
    pub fn parse(packet: [u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let word = u128::from_ne_bytes(packet);
        let (total, number) = (word as u64, (word >> 96) as u32);
        let length = usize::try_from(total).ok().filter(|total| isize::try_from(*total).is_ok());
        match length {
            Some(total) if number != 0 => Ok(Self { total, place: (word >> 64) as u32, number }),
            _ => Err(Corrupt::Length { found: total, max: isize::MAX as u64 }),
        }
    }
}

static_assertions::const_assert!(Offer::LENGTH <= crate::shm::SHORT_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_gives_its_numbers_back() {
        let offer = Offer { total: 70_000, place: u32::MAX, number: 1 };
        assert_eq!(Offer::parse(offer.pack()), Ok(offer));
    }

    #[test]
    fn an_offer_that_nobody_makes_is_refused() {
        assert!(Offer::parse([0; Offer::LENGTH]).is_err());
        assert!(Offer::parse([0xff; Offer::LENGTH]).is_err());
    }
}
