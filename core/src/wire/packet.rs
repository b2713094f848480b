//! Kinds of packets, and the words that stand before a payload.

use core::ops::AddAssign;

use super::Corrupt;

/// The kind of a packet. There are at most 16, because a fastbox header has four bits for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum PacketKind {
    /// A whole message, with its payload inline.
    Eager = 0,
    /// The first part of a message that takes several cells. Its total length says how much
    /// follows.
    EagerFirst = 1,
    /// A further part of the message that its source has started.
    EagerMore = 2,
    /// Ready to send: announces a message that stays in the sender's memory until its receive is
    /// posted (`[Nemesis07]` §3.2). It takes part in matching like the first packet of a message.
    /// Its payload is a [`crate::lmt::SendCookie`].
    Rts = 3,
    /// The announcement of a message that its sender keeps because the receiver has no room for it.
    /// Takes part in matching like the first packet of a message; its payload is an
    /// [`super::Offer`].
    Offer = 4,
    /// The first part, or all, of an offered message that its receiver pulls.
    Called = 5,
    /// Request to receive: a posted receive asks the sender that it names for a large message
    /// (`[SpecRndv09]` §3.1.2). It goes from the receiver to the sender and matches no receive. Its
    /// payload is a [`crate::lmt::Rtr`].
    Rtr = 6,
    /// Announces a message that uses an RTR. It takes part in matching like an RTS. Its payload is
    /// a [`crate::lmt::RtrAck`].
    RtrAck = 7,
    /// A part of a message, or all of it, that lies in a parcel of the pair's; its payload is a
    /// [`super::ParcelHead`].
    Parcel = 8,
    /// Announces a message that a [`crate::lmt::TransferMethod`] moves. It takes part in matching
    /// like an RTS. Its payload is a [`super::MethodRts`] and the send cookie.
    MethodRts = 9,
    /// The answer of a transfer method's receiver to its sender. Its payload, and those of the next
    /// two kinds, is a [`super::MethodHead`] and a cookie.
    MethodCts = 10,
    /// Bytes from one side of a transfer method to the other.
    MethodCookie = 11,
    /// The end of a transfer, for the side that cannot see it.
    MethodDone = 12,
    /// The sender of a message that a transfer method moves asks for its buffer back. Its payload
    /// is that of the RTS, without the cookie. If the message waits for its receive, the receiver
    /// answers with a [`PacketKind::MethodDone`] that says that the transfer is not complete.
    MethodRetract = 13,
    /// A whole message with its payload inline, of a synchronous send: its receiver answers when
    /// the receive has started ([`crate::shm::FlowWords::set_matched`]).
    Synchronous = 14,
}

impl PacketKind {
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
            9 => Ok(Self::MethodRts),
            10 => Ok(Self::MethodCts),
            11 => Ok(Self::MethodCookie),
            12 => Ok(Self::MethodDone),
            13 => Ok(Self::MethodRetract),
            14 => Ok(Self::Synchronous),
            found => Err(Corrupt::Kind { found }),
        }
    }
}

/// A packet's place in the order of its (source, destination) pair, as a header word stores it. It
/// is the upper 48 bits; kind and length take the bits below.
///
/// The top bit of the sequence number identifies the sending rank of the pair. Both ranks write the
/// baton, and the bit keeps a rank from taking its own header for the other's. The remaining bits
/// count from 1, so zeroed memory holds no packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Sequence(u64);

impl Sequence {
    const SHIFT: u32 = LENGTH_BITS + KIND_BITS;

    /// The difference between consecutive packets.
    const STEP: u64 = 1 << Self::SHIFT;

    /// The bit that is set when the rank with the higher number sends.
    const HIGHER: u64 = 1 << 47;

    /// Returns the sequence number of the first packet from `source` to `destination`.
    #[must_use]
    pub const fn first(source: u32, destination: u32) -> Self {
        let direction = if source > destination { Self::HIGHER } else { 0 };
        Self((direction | 1) << Self::SHIFT)
    }

    /// Returns a non-zero word that no other packet of the pair has, in either direction.
    #[inline(always)]
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns the number, counted from 1, without the direction bit.
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

/// Longest payload that a fastbox header can express, in bytes.
pub const FASTBOX_LENGTH_MAX: usize = (1 << LENGTH_BITS) - 1;

const LENGTH_BITS: u32 = 12;
const KIND_BITS: u32 = 4;

/// The header word of a message in cache lines: sequence number (48 bits), kind (4 bits), length
/// (12 bits).
///
/// The receiver subtracts the sequence number that it expects. If the message is the next one, the
/// difference *is* kind and length; otherwise it is a large number.
///
/// The sequence number does not wrap in practice. A stale word is mistaken for a new one only if
/// its line was not rewritten for exactly 2^48 messages. All those messages would have to go
/// through the queue: 325 days at 10 million messages per second, with the wrap on that very line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct HeaderWord(pub u64);

impl HeaderWord {
    /// Packs a header. `length` is at most [`FASTBOX_LENGTH_MAX`] bytes.
    #[inline(always)]
    #[must_use]
    pub const fn new(sequence: Sequence, kind: PacketKind, length: usize) -> Self {
        debug_assert!(length <= FASTBOX_LENGTH_MAX);
        Self(sequence.0 | (kind as u64) << LENGTH_BITS | length as u64)
    }

