//! What stands before a message in the stream of bytes to a rank on another node.

use super::{Key, Offer};
use crate::hca::Remote;
use crate::layout::Corrupt;
use crate::rndv::Turn;

/// The head of a packet in a stream. Kinds that say so are followed by the bytes of a message.
///
/// | offset | size | field     | meaning                                                             |
/// |-------:|-----:|-----------|---------------------------------------------------------------------|
/// |      0 |    8 | `key`     | context (upper 32 bits) and tag; kinds 0 to 2, 7, 11 to 13, and 15  |
/// |      8 |    8 | `total`   | length of the message, bytes; kinds 0 to 2, 7, 12 and 13; of the receive's buffer; kind 11 |
/// |     16 |    4 | `place`   | the sender's name of an offered message; kinds 2, 3, and 7 to 10; the receiver's of a receive; from 11 on |
/// |     20 |    4 | `number`  | which offer from its sender to its receiver; kinds 2, 3, and 7 to 10 |
/// |     24 |    4 | `kind`    | 0 message, 1 called, 2 offer, 3 call, 4 keep, 5 send, 6 leave,      |
/// |        |      |           | 7 RTS, 8 done, 9 retract, 10 retracted, 11 RTR, 12 RTR-ACK,         |
/// |        |      |           | 13 RTR-ACK of a message in the middle of being written, 14 written, |
/// |        |      |           | 15 retract RTR, 16 RTR retracted                                    |
/// |     28 |    4 | `remote`  | key of the region in which message or buffer lies; kinds 7 and 11   |
/// |     32 |    8 | `address` | of its first byte; kinds 7 and 11                                   |
/// |     40 |    4 | `turn`    | [`Turn`] of the message, zero for none; kind 7; never zero; from 11 on |
/// |     44 |    4 |           | zero                                                                |
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
        /// Its turn; none says stop-RTR.
        turn: Option<Turn>,
    },
    /// An announced message was read as far as it is wanted.
    Done(Name),
    /// An announced message is not to be read any more.
    Retract(Name),
    /// It will not be: it is as if it had been offered.
    Retracted(Name),
    /// A receive is there before its message, which may be written where it is wanted (`[SpecRndv09]` §3.1.2).
    Rtr {
        /// Its context and tag.
        key: Key,
        /// Bytes that it has room for.
        capacity: usize,
        /// Where they lie.
        to: Remote,
        /// Which receive it is, and which message it asks for.
        asked: Asked,
    },
    /// A message that uses an RTR. Its bytes do not follow: they are where they belong.
    RtrAck {
        /// Its context and tag.
        key: Key,
        /// Its length, bytes.
        total: usize,
        /// What the RTR said.
        asked: Asked,
        /// Whether all of it is there, and not said to be later.
        whole: bool,
    },
    /// The rest of a message that uses an RTR is where it belongs.
    Written(Asked),
    /// A receive that has sent an RTR is to be cancelled.
    RetractRtr {
        /// Its context and tag.
        key: Key,
        /// What the RTR said.
        asked: Asked,
    },
    /// No message that is behind this in the stream uses the RTR.
    RtrRetracted(Asked),
}

/// Which receive has sent an RTR, and for which message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asked {
    /// The receiver's name of it.
    pub place: u32,
    /// The turn of the message.
    pub turn: Turn,
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
    pub const LENGTH: usize = 48;

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
            Self::Rts { key, offer, from: remote, turn } => {
                let (total, name) = (offer.total, offer.name());
                Fields { kind: 7, key, total, name, remote, turn }
            }
            Self::Done(name) => Fields { kind: 8, name, ..none },
            Self::Retract(name) => Fields { kind: 9, name, ..none },
            Self::Retracted(name) => Fields { kind: 10, name, ..none },
            Self::Rtr { key, capacity, to: remote, asked } => {
                Fields { kind: 11, key, total: capacity as u64, remote, ..Fields::of(asked) }
            }
            Self::RtrAck { key, total, asked, whole } => {
                let kind = if whole { 12 } else { 13 };
                Fields { kind, key, total: total as u64, ..Fields::of(asked) }
            }
            Self::Written(asked) => Fields { kind: 14, ..Fields::of(asked) },
            Self::RetractRtr { key, asked } => Fields { kind: 15, key, ..Fields::of(asked) },
            Self::RtrRetracted(asked) => Fields { kind: 16, ..Fields::of(asked) },
        };
        fields.pack()
    }

    /// Reads a head that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Kind`] for a kind that there is not, [`Corrupt::Length`] for a length that no message has, or an offer without
    /// a number, [`Corrupt::Rtr`] for an RTR without a turn.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let Fields { kind, key, total, name, remote, turn } = Fields::parse(bytes);
        let length = usize::try_from(total).ok().filter(|total| isize::try_from(*total).is_ok());
        let length = length.ok_or(Corrupt::Length { found: total, max: isize::MAX as u64 })?;
        let offer = Offer { total, place: name.place, number: name.number };
        if matches!(kind, 2 | 7) && offer.number == 0 {
            return Err(Corrupt::Length { found: 0, max: u32::MAX.into() });
        }
        let asked = turn.map(|turn| Asked { place: name.place, turn }).ok_or(Corrupt::Rtr);
        match kind {
            0 => Ok(Self::Message { key, total: length }),
            1 => Ok(Self::Called { key, total: length }),
            2 => Ok(Self::Offer { key, offer }),
            3 => Ok(Self::Call(name)),
            4 => Ok(Self::Keep),
            5 => Ok(Self::Send),
            6 => Ok(Self::Leave),
            7 => Ok(Self::Rts { key, offer, from: remote, turn }),
            8 => Ok(Self::Done(name)),
            9 => Ok(Self::Retract(name)),
            10 => Ok(Self::Retracted(name)),
            11 => Ok(Self::Rtr { key, capacity: length, to: remote, asked: asked? }),
            12 | 13 => Ok(Self::RtrAck { key, total: length, asked: asked?, whole: kind == 12 }),
            14 => Ok(Self::Written(asked?)),
            15 => Ok(Self::RetractRtr { key, asked: asked? }),
            16 => Ok(Self::RtrRetracted(asked?)),
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
    turn: Option<Turn>,
}

