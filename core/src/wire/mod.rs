//! What travels: packet kinds, and the words that stand before a payload.
//!
//! The same packets travel through fastboxes and through queue cells. A packet's place in the order of its
//! (source, destination) pair is its sequence number, which both paths share: a receiver takes the packet whose
//! number comes next, wherever it lies (`[Nemesis07]` §3.1).

mod offer;
mod parcel;
mod payload;
mod stream;

pub use offer::Offer;
pub use parcel::ParcelHead;
pub(crate) use payload::Payload;
pub use stream::{Asked, Name, StreamHead};

use core::ops::AddAssign;

use crate::layout::Corrupt;

/// What a packet is. At most 16 kinds: four bits of a fastbox header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// A whole message, payload inline.
    Eager = 0,
    /// The first part of a message that takes several cells; its total length says how much follows.
    EagerFirst = 1,
    /// A further part of the message that its source is in the middle of.
    EagerMore = 2,
    /// Ready to send: the announcement of a message that stays where it is until its receive is there (`[Nemesis07]` §3.2). Takes part in
    /// matching like the first packet of a message; its payload is a [`crate::lmt::SendCookie`].
    Rts = 3,
    /// The announcement of a message that its sender keeps because the receiver has no room for it. Takes part in matching
    /// like the first packet of a message; its payload is an [`Offer`].
    Offer = 4,
    /// The first part, or all, of an offered message that its receiver called for.
    Called = 5,
    /// A receive waits for a large message (`[SpecRndv09]` §3.1.2): from the receiver to the sender that it names. Matches no
    /// receive; its payload is a [`crate::lmt::Rtr`].
    Rtr = 6,
    /// The announcement of a message that uses an RTR. Takes part in matching as an RTS does; its payload is a
    /// [`crate::lmt::RtrAck`].
    RtrAck = 7,
    /// A part of a message, or all of it, that lies in a parcel of the pair's; its payload is a [`ParcelHead`].
    Parcel = 8,
}

impl Kind {
    /// Parses a kind that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Kind`] for a number that this layout version does not use.
    #[inline(always)]
    pub const fn parse(raw: u8) -> Result<Self, Corrupt> {
        match raw {
            0 => Ok(Self::Eager),
            1 => Ok(Self::EagerFirst),
            2 => Ok(Self::EagerMore),
            3 => Ok(Self::Rts),
            4 => Ok(Self::Offer),
            5 => Ok(Self::Called),
            6 => Ok(Self::Rtr),
            7 => Ok(Self::RtrAck),
            8 => Ok(Self::Parcel),
            found => Err(Corrupt::Kind { found }),
        }
    }
}

/// A packet's place in the order of its (source, destination) pair, as it stands in a header word: 48 bits above those
/// for kind and length.
///
/// The top bit says which rank of the pair sends, so that in the baton, which both write, no rank takes its own header
/// for the other's. The rest counts from 1: zeroed memory holds no packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Sequence(u64);

impl Sequence {
    const SHIFT: u32 = LENGTH_BITS + KIND_BITS;

    /// From one packet to the next.
    const STEP: u64 = 1 << Self::SHIFT;

    /// Set when the higher rank sends.
    const HIGHER: u64 = 1 << 47;

    /// Of the first packet from `source` to `destination`.
    #[must_use]
    pub const fn first(source: u32, destination: u32) -> Self {
        let direction = if source > destination { Self::HIGHER } else { 0 };
        Self((direction | 1) << Self::SHIFT)
    }

    /// A word that no other packet of the pair has, whichever way it goes; not zero.
    #[inline(always)]
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The number, from 1, without the bit that says who sends.
    #[inline(always)]
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 >> Self::SHIFT & (Self::HIGHER - 1)
    }
}

impl AddAssign<u64> for Sequence {
    #[inline(always)]
    fn add_assign(&mut self, packets: u64) {
        self.0 = self.0.wrapping_add(packets.wrapping_mul(Self::STEP));
    }
}

/// Longest payload that a fastbox header can express, bytes.
pub const FASTBOX_LENGTH_MAX: usize = (1 << LENGTH_BITS) - 1;

const LENGTH_BITS: u32 = 12;
const KIND_BITS: u32 = 4;

/// The header word of a message in lines: sequence number (48 bits), kind (4 bits), length (12 bits).
///
/// The receiver compares the word with the sequence number it expects by one subtraction: the difference *is* kind
/// and length when the message is the next one, and a large number when it is not.
///
/// The sequence number does not wrap in practice. A stale word could be taken for a new one only if exactly 2^48
/// messages later the line still had not been rewritten, that is, after 2^48 messages through the queue alone: 325 days
/// at 10 million a second, with the wrap falling on that very line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct HeaderWord(pub u64);

