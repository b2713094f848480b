//! The head that precedes a message in the byte stream to a rank on another node.

use super::{Corrupt, Key, Offer, StridedRun, Turn};
use crate::hca::RemoteAddress;

/// The head of a packet in a stream. The bytes of a message follow the kinds that say so.
///
/// | offset | size | field     | meaning                                                          |
/// |-------:|-----:|-----------|------------------------------------------------------------------|
/// |      0 |    8 | `key`     | context (upper 32 bits) and tag; kinds 0 to 2, 7, 11 to 13, 15   |
/// |      8 |    8 | `total`   | length of the message, bytes; kinds 0 to 2, 7, 12, 13            |
/// |        |      |           | length of the receive buffer, bytes; kinds 11, 18                |
/// |     16 |    4 | `place`   | the sender's identifier of a message; kinds 2, 3, 7 to 10, 18,   |
/// |        |      |           | 19                                                               |
/// |        |      |           | the receiver's identifier of a receive; kinds 11 to 16           |
/// |        |      |           | the rank that died; kind 17                                      |
/// |     20 |    4 | `number`  | which offer from its sender to its receiver; kinds 2, 3, 7 to    |
/// |        |      |           | 10, 18, 19                                                       |
/// |     24 |    4 | `kind`    | see the next table                                               |
/// |     28 |    4 | `remote`  | key of the region that holds the message, or the list; kind 7    |
/// |        |      |           | key of the region that holds the receive buffer; kinds 11, 18    |
/// |     32 |    8 | `address` | address of the first byte; kinds 7, 11, 18                       |
/// |        |      |           | address of the list of runs; kind 7 if `runs` is not zero        |
/// |     40 |    4 | `turn`    | [`Turn`] of the message: zero means none; kind 7                 |
/// |        |      |           | [`Turn`] of the message: never zero; kinds 11 to 16              |
/// |     44 |    4 | `runs`    | number of [`StridedRun`]s of the message; zero if it lies in one |
/// |        |      |           | part; kind 7                                                     |
///
/// | kind | meaning   | kind | meaning         | kind | meaning                         |
/// |-----:|-----------|-----:|-----------------|-----:|---------------------------------|
/// |    0 | message   |    6 | leave           |   12 | RTR-ACK                         |
/// |    1 | called    |    7 | RTS             |   13 | RTR-ACK of a partly written one |
/// |    2 | offer     |    8 | done            |   14 | written                         |
/// |    3 | call      |    9 | retract         |   15 | retract RTR                     |
/// |    4 | keep      |   10 | retracted       |   16 | RTR retracted                   |
/// |    5 | send      |   11 | RTR             |   17 | dead                            |
/// |   18 | CTS       |   19 | CTS written     |      |                                 |
///
/// Numbers are little-endian. Fields that a kind does not use are zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StreamHead {
    /// A message. Its bytes follow.
    Message {
        /// Its context and tag.
        key: Key,
        /// Its length, in bytes.
        total: usize,
    },
    /// A message that the receiver pulled. Its bytes follow.
    Called {
        /// Its context and tag.
        key: Key,
        /// Its length, in bytes.
        total: usize,
    },
    /// Announces a message that its sender keeps until the receiver pulls it.
    Offer {
        /// Its context and tag.
        key: Key,
        /// The length and the identifier.
        offer: Offer,
    },
    /// Pulls an offered message: its receive is posted.
    Call(DeferredMessageId),
    /// The receiver has no room for unexpected messages; the sender keeps and offers them.
    Keep,
    /// The receiver has room again.
    Send,
    /// The last packet: its sender has left in good order.
    Leave,
    /// Announces a message, like an offer. The receiver may also read it from the sender's memory
    /// (`[SpecRndv09]` §3.1.1).
    Rts {
        /// Its context and tag.
        key: Key,
        /// The length and the identifier.
        offer: Offer,
        /// The location of the message.
        from: MessageAddress,
        /// Its turn; `None` means stop-RTR.
        turn: Option<Turn>,
    },
    /// The receiver has read an announced message as far as it needs it.
    Done(DeferredMessageId),
    /// Asks the receiver to stop reading an announced message.
    Retract(DeferredMessageId),
    /// The receiver stops reading the message, which now counts as merely offered.
    Retracted(DeferredMessageId),
    /// A receive was posted before its message. The sender may write the message into the receive
    /// buffer (`[SpecRndv09]` §3.1.2).
    Rtr {
        /// Its context and tag.
        key: Key,
        /// Size of the receive buffer, in bytes.
        capacity: usize,
        /// The location of the receive buffer.
        to: RemoteAddress,
        /// Identifies the receive and the message that it asks for.
        asked: RtrId,
    },
    /// A message that uses an RTR. Its bytes do not follow: they are written into the receive
    /// buffer.
    RtrAck {
        /// Its context and tag.
        key: Key,
        /// Its length, in bytes.
        total: usize,
        /// The contents of the RTR.
        asked: RtrId,
        /// True if the whole message is written; otherwise `Written` follows later.
        whole: bool,
    },
    /// The rest of a message that uses an RTR is written.
    Written(RtrId),
    /// A receive that has sent an RTR is being cancelled.
    RetractRtr {
        /// Its context and tag.
        key: Key,
        /// The contents of the RTR.
        asked: RtrId,
    },
    /// No message after this point in the stream uses the RTR.
    RtrRetracted(RtrId),
    /// Reports that a rank of the job has died. Ranks tell each other where no launcher reports
    /// deaths.
    Dead {
        /// The rank that died.
        rank: u32,
    },
    /// Clear to send: an announced message has met its receive. The sender is to write the message
    /// into the receive buffer.
    Cts {
        /// The message.
        name: DeferredMessageId,
        /// Size of the receive buffer, in bytes.
        capacity: usize,
        /// The location of the receive buffer.
        to: RemoteAddress,
    },
    /// A message that was cleared to send is written.
    CtsWritten(DeferredMessageId),
}

