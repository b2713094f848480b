//! The format of the provider's messages on Strait, and of names.
//!
//! Everything but the data of large messages travels in one context of Strait. It arrives in the
//! order of its pair, and is matched here. A *head* says what a message is.
//!
//! The data of large messages follow in another context, under a number that their head contains.
//! Strait chooses their path.

use strait::port::PeerAddress;
use strait_core::matching::TAG_MAX;
use strait_core::wire::Key;

use crate::abi::{NAME_BYTES, errno};
use crate::operation::OperationKind;
use crate::regions::MrEntry;

/// The context of heads.
pub(crate) const HEADS: u32 = 0;

/// The context of the data of messages that heads announce.
pub(crate) const DATA: u32 = 1;

/// The context of the data of messages that were promised their numbers.
pub(crate) const NAMED: u32 = 2;

/// Maximum size in bytes of a message that follows its head: the size that Strait copies through
/// shared memory.
pub(crate) const INLINE_MAX: usize = 12 * 1024 - ProviderHead::BYTES;

/// Maximum size in bytes of a message that may be injected.
pub(crate) const INJECT_MAX: usize = 4096;

/// Maximum number of parts of a buffer.
pub(crate) const IOV_MAX: usize = 8;

/// The kind of a head. It is the tag of Strait's message, with the flags below.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum HeadKind {
    /// A message without a tag; its bytes follow.
    Msg = 0,
    /// A message with a tag; its bytes follow.
    Tagged = 1,
    /// A message without a tag; an [`Away`] follows.
    MsgAway = 2,
    /// A message with a tag; an [`Away`] follows.
    TaggedAway = 3,
    /// The number of a message replaces the tag. The message is in its receiver's buffer.
    Delivered = 4,
    /// Remote memory was written. Its owner is notified with the data.
    Written = 5,
    /// An atomic operation; an request (`numbers`) and its operands follow.
    Atomic = 6,
    /// The answer to an atomic operation. The number of the operation replaces the tag, and the old
    /// values of the memory follow.
    AtomicDone = 7,
    /// A request for the device's key of a region. The region's own key replaces the tag.
    Ask = 8,
    /// The answer to [`HeadKind::Ask`]: the same key replaces the tag, and an [`Opened`] follows.
    Open = 9,
    /// A question whether earlier writes have arrived. A number replaces the tag.
    Prove = 10,
    /// The answer to [`HeadKind::Prove`] that they have, with the same number.
    Proved = 11,
    /// The owner of a region needs the device's room for another. The key of the region replaces
    /// the tag.
    Recall = 12,
    /// No transfer names a region any more. The key of the region replaces the tag.
    Returned = 13,
}

/// The head contains data for its receiver's completion.
pub(crate) const HAS_DATA: u32 = 1 << 8;

/// The sender asks for a report of the delivery. If the bytes of the message follow, it is then
/// [`Numbered`].
pub(crate) const WANTS_ACK: u32 = 1 << 9;

/// The sender polls whether the message has been taken ([`strait_core::engine::Mark`]).
pub(crate) const WANTS_CREDIT: u32 = 1 << 10;

/// The head announces data for which an RTR was at the sender.
pub(crate) const BY_RTR: u32 = 1 << 11;

impl HeadKind {
    /// Returns the key of Strait's message.
    #[inline(always)]
    pub(crate) const fn key(self, flags: u32) -> Key {
        Key::new(HEADS, self as u32 | flags)
    }

    /// Parses the tag of a message that arrived. Returns `None` for a tag that no provider sends.
    #[inline(always)]
    pub(crate) const fn parse(tag: u32) -> Option<Self> {
        Some(match tag & 0xff {
            0 => Self::Msg,
            1 => Self::Tagged,
            2 => Self::MsgAway,
            3 => Self::TaggedAway,
            4 => Self::Delivered,
            5 => Self::Written,
            6 => Self::Atomic,
            7 => Self::AtomicDone,
            8 => Self::Ask,
            9 => Self::Open,
            10 => Self::Prove,
            11 => Self::Proved,
            12 => Self::Recall,
            13 => Self::Returned,
            _ => return None,
        })
    }
}

/// The first bytes of every message.
///
/// | offset | size | field  | meaning                               |
/// |-------:|-----:|--------|---------------------------------------|
/// |      0 |    8 | `tag`  | libfabric's tag, or a number          |
/// |      8 |    8 | `data` | for the receiver's completion entry   |
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ProviderHead {
    pub(crate) tag: u64,
    pub(crate) data: u64,
}

impl ProviderHead {
    pub(crate) const BYTES: usize = 16;

    #[inline(always)]
    pub(crate) fn write(self, to: &mut [u8; Self::BYTES]) {
        to[..8].copy_from_slice(&self.tag.to_le_bytes());
        to[8..].copy_from_slice(&self.data.to_le_bytes());
    }