impl HeaderWord {
    /// Packs a header. `length` is at most [`FASTBOX_LENGTH_MAX`].
    #[inline(always)]
    #[must_use]
    pub const fn new(sequence: Sequence, kind: Kind, length: usize) -> Self {
        debug_assert!(length <= FASTBOX_LENGTH_MAX);
        Self(sequence.0 | (kind as u64) << LENGTH_BITS | length as u64)
    }

    /// Kind and length, when this is the header of message `sequence`.
    #[inline(always)]
    #[must_use]
    pub const fn of_message(self, sequence: Sequence) -> Option<KindLength> {
        let difference = self.0.wrapping_sub(sequence.0);
        if difference >> Sequence::SHIFT == 0 {
            // The shift proved that the value fits.
            Some(KindLength(difference as u32))
        } else {
            None
        }
    }
}

/// Kind and length as they stand in a header word. For [`Kind::Eager`] it is the bare length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct KindLength(u32);

impl KindLength {
    /// The length in bytes if this is a [`Kind::Eager`] message of at most `max` bytes: one comparison.
    #[inline(always)]
    #[must_use]
    pub const fn eager_up_to(self, max: usize) -> Option<usize> {
        if self.0 as usize <= max { Some(self.0 as usize) } else { None }
    }

    /// True for a [`Kind::Eager`] message of just so many bytes, likewise.
    #[inline(always)]
    #[must_use]
    pub const fn is_eager_of(self, bytes: usize) -> bool {
        self.0 as usize == bytes
    }

    /// The payload's length, bytes.
    #[inline(always)]
    #[must_use]
    pub const fn length(self) -> usize {
        (self.0 & ((1 << LENGTH_BITS) - 1)) as usize
    }

    /// The packet's kind.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Kind`].
    #[inline(always)]
    pub const fn kind(self) -> Result<Kind, Corrupt> {
        Kind::parse((self.0 >> LENGTH_BITS) as u8)
    }
}

/// Context and tag in one word, so that matching compares once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Key(pub u64);

impl Key {
    /// Packs `context` and `tag`.
    #[inline(always)]
    #[must_use]
    pub const fn new(context: u32, tag: u32) -> Self {
        Self((context as u64) << 32 | tag as u64)
    }

    /// The context.
    #[inline(always)]
    #[must_use]
    pub const fn context(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The tag.
    #[inline(always)]
    #[must_use]
    pub const fn tag(self) -> u32 {
        self.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The place of packet `number` of the lower rank.
    fn numbered(number: u64) -> Sequence {
        let mut sequence = Sequence::first(0, 1);
        sequence += number.wrapping_sub(1);
        sequence
    }

    proptest! {
        #[test]
        fn a_header_is_recognised_by_its_own_sequence_number_alone(
            sequence in 1..1_u64 << 48,
            other in 1..1_u64 << 48,
            kind in 0..3_u8,
            length in 0..=FASTBOX_LENGTH_MAX,
        ) {
            let kind = Kind::parse(kind).unwrap();
            let word = HeaderWord::new(numbered(sequence), kind, length);
            let found = word.of_message(numbered(sequence)).unwrap();
            prop_assert_eq!(found.kind(), Ok(kind));
            prop_assert_eq!(found.length(), length);
            prop_assert_eq!(found.eager_up_to(64).is_some(), kind == Kind::Eager && length <= 64);
            if other != sequence {
                prop_assert_eq!(word.of_message(numbered(other)), None);
            }
        }
    }

    #[test]
    fn zeroed_memory_is_no_message() {
        for (source, destination) in [(0, 0), (0, 1), (1, 0)] {
            assert_eq!(HeaderWord(0).of_message(Sequence::first(source, destination)), None);
        }
    }

    #[test]
    fn the_two_directions_of_a_pair_are_told_apart_and_count_alike() {
        let (mut up, mut down) = (Sequence::first(3, 7), Sequence::first(7, 3));
        for number in 1..5 {
            assert_eq!([up.number(), down.number()], [number; 2]);
            assert_eq!(HeaderWord::new(up, Kind::Eager, 8).of_message(down), None);
            assert_eq!(HeaderWord::new(down, Kind::Eager, 8).of_message(up), None);
            up += 1;
            down += 1;
        }
    }

    #[test]
    fn the_sequence_number_wraps_at_48_bits_without_losing_the_next_message() {
        let last = (1_u64 << 48) - 1;
        let header = |number| HeaderWord::new(numbered(number), Kind::Eager, 8);
        assert!(header(last).of_message(numbered(last)).is_some());
        assert!(header(last + 1).of_message(numbered(last + 1)).is_some());
        assert!(header(last).of_message(numbered(last + 1)).is_none());
    }

    #[test]
    fn an_unknown_kind_is_an_error() {
        assert_eq!(Kind::parse(9), Err(Corrupt::Kind { found: 9 }));
    }
}
