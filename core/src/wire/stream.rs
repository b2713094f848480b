//! What stands before a message in the stream of bytes to a rank on another node.

use super::{Key, Offer};
use crate::hca::Remote;
use crate::layout::Corrupt;

/// The head of a packet in a stream. Kinds that say so are followed by the bytes of a message.
///
/// | offset | size | field     | meaning                                                             |
/// |-------:|-----:|-----------|---------------------------------------------------------------------|
/// |      0 |    8 | `key`     | context (upper 32 bits) and tag; kinds 0 to 2, and 7                |
/// |      8 |    8 | `total`   | length of the message, bytes; kinds 0 to 2, and 7                   |
/// |     16 |    4 | `place`   | the sender's name of an offered message; kinds 2, 3 and from 7 on   |
/// |     20 |    4 | `number`  | which offer from its sender to its receiver; likewise               |
/// |     24 |    4 | `kind`    | 0 message, 1 called, 2 offer, 3 call, 4 keep, 5 send, 6 leave,      |
/// |        |      |           | 7 RTS, 8 done, 9 retract, 10 retracted                              |
/// |     28 |    4 | `remote`  | key of the region in which the message lies; kind 7                 |
/// |     32 |    8 | `address` | of its first byte; kind 7                                           |
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
    Call(Name),
    /// There is no room for messages that nobody waits for: keep them, and offer them.
    Keep,
    /// There is room again.
    Send,
    /// The last packet: its sender has left in good order.
    Leave,
    /// As an offer, of a message that may also be read where it lies (`[SpecRndv09]` §3.1.1).
    Rts {
        /// Its context and tag.
        key: Key,
        /// Length and name.
        offer: Offer,
        /// Where it lies.
        from: Remote,
    },
    /// An announced message was read as far as it is wanted.
    Done(Name),
    /// An announced message is not to be read any more.
    Retract(Name),
    /// It will not be: it is as if it had been offered.
    Retracted(Name),
}

/// Which offered or announced message is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Name {
    /// [`Offer::place`].
    pub place: u32,
    /// [`Offer::number`].
    pub number: u32,
}

impl Offer {
    /// The message's name.
    #[must_use]
    pub const fn name(&self) -> Name {
        Name { place: self.place, number: self.number }
    }
}

impl StreamHead {
    /// Bytes of a head.
    pub const LENGTH: usize = 40;

    /// As it travels.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        let none = Fields::NONE;
        let fields = match self {
            Self::Message { key, total } => Fields { kind: 0, key, total: total as u64, ..none },
            Self::Called { key, total } => Fields { kind: 1, key, total: total as u64, ..none },
            Self::Offer { key, offer } => {
                Fields { kind: 2, key, total: offer.total, name: offer.name(), ..none }
            }
            Self::Call(name) => Fields { kind: 3, name, ..none },
            Self::Keep => Fields { kind: 4, ..none },
            Self::Send => Fields { kind: 5, ..none },
            Self::Leave => Fields { kind: 6, ..none },
            Self::Rts { key, offer, from: remote } => {
                Fields { kind: 7, key, total: offer.total, name: offer.name(), remote }
            }
            Self::Done(name) => Fields { kind: 8, name, ..none },
            Self::Retract(name) => Fields { kind: 9, name, ..none },
            Self::Retracted(name) => Fields { kind: 10, name, ..none },
        };
        fields.pack()
    }

    /// Reads a head that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Kind`] for a kind that there is not, [`Corrupt::Length`] for a length that no message has, or an offer without
    /// a number.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let Fields { kind, key, total, name, remote } = Fields::parse(bytes);
        let length = usize::try_from(total).ok().filter(|total| isize::try_from(*total).is_ok());
        let length = length.ok_or(Corrupt::Length { found: total, max: isize::MAX as u64 })?;
        let offer = Offer { total, place: name.place, number: name.number };
        if matches!(kind, 2 | 7) && offer.number == 0 {
            return Err(Corrupt::Length { found: 0, max: u32::MAX.into() });
        }
        match kind {
            0 => Ok(Self::Message { key, total: length }),
            1 => Ok(Self::Called { key, total: length }),
            2 => Ok(Self::Offer { key, offer }),
            3 => Ok(Self::Call(name)),
            4 => Ok(Self::Keep),
            5 => Ok(Self::Send),
            6 => Ok(Self::Leave),
            7 => Ok(Self::Rts { key, offer, from: remote }),
            8 => Ok(Self::Done(name)),
            9 => Ok(Self::Retract(name)),
            10 => Ok(Self::Retracted(name)),
            found => Err(Corrupt::Kind { found: found.min(u8::MAX.into()) as u8 }),
        }
    }
}