impl Fields {
    const NONE: Self = Self {
        kind: 0,
        key: Key(0),
        total: 0,
        name: Name { place: 0, number: 0 },
        remote: Remote { address: 0, key: 0 },
        turn: None,
    };

    fn of(Asked { place, turn }: Asked) -> Self {
        Self { name: Name { place, number: 0 }, turn: Some(turn), ..Self::NONE }
    }

    fn pack(&self) -> [u8; StreamHead::LENGTH] {
        let mut bytes = [0; StreamHead::LENGTH];
        for (at, double) in [(0, self.key.0), (8, self.total), (32, self.remote.address)] {
            bytes[at..at + 8].copy_from_slice(&double.to_le_bytes());
        }
        let words = [self.name.place, self.name.number, self.kind, self.remote.key];
        for (to, word) in bytes[16..32].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes[40..44].copy_from_slice(&Turn::word(self.turn).to_le_bytes());
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
            turn: Turn::parse(word(bytes, 40)),
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
        let turn = Turn::parse(u32::MAX);
        let asked = Asked { place: 9, turn: Turn::FIRST };
        for head in [
            StreamHead::Message { key, total: 0 },
            StreamHead::Called { key, total: isize::MAX as usize },
            StreamHead::Offer { key, offer },
            StreamHead::Call(name),
            StreamHead::Keep,
            StreamHead::Send,
            StreamHead::Leave,
            StreamHead::Rts { key, offer, from, turn },
            StreamHead::Rts { key, offer, from, turn: None },
            StreamHead::Done(name),
            StreamHead::Retract(name),
            StreamHead::Retracted(name),
            StreamHead::Rtr { key, capacity: 70_000, to: from, asked },
            StreamHead::RtrAck { key, total: 70_000, asked, whole: true },
            StreamHead::RtrAck { key, total: 70_000, asked, whole: false },
            StreamHead::Written(asked),
            StreamHead::RetractRtr { key, asked },
            StreamHead::RtrRetracted(asked),
        ] {
            assert_eq!(StreamHead::parse(&head.pack()), Ok(head));
        }
    }

    #[test]
    fn the_fields_lie_where_the_table_says() {
        let offer = Offer { total: 0x0201, place: 3, number: 4 };
        let from = Remote { address: 0x0605, key: 9 };
        let bytes = StreamHead::Rts { key: Key(5), offer, from, turn: Turn::parse(7) }.pack();
        assert_eq!((bytes[0], &bytes[8..10]), (5, &[1, 2][..]));
        assert_eq!((bytes[16], bytes[20], &bytes[24..28]), (3, 4, &[7, 0, 0, 0][..]));
        assert_eq!((bytes[28], &bytes[32..34], &bytes[34..40]), (9, &[5, 6][..], &[0; 6][..]));
        assert_eq!(&bytes[40..], &[7, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_head_that_nobody_sends_is_refused() {
        assert!(StreamHead::parse(&[0xff; StreamHead::LENGTH]).is_err());
        let mut bytes = StreamHead::Leave.pack();
        bytes[24] = 17;
        assert_eq!(StreamHead::parse(&bytes), Err(Corrupt::Kind { found: 17 }));
        bytes[24] = 14;
        assert_eq!(StreamHead::parse(&bytes), Err(Corrupt::Rtr));
        let offer = Offer { total: 1, place: 0, number: 0 };
        assert!(StreamHead::parse(&StreamHead::Offer { key: Key(0), offer }.pack()).is_err());
    }
}