    /// Returns the head and the bytes behind it, or `None` when there are too few bytes.
    #[inline(always)]
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (tag, rest) = bytes.split_first_chunk()?;
        let (data, rest) = rest.split_first_chunk()?;
        Some((Self { tag: u64::from_le_bytes(*tag), data: u64::from_le_bytes(*data) }, rest))
    }
}

/// The first bytes of a message with a report of its delivery ([`WANTS_ACK`]): the head, and 8
/// bytes with the number of the report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Numbered {
    pub(crate) head: ProviderHead,
    pub(crate) number: u32,
}

impl Numbered {
    pub(crate) const BYTES: usize = ProviderHead::BYTES + 8;

    pub(crate) fn write(self, to: &mut [u8; Self::BYTES]) {
        let (head, number) = to.split_at_mut(ProviderHead::BYTES);
        if let Some(head) = head.first_chunk_mut() {
            self.head.write(head);
        }
        number.copy_from_slice(&u64::from(self.number).to_le_bytes());
    }

    /// Parses the number behind a head, and returns it with the bytes behind it. Another process
    /// wrote them.
    pub(crate) fn number(body: &[u8]) -> Option<(u32, &[u8])> {
        let (number, rest) = body.split_first_chunk()?;
        let number = u32::try_from(u64::from_le_bytes(*number)).ok()?;
        (number <= TAG_MAX).then_some((number, rest))
    }
}

/// The location of the data of a message: Strait's message `key`, in the context [`DATA`] or
/// [`NAMED`].
///
/// | offset | size | field    | meaning                                                         |
/// |-------:|-----:|----------|-----------------------------------------------------------------|
/// |      0 |    8 | `length` | bytes                                                           |
/// |      8 |    4 | `key`    | its tag; bit 31: the context is [`NAMED`]                       |
/// |     12 |    4 | `next`   | number that the next message of the envelope is promised, or 0  |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Away {
    pub(crate) length: usize,
    pub(crate) key: Key,
    pub(crate) next: u32,
}

/// The bit of a number that says that the context is [`NAMED`].
const IS_NAMED: u32 = TAG_MAX + 1;

impl Away {
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&(self.length as u64).to_le_bytes());
        let named = if self.key.context() == NAMED { IS_NAMED } else { 0 };
        bytes[8..12].copy_from_slice(&(self.key.tag() | named).to_le_bytes());
        bytes[12..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }

    /// Parses bytes that another process wrote.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let number = u32::from_le_bytes(*number);
        let next = u32::from_le_bytes(*rest.first_chunk()?);
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let context = if number & IS_NAMED == 0 { DATA } else { NAMED };
        let key = Key::new(context, number & TAG_MAX);
        (next <= TAG_MAX && length <= isize::MAX as usize).then_some(Self { length, key, next })
    }
}

/// A region that the devices of other processes may access, or the reason for a refusal.
///
/// | offset | size | field     | meaning                                          |
/// |-------:|-----:|-----------|--------------------------------------------------|
/// |      0 |    8 | `base`    | address of the first byte                        |
/// |      8 |    8 | `length`  | bytes                                            |
/// |     16 |    4 | `key`     | the device's remote key                          |
/// |     20 |    1 | `rights`  | bit 0: it may be read; bit 1: it may be written  |
/// |     21 |    1 | `refusal` | an error number; zero: the region is open        |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Opened {
    base: u64,
    length: u64,
    pub(crate) key: u32,
    rights: u8,
    pub(crate) refusal: u8,
}

impl Opened {
    pub(crate) const BYTES: usize = 24;

    /// Makes the description of a region that is open to devices under `key`.
    pub(crate) fn new(registered: &MrEntry, key: u32) -> Self {
        let MrEntry { base, length, access } = *registered;
        let rights = u8::from(access.remote_read) | u8::from(access.remote_write) << 1;
        Self { base: base as u64, length: length as u64, key, rights, refusal: 0 }
    }

    /// Makes a refusal with its error number.
    pub(crate) const fn refused(error: i32) -> Self {
        Self { base: 0, length: 0, key: 0, rights: 0, refusal: error as u8 }
    }

    pub(crate) fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.base.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.key.to_le_bytes());
        bytes[20..22].copy_from_slice(&[self.rights, self.refusal]);
        bytes
    }

    /// Parses bytes that another process wrote.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (base, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let [rights, refusal] = *rest.first_chunk()?;
        let (base, length) = (u64::from_le_bytes(*base), u64::from_le_bytes(*length));
        Some(Self { base, length, key: u32::from_le_bytes(*key), rights, refusal })
    }

    /// Checks whether `length` bytes at `address` may be read or written.
    ///
    /// # Errors
    ///
    /// The error number with which the operation ends.
    pub(crate) fn allows(&self, op: OperationKind, address: u64, length: usize) -> Result<(), i32> {
        if self.refusal != 0 {
            return Err(self.refusal.into());
        }
        let right = if op == OperationKind::Read { 1 } else { 2 };
        let before = address.checked_sub(self.base);
        let needed = before.and_then(|before| before.checked_add(length as u64));
        let holds = needed.is_some_and(|needed| needed <= self.length);
        if holds && self.rights & right != 0 { Ok(()) } else { Err(errno::EACCES) }
    }
}