/// The location of an announced message in its sender's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageAddress {
    /// The message lies in one part, from here on.
    One(RemoteAddress),
    /// A list of so many [`StridedRun`]s lies there. They describe the message.
    Listed(RemoteAddress, u32),
}

/// Identifies the receive that sent an RTR, and the message that it asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RtrId {
    /// The receiver's identifier of the receive.
    pub place: u32,
    /// The turn of the message.
    pub turn: Turn,
}

/// Identifies an offered or announced message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeferredMessageId {
    /// [`Offer::place`].
    pub place: u32,
    /// [`Offer::number`].
    pub number: u32,
}

impl Offer {
    /// Returns the message's identifier.
    #[must_use]
    pub const fn name(&self) -> DeferredMessageId {
        DeferredMessageId { place: self.place, number: self.number }
    }
}

impl StreamHead {
    /// Size of a head, in bytes.
    pub const LENGTH: usize = 48;

    /// Returns the head as it is sent.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        let none = HeadFields::NONE;
        let fields = match self {
            Self::Message { key, total } => {
                HeadFields { kind: 0, key, total: total as u64, ..none }
            }
            Self::Called { key, total } => HeadFields { kind: 1, key, total: total as u64, ..none },
            Self::Offer { key, offer } => {
                HeadFields { kind: 2, key, total: offer.total, name: offer.name(), ..none }
            }
            Self::Call(name) => HeadFields { kind: 3, name, ..none },
            Self::Keep => HeadFields { kind: 4, ..none },
            Self::Send => HeadFields { kind: 5, ..none },
            Self::Leave => HeadFields { kind: 6, ..none },
            Self::Rts { key, offer, from, turn } => {
                let (total, name) = (offer.total, offer.name());
                let (remote, runs) = match from {
                    MessageAddress::One(message) => (message, 0),
                    MessageAddress::Listed(list, runs) => (list, runs),
                };
                HeadFields { kind: 7, key, total, name, remote, turn, runs }
            }
            Self::Done(name) => HeadFields { kind: 8, name, ..none },
            Self::Retract(name) => HeadFields { kind: 9, name, ..none },
            Self::Retracted(name) => HeadFields { kind: 10, name, ..none },
            Self::Rtr { key, capacity, to: remote, asked } => HeadFields {
                kind: 11,
                key,
                total: capacity as u64,
                remote,
                ..HeadFields::of(asked)
            },
            Self::RtrAck { key, total, asked, whole } => {
                let kind = if whole { 12 } else { 13 };
                HeadFields { kind, key, total: total as u64, ..HeadFields::of(asked) }
            }
            Self::Written(asked) => HeadFields { kind: 14, ..HeadFields::of(asked) },
            Self::RetractRtr { key, asked } => {
                HeadFields { kind: 15, key, ..HeadFields::of(asked) }
            }
            Self::RtrRetracted(asked) => HeadFields { kind: 16, ..HeadFields::of(asked) },
            Self::Dead { rank } => {
                HeadFields { kind: 17, name: DeferredMessageId { place: rank, number: 0 }, ..none }
            }
            Self::Cts { name, capacity, to: remote } => {
                HeadFields { kind: 18, total: capacity as u64, name, remote, ..none }
            }
            Self::CtsWritten(name) => HeadFields { kind: 19, name, ..none },
        };
        fields.pack()
    }

    /// Parses a head that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Kind`] for an unknown kind. [`Corrupt::Length`] for a length that no message has,
    /// an offer without a number, or more runs than [`StridedRun::MOST`]. [`Corrupt::Rtr`] for an
    /// RTR without a turn.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let HeadFields { kind, key, total, name, remote, turn, runs } = HeadFields::parse(bytes);
        let length = usize::try_from(total).ok().filter(|total| isize::try_from(*total).is_ok());
        let length = length.ok_or(Corrupt::Length { found: total, max: isize::MAX as u64 })?;
        let offer = Offer { total, place: name.place, number: name.number };
        if matches!(kind, 2 | 7) && offer.number == 0 {
            return Err(Corrupt::Length { found: 0, max: u32::MAX.into() });
        }
        let asked = turn.map(|turn| RtrId { place: name.place, turn }).ok_or(Corrupt::Rtr);
        match kind {
            0 => Ok(Self::Message { key, total: length }),
            1 => Ok(Self::Called { key, total: length }),
            2 => Ok(Self::Offer { key, offer }),
            3 => Ok(Self::Call(name)),
            4 => Ok(Self::Keep),
            5 => Ok(Self::Send),
            6 => Ok(Self::Leave),
            7 => Ok(Self::Rts { key, offer, from: MessageAddress::parse(remote, runs)?, turn }),
            8 => Ok(Self::Done(name)),
            9 => Ok(Self::Retract(name)),
            10 => Ok(Self::Retracted(name)),
            11 => Ok(Self::Rtr { key, capacity: length, to: remote, asked: asked? }),
            12 | 13 => Ok(Self::RtrAck { key, total: length, asked: asked?, whole: kind == 12 }),
            14 => Ok(Self::Written(asked?)),
            15 => Ok(Self::RetractRtr { key, asked: asked? }),
            16 => Ok(Self::RtrRetracted(asked?)),
            17 => Ok(Self::Dead { rank: name.place }),
            18 => Ok(Self::Cts { name, capacity: length, to: remote }),
            19 => Ok(Self::CtsWritten(name)),
            found => Err(Corrupt::Kind { found: found.min(u8::MAX.into()) as u8 }),
        }
    }
}

