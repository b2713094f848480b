//! What stands before a message in the stream of bytes to a rank on another node.

use super::{Key, Offer};
use crate::layout::Corrupt;

/// The head of a packet in a stream. Kinds that say so are followed by the bytes of a message.
///
/// | offset | size | field    | meaning                                                       |
/// |-------:|-----:|----------|---------------------------------------------------------------|
/// |      0 |    8 | `key`    | context (upper 32 bits) and tag; kinds 0 to 2                 |
/// |      8 |    8 | `total`  | length of the message, bytes; kinds 0 to 2                    |
/// |     16 |    4 | `place`  | the sender's name of an offered message; kinds 2 and 3        |
/// |     20 |    4 | `number` | which offer from its sender to its receiver; kinds 2 and 3    |
/// |     24 |    4 | `kind`   | 0 message, 1 called, 2 offer, 3 call, 4 keep, 5 send, 6 leave |
/// |     28 |    4 |          | zero                                                          |
///
/// Numbers have their low byte first, and fields that a kind does not use are zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StreamHead {
    /// A message. Its bytes follow.
    Message {
        /// Its context and tag.
        key: Key,
        /// Its length, bytes.
        total: usize,
    },
    /// The message that was called for. Its bytes follow.
    Called {
        /// Its context and tag.
        key: Key,
        /// Its length, bytes.
        total: usize,
    },
    /// A message that its sender keeps until it is called for.
    Offer {
        /// Its context and tag.
        key: Key,
        /// Length and name.
        offer: Offer,
    },
    /// The receive for an offered message is there.
    Call {
        /// [`Offer::place`].
        place: u32,
        /// [`Offer::number`].
        number: u32,
    },
    /// There is no room for messages that nobody waits for: keep them, and offer them.
    Keep,
    /// There is room again.
    Send,
    /// The last packet: its sender has left in good order.
    Leave,
}

impl StreamHead {
    /// Bytes of a head.
    pub const LENGTH: usize = 32;

    /// As it travels.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        let none = Key(0);
        let (kind, key, total, place, number) = match self {
            Self::Message { key, total } => (0, key, total as u64, 0, 0),
            Self::Called { key, total } => (1, key, total as u64, 0, 0),
            Self::Offer { key, offer } => (2, key, offer.total, offer.place, offer.number),
            Self::Call { place, number } => (3, none, 0, place, number),
            Self::Keep => (4, none, 0, 0, 0),
            Self::Send => (5, none, 0, 0, 0),
            Self::Leave => (6, none, 0, 0, 0),
        };
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&key.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&total.to_le_bytes());
        for (to, word) in bytes[16..28].chunks_exact_mut(4).zip([place, number, kind]) {
            to.copy_from_slice(&u32::to_le_bytes(word));
        }
        bytes
    }

    /// Reads a head that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Kind`] for a kind that there is not, [`Corrupt::Length`] for a length that no message has.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let double = |at: usize| u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32;
        let (key, total) = (Key(double(0)), double(8));
        let (place, number) = (word(bytes, 16), word(bytes, 20));
        let length = usize::try_from(total).ok().filter(|total| isize::try_from(*total).is_ok());
        let length = length.ok_or(Corrupt::Length { found: total, max: isize::MAX as u64 })?;
        match word(bytes, 24) {
            0 => Ok(Self::Message { key, total: length }),
            1 => Ok(Self::Called { key, total: length }),
            2 => Ok(Self::Offer { key, offer: Offer { total, place, number } }),
            3 => Ok(Self::Call { place, number }),
            4 => Ok(Self::Keep),
            5 => Ok(Self::Send),
            6 => Ok(Self::Leave),
            found => Err(Corrupt::Kind { found: found.min(u8::MAX.into()) as u8 }),
        }
    }
}

fn word(bytes: &[u8; StreamHead::LENGTH], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_gives_its_numbers_back() {
        let key = Key::new(7, 9);
        let offer = Offer { total: 70_000, place: u32::MAX, number: 1 };
        for head in [
            StreamHead::Message { key, total: 0 },
            StreamHead::Called { key, total: isize::MAX as usize },
            StreamHead::Offer { key, offer },
            StreamHead::Call { place: 3, number: u32::MAX },
            StreamHead::Keep,
            StreamHead::Send,
            StreamHead::Leave,
        ] {
            assert_eq!(StreamHead::parse(&head.pack()), Ok(head));
        }
    }

    #[test]
    fn the_fields_lie_where_the_table_says() {
        let offer = Offer { total: 0x0201, place: 3, number: 4 };
        let bytes = StreamHead::Offer { key: Key(5), offer }.pack();
        assert_eq!((bytes[0], &bytes[8..10]), (5, &[1, 2][..]));
        assert_eq!((bytes[16], bytes[20], bytes[24], &bytes[25..]), (3, 4, 2, &[0; 7][..]));
    }

    #[test]
    fn a_head_that_nobody_sends_is_refused() {
        assert!(StreamHead::parse(&[0xff; StreamHead::LENGTH]).is_err());
        let mut bytes = StreamHead::Leave.pack();
        bytes[24] = 7;
        assert_eq!(StreamHead::parse(&bytes), Err(Corrupt::Kind { found: 7 }));
    }
}