/// The name of a process, as `fi_getname` returns it.
///
/// | offset | size | field     | meaning                     |
/// |-------:|-----:|-----------|-----------------------------|
/// |      0 |    4 |           | `STRT`                      |
/// |      4 |    4 | `pid`     | its process, for debugging  |
/// |      8 |   40 | `address` | its address                 |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ProviderName {
    pub(crate) pid: u32,
    pub(crate) address: PeerAddress,
}

const MAGIC: [u8; 4] = *b"STRT";

impl ProviderName {
    /// Size of a name in bytes. MPICH accepts at most 64.
    pub(crate) const BYTES: usize = NAME_BYTES;

    pub(crate) fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.pid.to_le_bytes());
        bytes[8..].copy_from_slice(&self.address.to_bytes());
        bytes
    }

    /// Parses a name. Returns `None` when it is not one of Strait's.
    pub(crate) fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let pid = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
        let peer_address = PeerAddress::from_bytes(bytes.last_chunk()?);
        bytes.starts_with(&MAGIC).then_some(Self { pid, address: peer_address })
    }
}

#[cfg(test)]
mod tests {
    use strait_core::hca::Access;

    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let head = ProviderHead { tag: u64::MAX - 1, data: 7 };
        let mut bytes = [0; ProviderHead::BYTES + 3];
        head.write(bytes.first_chunk_mut().unwrap());
        assert_eq!(ProviderHead::read(&bytes), Some((head, &[0_u8; 3][..])));
        assert_eq!(ProviderHead::read(&bytes[..ProviderHead::BYTES - 1]), None);
        let (numbered, mut bytes) = (Numbered { head, number: 9 }, [7; Numbered::BYTES + 3]);
        numbered.write(bytes.first_chunk_mut().unwrap());
        let (read, rest) = ProviderHead::read(&bytes).unwrap();
        assert_eq!((read, Numbered::number(rest)), (head, Some((9, &[7_u8; 3][..]))));
        for context in [DATA, NAMED] {
            let away = Away { length: 1 << 40, key: Key::new(context, TAG_MAX), next: 9 };
            assert_eq!(Away::parse(&away.bytes()), Some(away));
        }
        let access = Access::ALL;
        let opened = Opened::new(&MrEntry { base: 1 << 40, length: 64, access }, 9);
        assert_eq!(Opened::parse(&opened.bytes()), Some(opened));
        let peer_address =
            PeerAddress { nonce: 1 << 60, rank: 3, host: 9, address: None, key: [0; 16] };
        let name = ProviderName { pid: 77, address: peer_address };
        assert_eq!(ProviderName::parse(&name.bytes()), Some(name));
    }

    #[test]
    fn invalid_bytes_are_refused() {
        assert_eq!(HeadKind::parse(200), None);
        assert_eq!(Away::parse(&[0xff; Away::BYTES]), None);
        assert_eq!(Away::parse(&[0; 3]), None);
        assert_eq!(Numbered::number(&[0xff; 8]), None);
        assert_eq!(Numbered::number(&[0; 7]), None);
        assert_eq!(ProviderName::parse(&[0; ProviderName::BYTES]), None);
    }

    #[test]
    fn an_access_is_in_its_region_or_refused() {
        let access = Access { remote_write: false, ..Access::ALL };
        let opened = Opened::new(&MrEntry { base: 100, length: 10, access }, 1);
        let is_held =
            |(address, length)| opened.allows(OperationKind::Read, address, length).is_ok();
        let held = [(100, 10), (105, 5), (110, 0), (99, 2), (105, 6), (u64::MAX, 2)].map(is_held);
        assert_eq!(held, [true, true, true, false, false, false]);
        assert_eq!(opened.allows(OperationKind::Write, 100, 1), Err(errno::EACCES));
        assert_eq!(
            Opened::refused(errno::ENOMEM).allows(OperationKind::Read, 0, 0),
            Err(errno::ENOMEM)
        );
    }

    #[test]
    fn kinds_are_parsed_with_any_flags() {
        for kind in [HeadKind::Msg, HeadKind::TaggedAway, HeadKind::AtomicDone] {
            let key = kind.key(HAS_DATA | WANTS_ACK);
            assert_eq!((key.context(), HeadKind::parse(key.tag())), (HEADS, Some(kind)));
        }
    }
}
