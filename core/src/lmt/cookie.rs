//! What an RTS packet says.

use super::{Home, Place, Remote, Span};
use crate::layout::{Corrupt, Segment, golden};
use crate::wire::Payload;

/// The sender's description of an announced message (`[Nemesis07]` §3.2): the payload of an RTS packet.
///
/// | offset | size | field        | meaning                                        |
/// |-------:|-----:|--------------|------------------------------------------------|
/// |      0 |    8 | `total`      | length of the message, bytes                   |
/// |      8 |    8 | `address`    | where it lies in the sender ([`Place`])        |
/// |     16 |    4 | `place`      | the sender's descriptor for it                 |
/// |     20 |    4 | `generation` | which use of that descriptor this is; not zero |
/// |     24 |    4 | `writes`     | bit 0: the sender may write to the receiver's memory; bit 1: to its heap |
/// |     28 |    4 | `lies`       | what `address` means                           |
/// |     32 |    4 | `turn`       | the message's turn ([`crate::rndv::Turn`]); zero: none |
/// |     36 |    4 | `reserved`   | zero                                           |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct SendCookie {
    /// Length of the message, bytes.
    pub total: u64,
    /// Where it lies in the sender's memory.
    pub address: u64,
    /// Number of the sender's descriptor.
    pub place: u32,
    /// Which use of the descriptor this is; not zero.
    pub generation: u32,
    /// [`SendCookie::WRITES_PRIVATE`] and [`SendCookie::WRITES_HEAP`].
    pub writes: u32,
    /// What `address` means.
    pub lies: u32,
    /// [`crate::rndv::Turn::word`] of the message's turn.
    pub turn: u32,
    /// Zero.
    pub reserved: u32,
}

golden::structure!(SendCookie { total, address, place, generation, writes, lies, turn, reserved });

static_assertions::const_assert_eq!(size_of::<SendCookie>(), SendCookie::LENGTH);
static_assertions::const_assert!(SendCookie::LENGTH <= crate::shm::SHORT_MAX);

// SAFETY: numbers without a gap.
unsafe impl Payload for SendCookie {}

impl SendCookie {
    /// Bytes in a packet: they fit the one line of a fastbox.
    pub const LENGTH: usize = 40;

    /// Bit of `writes`: the sender may write to the receiver's private memory.
    pub const WRITES_PRIVATE: u32 = 1;

    /// Bit of `writes`: the sender may write to the receiver's heap.
    pub const WRITES_HEAP: u32 = 2;

    /// Where the message lies in the memory of `source`, which announced it, and how to reach it.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Place`] and [`Corrupt::Heap`].
    pub(crate) fn reach(&self, segment: &Segment, source: u32) -> Result<Option<Remote>, Corrupt> {
        let place = Place::parse(self.address, self.lies)?;
        // `parse` checked the length.
        place.reach(segment, source, self.total as usize)
    }

    /// As the payload of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Reads a cookie that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for a packet of another length and for numbers that no sender writes.
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
