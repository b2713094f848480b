//! The payload of an RTS packet.

use super::{Home, ReadTime, RemoteBuffer, Span, WireAddress};
use crate::golden;
use crate::layout::Segment;
use crate::wire::{Corrupt, WirePayload};

/// The sender's description of an announced message (`[Nemesis07]` §3.2). It is the payload of an
/// RTS packet.
///
/// | offset | size | field        | meaning                                                 |
/// |-------:|-----:|--------------|---------------------------------------------------------|
/// |      0 |    8 | `total`      | length of the message, bytes                            |
/// |      8 |    8 | `address`    | where it lies in the sender ([`WireAddress`])           |
/// |     16 |    4 | `place`      | the sender's descriptor for it                          |
/// |     20 |    4 | `generation` | which use of that descriptor this is; not zero          |
/// |     24 |    4 | `writes`     | may write to the receiver's: bit 0: memory; bit 1: heap |
/// |     28 |    4 | `lies`       | what `address` means; bit 8: read while sender is away  |
/// |     32 |    4 | `turn`       | the message's turn ([`crate::wire::Turn`]); zero: none  |
/// |     36 |    4 | `reserved`   | zero                                                    |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct SendCookie {
    /// Length of the message, in bytes.
    pub total: u64,
    /// Location of the message in the sender's memory.
    pub address: u64,
    /// Number of the sender's descriptor.
    pub place: u32,
    /// Number of this use of the descriptor; not zero.
    pub generation: u32,
    /// [`SendCookie::WRITES_PRIVATE`] and [`SendCookie::WRITES_HEAP`].
    pub writes: u32,
    /// The meaning of `address`.
    pub lies: u32,
    /// [`crate::wire::Turn::word`] of the message's turn.
    pub turn: u32,
    /// Reserved, zero.
    pub reserved: u32,
}

golden::structure!(SendCookie { total, address, place, generation, writes, lies, turn, reserved });

static_assertions::const_assert_eq!(size_of::<SendCookie>(), SendCookie::LENGTH);
static_assertions::const_assert!(SendCookie::LENGTH <= crate::wire::SHORT_MAX);

// SAFETY: all fields are integers, and there is no padding.
unsafe impl WirePayload for SendCookie {}

impl SendCookie {
    /// Size in bytes in a packet. It fits the single line of a fastbox.
    pub const LENGTH: usize = 40;

    /// Bit of `writes`: the sender may write to the receiver's private memory.
    pub const WRITES_PRIVATE: u32 = 1;

    /// Bit of `writes`: the sender may write to the receiver's heap.
    pub const WRITES_HEAP: u32 = 2;

    /// Returns how to reach the message in the memory of `source`, which announced it. Returns
    /// `None` if the message is not accessible.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Place`] for an unknown meaning of `address`; [`Corrupt::Heap`] for a
    /// message outside the heap.
    pub(crate) fn reach(
        &self,
        segment: &Segment,
        source: u32,
    ) -> Result<Option<RemoteBuffer>, Corrupt> {
        let place = WireAddress::parse(self.address, ReadTime::parse(self.lies).0)?;
        // `parse` checked that the length fits `usize`.
        place.reach(segment, source, self.total as usize)
    }

    /// Returns when the receiver may read the message.
    pub(crate) const fn read_time(&self) -> ReadTime {
        ReadTime::parse(self.lies).1
    }

    /// Returns the cookie as the payload of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Parses a cookie that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for numbers that no sender writes.
    pub fn parse(packet: &[u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let cookie = Self::from_bytes(packet);
        let total = usize::try_from(cookie.total).ok().filter(|total| Span::fits(*total));
        if total.is_none() {
            return Err(Corrupt::Length { found: cookie.total, max: isize::MAX as u64 });
        }
        Home::parse(0, cookie.place, cookie.generation)?;
        Ok(cookie)
    }
}
