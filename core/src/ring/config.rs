//! The configuration of a link, and the layout of the memory lent to it.

use core::ptr::NonNull;

use super::announcement::ANNOUNCEMENT;
use super::landing::Landing;
use crate::sync::CACHE_LINE;

/// The design of the byte transfer. Each design of `[RdmaChannel04]` improves on the one before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Design {
    /// Head and tail pointers on both sides; three writes for each message (§4.2).
    Basic = 0,
    /// Slots with size, flag and credit in the same write (§4.3).
    Piggyback = 1,
    /// The piggyback design, in which each chunk is sent while the next one is copied (§4.4).
    Pipeline = 2,
    /// The pipeline design, in which the receiver reads large parts directly into its user's buffer
    /// (§5).
    ZeroCopy = 3,
    /// The pipeline design, in which the sender writes large parts directly into the buffer of the
    /// receiver's user, once it knows the buffer's address. The paper compares its zero-copy design
    /// with this one (§6).
    RendezvousWrite = 4,
}

impl Design {
    /// All designs, in the paper's order.
    pub const ALL: [Self; 5] =
        [Self::Basic, Self::Piggyback, Self::Pipeline, Self::ZeroCopy, Self::RendezvousWrite];

    /// Returns the name that the paper uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Piggyback => "piggyback",
            Self::Pipeline => "pipeline",
            Self::ZeroCopy => "zero_copy",
            Self::RendezvousWrite => "rendezvous_write",
        }
    }
}

/// The parameters of a link, on which both sides agree.
///
/// ```
/// use strait_core::ring::{Design, LinkConfig};
///
/// let usual = LinkConfig::new(Design::ZeroCopy);
/// let small = LinkConfig { chunk: 1024, slots: 8, ..usual };
/// assert!(small.is_valid() && small.bytes() < usual.bytes());
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkConfig {
    /// The design of the byte transfer.
    pub design: Design,
    /// Number of bytes of the stream that are sent together, a multiple of 8.
    pub chunk: u32,
    /// Number of chunks in flight in each direction.
    pub slots: u32,
    /// Minimum size of a large part in bytes, at least 1. The two sides may differ in it.
    pub large: u32,
}

/// Memory that the embedder lends to a link, registered with
/// [`Access::ALL`](crate::hca::Access::ALL).
#[derive(Clone, Copy, Debug)]
pub struct LinkMemory {
    /// Address of the first byte, aligned to a cache line.
    pub base: NonNull<u8>,
    /// The region's key for this rank.
    pub local_key: u32,
    /// The region's key for the peer.
    pub remote_key: u32,
}

/// Maximum number of requests in flight on a link. Each has a word from which the device may read a
/// number.
pub(super) const REQUESTS: usize = 64;

/// Offset of the word to which the peer writes the length of its stream so far: the replica of its
/// head pointer.
pub(super) const HEAD: usize = 0;

/// Offset of the word to which the peer writes how much of our stream it has consumed. The word is
/// the replica of its tail pointer, or our credit.
pub(super) const TAIL: usize = 8;

/// Offset of the word to which the peer writes how many of our large parts it has read.
pub(super) const FETCHED: usize = 16;

/// Destination of a read that only proves the completion of earlier writes. Its value is not used.
pub(super) const PROOF: usize = 24;

/// Offset of the line in which the peer says where a large part of ours may be written.
pub(super) const GRANT: usize = CACHE_LINE;

/// Offset of the numbers that we write into the peer's words.
const WORDS: usize = 2 * CACHE_LINE;

/// Offset of the image of the peer's [`GRANT`].
pub(super) const GRANTED: usize = WORDS + REQUESTS * size_of::<u64>();

/// Offset of the line in which the peer requests a wake-up ([`super::WakeupWords`]).
pub(super) const WAKEUP_WORDS: usize = GRANTED + CACHE_LINE;

/// Offset of the words from which the peer reads how much was written to it.
pub(super) const TOLD: usize = WAKEUP_WORDS + size_of::<u64>();

/// Offset of the words read from the peer's `TOLD`.
pub(super) const NEWS: usize = WAKEUP_WORDS + CACHE_LINE;

/// Offset of the ring that the peer writes.
pub(super) const RING: usize = NEWS + CACHE_LINE;

/// Returns the offset of the word that request `number` writes to the peer.
pub(super) const fn word(number: u64) -> usize {
    WORDS + number as usize % REQUESTS * size_of::<u64>()
}

impl LinkConfig {
    /// Returns a configuration with 64 chunks of 16 KiB, the paper's choice (§4.4). Parts of at
    /// least two chunks are large.
    #[must_use]
    pub const fn new(design: Design) -> Self {
        Self { design, chunk: 16 << 10, slots: 64, large: 32 << 10 }
    }

    /// Returns true if a link can have this configuration: whole words, and a ring of at most 1
    /// GiB. In all designs but [`Design::Basic`], a slot must hold an announcement.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        const MOST: u64 = 1 << 30;
        let least = match self.design {
            Design::Basic => 8,
            _ => ANNOUNCEMENT as u32,
        };
        self.chunk >= least
            && self.chunk.is_multiple_of(8)
            && (self.chunk as u64) < MOST
            && self.slots > 0
            && self.slots as u64 * self.stride() as u64 <= MOST
            && self.large > 0
    }

    /// Returns the number of bytes from one slot to the next.
    pub(super) const fn stride(&self) -> usize {
        match self.design {
            Design::Basic => self.chunk as usize,
            _ => (self.chunk as usize + size_of::<Landing>()).next_multiple_of(CACHE_LINE),
        }
    }

    /// Returns the size of the ring, in bytes.
    pub(super) const fn ring_bytes(&self) -> usize {
        self.slots as usize * self.stride()
    }

    /// Returns the offset of the staging memory, where the bytes of our stream wait for the device.
    /// It is the image of the peer's ring.
    pub(super) const fn staging(&self) -> usize {
        RING + self.ring_bytes().next_multiple_of(CACHE_LINE)
    }

    /// Returns the number of bytes of memory that a link with this configuration needs.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.staging() + self.ring_bytes().next_multiple_of(CACHE_LINE)
    }
}