/// A head as the table has it.
struct Fields {
    kind: u32,
    key: Key,
    total: u64,
    name: Name,
    remote: Remote,
}

impl Fields {
    const NONE: Self = Self {
        kind: 0,
        key: Key(0),
        total: 0,
        name: Name { place: 0, number: 0 },
        remote: Remote { address: 0, key: 0 },
    };

    fn pack(&self) -> [u8; StreamHead::LENGTH] {
        let mut bytes = [0; StreamHead::LENGTH];
        for (at, double) in [(0, self.key.0), (8, self.total), (32, self.remote.address)] {
            bytes[at..at + 8].copy_from_slice(&double.to_le_bytes());
        }
        let words = [self.name.place, self.name.number, self.kind, self.remote.key];
        for (to, word) in bytes[16..32].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8; StreamHead::LENGTH]) -> Self {
        let double = |at: usize| u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32;
        Self {
            key: Key(double(0)),
            total: double(8),
            name: Name { place: word(bytes, 16), number: word(bytes, 20) },
            kind: word(bytes, 24),
            remote: Remote { address: double(32), key: word(bytes, 28) },
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
        let (key, name) = (Key::new(7, 9), Name { place: 3, number: u32::MAX });
        let offer = Offer { total: 70_000, place: u32::MAX, number: 1 };
        let from = Remote { address: u64::MAX - 1, key: 5 };
        for head in [
            StreamHead::Message { key, total: 0 },
            StreamHead::Called { key, total: isize::MAX as usize },
            StreamHead::Offer { key, offer },
            StreamHead::Call(name),
            StreamHead::Keep,
            StreamHead::Send,
            StreamHead::Leave,
            StreamHead::Rts { key, offer, from },
            StreamHead::Done(name),
            StreamHead::Retract(name),
            StreamHead::Retracted(name),
        ] {
            assert_eq!(StreamHead::parse(&head.pack()), Ok(head));
        }
    }

    #[test]
    fn the_fields_lie_where_the_table_says() {
        let offer = Offer { total: 0x0201, place: 3, number: 4 };
        let from = Remote { address: 0x0605, key: 9 };
        let bytes = StreamHead::Rts { key: Key(5), offer, from }.pack();
        assert_eq!((bytes[0], &bytes[8..10]), (5, &[1, 2][..]));
        assert_eq!((bytes[16], bytes[20], &bytes[24..28]), (3, 4, &[7, 0, 0, 0][..]));
        assert_eq!((bytes[28], &bytes[32..34], &bytes[34..]), (9, &[5, 6][..], &[0; 6][..]));
    }

    #[test]
    fn a_head_that_nobody_sends_is_refused() {
        assert!(StreamHead::parse(&[0xff; StreamHead::LENGTH]).is_err());
        let mut bytes = StreamHead::Leave.pack();
        bytes[24] = 11;
        assert_eq!(StreamHead::parse(&bytes), Err(Corrupt::Kind { found: 11 }));
        let offer = Offer { total: 1, place: 0, number: 0 };
        assert!(StreamHead::parse(&StreamHead::Offer { key: Key(0), offer }.pack()).is_err());
    }
}