    /// Returns the direction and the number of this packet, counted from 1: true if the rank with
    /// the higher number sent it. Returns `None` for a word that is no header.
    ///
    /// ```
    /// use strait_core::wire::{HeaderWord, PacketKind, Sequence};
    ///
    /// let header = HeaderWord::new(Sequence::first(3, 1), PacketKind::Eager, 8);
    /// assert_eq!(header.packet(), Some((true, 1)));
    /// assert_eq!(HeaderWord(0).packet(), None);
    /// ```
    #[must_use]
    pub const fn packet(self) -> Option<(bool, u64)> {
        let word = self.0 >> Sequence::SHIFT;
        let number = word & (Sequence::HIGHER - 1);
        if number == 0 { None } else { Some((word & Sequence::HIGHER != 0, number)) }
    }

    /// Returns the payload's length in bytes, whatever packet this is the header of.
    #[must_use]
    pub const fn length(self) -> usize {
        KindLength(self.0 as u32).length()
    }

    /// Returns kind and length if this is the header of message `sequence`.
    #[inline(always)]
    #[must_use]
    pub const fn of_message(self, sequence: Sequence) -> Option<KindLength> {
        let difference = self.0.wrapping_sub(sequence.0);
        if difference >> Sequence::SHIFT == 0 {
            // The shift in the condition proves that the value fits.
            Some(KindLength(difference as u32))
        } else {
            None
        }
    }
}

/// Kind and length as a header word stores them. For [`PacketKind::Eager`] the value is the length
/// alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct KindLength(u32);

impl KindLength {
    /// Returns the length in bytes if this is a [`PacketKind::Eager`] message of at most `max`
    /// bytes. Takes one comparison.
    #[inline(always)]
    #[must_use]
    pub const fn eager_up_to(self, max: usize) -> Option<usize> {
        if self.0 as usize <= max { Some(self.0 as usize) } else { None }
    }

    /// Returns true for a [`PacketKind::Eager`] message of exactly `bytes` bytes. Takes one
    /// comparison.
    #[inline(always)]
    #[must_use]
    pub const fn is_eager_of(self, bytes: usize) -> bool {
        self.0 as usize == bytes
    }

    /// Returns true for a [`PacketKind::Synchronous`] message of exactly `bytes` bytes. Takes one
    /// comparison.
    #[inline(always)]
    #[must_use]
    pub const fn is_synchronous_of(self, bytes: usize) -> bool {
        self.0 as usize == (PacketKind::Synchronous as usize) << LENGTH_BITS | bytes
    }

    /// Returns the payload's length in bytes.
    #[inline(always)]
    #[must_use]
    pub const fn length(self) -> usize {
        (self.0 & ((1 << LENGTH_BITS) - 1)) as usize
    }

    /// Returns the packet's kind.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Kind`] for a number that this layout version does not use.
    #[inline(always)]
    pub const fn kind(self) -> Result<PacketKind, Corrupt> {
        PacketKind::parse((self.0 >> LENGTH_BITS) as u8)
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

    /// Returns the key of the same context with `tag`. This key has tag 0.
    #[inline(always)]
    #[must_use]
    pub const fn with_tag(self, tag: u32) -> Self {
        debug_assert!(self.tag() == 0, "the tag takes the place of another one");
        Self(self.0 | tag as u64)
    }

    /// Returns the context.
    #[inline(always)]
    #[must_use]
    pub const fn context(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the tag.
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

    /// Returns the sequence number of packet `number` from the lower rank.
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
            let kind = PacketKind::parse(kind).unwrap();
            let word = HeaderWord::new(numbered(sequence), kind, length);
            let found = word.of_message(numbered(sequence)).unwrap();
            prop_assert_eq!(found.kind(), Ok(kind));
            prop_assert_eq!(found.length(), length);
            let is_short = kind == PacketKind::Eager && length <= 64;
            prop_assert_eq!(found.eager_up_to(64).is_some(), is_short);
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
            assert_eq!(HeaderWord::new(up, PacketKind::Eager, 8).of_message(down), None);
            assert_eq!(HeaderWord::new(down, PacketKind::Eager, 8).of_message(up), None);
            up += 1;
            down += 1;
        }
    }

    #[test]
    fn the_sequence_number_wraps_at_48_bits_without_losing_the_next_message() {
        let last = (1_u64 << 48) - 1;
        let header = |number| HeaderWord::new(numbered(number), PacketKind::Eager, 8);
        assert!(header(last).of_message(numbered(last)).is_some());
        assert!(header(last + 1).of_message(numbered(last + 1)).is_some());
        assert!(header(last).of_message(numbered(last + 1)).is_none());
    }

    #[test]
    fn an_unknown_kind_is_an_error() {
        assert_eq!(PacketKind::parse(15), Err(Corrupt::Kind { found: 15 }));
    }
}
