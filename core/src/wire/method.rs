//! The heads of packets between the two sides of a message that a
//! [`crate::lmt::TransferMethod`] moves. A cookie follows each head.

use super::{Corrupt, Offer, WirePayload};
use crate::golden;

/// Head of an RTS of a transfer method ([`super::PacketKind::MethodRts`]).
///
/// | offset | size | field    | meaning                                                |
/// |-------:|-----:|----------|--------------------------------------------------------|
/// |      0 |    8 | `total`  | length of the message, bytes                           |
/// |      8 |    4 | `place`  | the sender's identifier of the message, as in an offer |
/// |     12 |    4 | `number` | number of the offer; not 0                             |
/// |     16 |    8 | `name`   | the sender's name of the transfer                      |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct MethodRts {
    /// Length of the message, in bytes.
    pub total: u64,
    /// The sender's identifier of the message, with which the receiver may pull it as an offer.
    pub place: u32,
    /// Number of the offer; not zero.
    pub number: u32,
    /// The sender's name of the transfer.
    pub name: u64,
}

golden::structure!(MethodRts { total, place, number, name });

// SAFETY: all fields are integers, and there is no padding.
unsafe impl WirePayload for MethodRts {}

impl MethodRts {
    /// Size in bytes in a packet.
    pub const LENGTH: usize = 24;

    /// Returns the head of the RTS of a message that can also be pulled as `offer`.
    #[must_use]
    pub const fn new(offer: Offer, name: u64) -> Self {
        let Offer { total, place, number } = offer;
        Self { total, place, number, name }
    }

    /// Returns the head as bytes of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Parses a head that another process wrote. Returns the offer and the name.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for an offer that no sender makes.
    pub fn parse(head: &[u8; Self::LENGTH]) -> Result<(Offer, u64), Corrupt> {
        let Self { total, place, number, name } = Self::from_bytes(head);
        Ok((Offer::parse(Offer { total, place, number }.pack())?, name))
    }
}

/// Head of a CTS, COOKIE or DONE of a transfer method.
///
/// | offset | size | field   | meaning                                                           |
/// |-------:|-----:|---------|-------------------------------------------------------------------|
/// |      0 |    8 | `to`    | the addressed side's name of the transfer                         |
/// |      8 |    8 | `from`  | the name on the side that sends the packet                        |
/// |     16 |    8 | `bytes` | CTS: bytes that the receive takes; DONE: 1 if complete; COOKIE: 0 |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct MethodHead {
    /// The addressed side's name of the transfer.
    pub to: u64,
    /// The name of the transfer on the side that sends the packet.
    pub from: u64,
    /// Bytes that the receive takes, or whether the transfer is complete.
    pub bytes: u64,
}

golden::structure!(MethodHead { to, from, bytes });

// SAFETY: all fields are integers, and there is no padding.
unsafe impl WirePayload for MethodHead {}

impl MethodHead {
    /// Size in bytes in a packet.
    pub const LENGTH: usize = 24;

    /// Returns the head as bytes of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Reads a head that another process wrote. Every value is possible: a name that belongs to no
    /// transfer is that of one that is over.
    #[must_use]
    pub fn read(head: &[u8; Self::LENGTH]) -> Self {
        Self::from_bytes(head)
    }
}

static_assertions::const_assert_eq!(size_of::<MethodRts>(), MethodRts::LENGTH);
static_assertions::const_assert_eq!(size_of::<MethodHead>(), MethodHead::LENGTH);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_give_their_numbers_back() {
        let offer = Offer { total: 1 << 40, place: 3, number: 9 };
        assert_eq!(MethodRts::parse(&MethodRts::new(offer, 77).pack()), Ok((offer, 77)));
        let head = MethodHead { to: 1, from: u64::MAX, bytes: 5 };
        assert_eq!(MethodHead::read(&head.pack()), head);
    }

    #[test]
    fn an_impossible_announcement_is_refused() {
        assert!(MethodRts::parse(&[0; MethodRts::LENGTH]).is_err());
        assert!(MethodRts::parse(&[0xff; MethodRts::LENGTH]).is_err());
    }
}