impl MessageAddress {
    fn parse(remote: RemoteAddress, runs: u32) -> Result<Self, Corrupt> {
        let max = StridedRun::MOST;
        match runs {
            0 => Ok(Self::One(remote)),
            runs if runs <= max => Ok(Self::Listed(remote, runs)),
            _ => Err(Corrupt::Length { found: runs.into(), max: max.into() }),
        }
    }
}

/// The fields of a head as the table lists them.
struct HeadFields {
    kind: u32,
    key: Key,
    total: u64,
    name: DeferredMessageId,
    remote: RemoteAddress,
    turn: Option<Turn>,
    runs: u32,
}

impl HeadFields {
    const NONE: Self = Self {
        kind: 0,
        key: Key(0),
        total: 0,
        name: DeferredMessageId { place: 0, number: 0 },
        remote: RemoteAddress { address: 0, key: 0 },
        turn: None,
        runs: 0,
    };

    fn of(RtrId { place, turn }: RtrId) -> Self {
        Self { name: DeferredMessageId { place, number: 0 }, turn: Some(turn), ..Self::NONE }
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
        bytes[44..].copy_from_slice(&self.runs.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; StreamHead::LENGTH]) -> Self {
        let double = |at: usize| u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32;
        Self {
            key: Key(double(0)),
            total: double(8),
            name: DeferredMessageId { place: word(bytes, 16), number: word(bytes, 20) },
            kind: word(bytes, 24),
            remote: RemoteAddress { address: double(32), key: word(bytes, 28) },
            turn: Turn::parse(word(bytes, 40)),
            runs: word(bytes, 44),
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
        let (key, name) = (Key::new(7, 9), DeferredMessageId { place: 3, number: u32::MAX });
        let offer = Offer { total: 70_000, place: u32::MAX, number: 1 };
        let from = RemoteAddress { address: u64::MAX - 1, key: 5 };
        let turn = Turn::parse(u32::MAX);
        let asked = RtrId { place: 9, turn: Turn::FIRST };
        for head in [
            StreamHead::Message { key, total: 0 },
            StreamHead::Called { key, total: isize::MAX as usize },
            StreamHead::Offer { key, offer },
            StreamHead::Call(name),
            StreamHead::Keep,
            StreamHead::Send,
            StreamHead::Leave,
            StreamHead::Rts { key, offer, from: MessageAddress::One(from), turn },
            StreamHead::Rts { key, offer, from: MessageAddress::One(from), turn: None },
            StreamHead::Rts { key, offer, from: MessageAddress::Listed(from, 1), turn },
            StreamHead::Rts { key, offer, from: MessageAddress::Listed(from, 256), turn: None },
            StreamHead::Done(name),
            StreamHead::Retract(name),
            StreamHead::Retracted(name),
            StreamHead::Rtr { key, capacity: 70_000, to: from, asked },
            StreamHead::RtrAck { key, total: 70_000, asked, whole: true },
            StreamHead::RtrAck { key, total: 70_000, asked, whole: false },
            StreamHead::Written(asked),
            StreamHead::RetractRtr { key, asked },
            StreamHead::RtrRetracted(asked),
            StreamHead::Dead { rank: 4095 },
            StreamHead::Cts { name, capacity: 70_000, to: from },
            StreamHead::CtsWritten(name),
        ] {
            assert_eq!(StreamHead::parse(&head.pack()), Ok(head));
        }
    }

    #[test]
    fn the_fields_lie_where_the_table_says() {
        let offer = Offer { total: 0x0201, place: 3, number: 4 };
        let from = MessageAddress::Listed(RemoteAddress { address: 0x0605, key: 9 }, 0x0102);
        let bytes = StreamHead::Rts { key: Key(5), offer, from, turn: Turn::parse(7) }.pack();
        assert_eq!((bytes[0], &bytes[8..10]), (5, &[1, 2][..]));
        assert_eq!((bytes[16], bytes[20], &bytes[24..28]), (3, 4, &[7, 0, 0, 0][..]));
        assert_eq!((bytes[28], &bytes[32..34], &bytes[34..40]), (9, &[5, 6][..], &[0; 6][..]));
        assert_eq!(&bytes[40..], &[7, 0, 0, 0, 2, 1, 0, 0]);
    }

    #[test]
    fn an_impossible_head_is_refused() {
        assert!(StreamHead::parse(&[0xff; StreamHead::LENGTH]).is_err());
        let mut bytes = StreamHead::Leave.pack();
        bytes[24] = 20;
        assert_eq!(StreamHead::parse(&bytes), Err(Corrupt::Kind { found: 20 }));
        bytes[24] = 14;
        assert_eq!(StreamHead::parse(&bytes), Err(Corrupt::Rtr));
        let offer = Offer { total: 1, place: 0, number: 0 };
        assert!(StreamHead::parse(&StreamHead::Offer { key: Key(0), offer }.pack()).is_err());
        let (offer, to) = (Offer { number: 1, ..offer }, RemoteAddress { address: 0, key: 0 });
        let from = MessageAddress::Listed(to, StridedRun::MOST + 1);
        let head = StreamHead::Rts { key: Key(0), offer, from, turn: None };
        assert_eq!(StreamHead::parse(&head.pack()), Err(Corrupt::Length { found: 257, max: 256 }));
    }
}
