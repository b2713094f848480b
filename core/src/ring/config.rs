//! What a link is made of, and what lies where in the memory lent to it.

use core::ptr::NonNull;

use super::landing::Landing;
use super::slot::ANNOUNCEMENT;
use crate::sync::CACHE_LINE;

/// How bytes travel: the designs of `[RdmaChannel04]`, each better than the one before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Design {
    /// Head and tail pointers on both sides; three writes for a message (§4.2).
    Basic = 0,
    /// Slots whose writes carry size, flag and credit (§4.3).
    Piggyback = 1,
    /// As `Piggyback`, and each chunk leaves while the next one is copied (§4.4).
    Pipeline = 2,
    /// As `Pipeline`, and the receiver reads large parts straight into its user's buffer (§5).
    ZeroCopy = 3,
    /// As `Pipeline`, and the sender writes large parts straight into the receiver's user's buffer, once it knows where
    /// that is (§6: what the paper compares with).
    RendezvousWrite = 4,
}

impl Design {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 5] =
        [Self::Basic, Self::Piggyback, Self::Pipeline, Self::ZeroCopy, Self::RendezvousWrite];

    /// Its name, as the paper has it.
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

/// What both sides of a link agree on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// How bytes travel.
    pub design: Design,
    /// Bytes of the stream that travel together. A multiple of 8.
    pub chunk: u32,
    /// Chunks under way in each direction.
    pub slots: u32,
    /// Parts of at least this many bytes are large. A side's own affair; at least 1.
    pub large: u32,
}

/// Memory that the embedder lends to a link, registered for everything ([`Access::ALL`](crate::hca::Access::ALL)).
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    /// First byte, aligned to a cache line.
    pub base: NonNull<u8>,
    /// Key of its region for this rank.
    pub local_key: u32,
    /// Key of its region for the peer.
    pub remote_key: u32,
}

/// Requests under way on a link, at most: each has a word that the device may read a number from.
pub(super) const REQUESTS: usize = 64;

/// Where the peer says how far its stream to us goes: the replica of its head pointer.
pub(super) const HEAD: usize = 0;

/// Where the peer says how much of our stream it has consumed: the replica of its tail pointer, or our credit.
pub(super) const TAIL: usize = 8;

/// Where the peer says how many of our large parts it has read.
pub(super) const FETCHED: usize = 16;

/// Where a read leaves a word that nobody looks at: that it is done is what was asked.
pub(super) const PROOF: usize = 24;

/// The place of one line where the peer says where a large part of ours may be written.
pub(super) const GRANT: usize = CACHE_LINE;

/// Sources of the numbers that we write into the peer's words.
const WORDS: usize = 2 * CACHE_LINE;

/// The image of the peer's [`GRANT`].
pub(super) const GRANTED: usize = WORDS + REQUESTS * size_of::<u64>();

/// The line where the peer asks for a knock ([`Porch`](super::Porch)).
pub(super) const PORCH: usize = GRANTED + CACHE_LINE;

/// Where the peer reads how much was written to it.
pub(super) const TOLD: usize = PORCH + size_of::<u64>();

/// What was read there at the peer.
pub(super) const NEWS: usize = PORCH + CACHE_LINE;

/// The ring that the peer writes.
pub(super) const RING: usize = NEWS + CACHE_LINE;

/// Where request `number` takes a word from.
pub(super) const fn word(number: u64) -> usize {
    WORDS + number as usize % REQUESTS * size_of::<u64>()
}

impl Config {
    /// 64 chunks of 16 KiB, the paper's choice (§4.4); large is what is longer than two.
    #[must_use]
    pub const fn new(design: Design) -> Self {
        Self { design, chunk: 16 << 10, slots: 64, large: 32 << 10 }
    }

    /// Whether links can be made so: whole words, and a ring of at most 1 GiB. A slot has to hold an announcement.
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

    /// Bytes from one slot to the next.
    pub(super) const fn stride(&self) -> usize {
        match self.design {
            Design::Basic => self.chunk as usize,
            _ => (self.chunk as usize + size_of::<Landing>()).next_multiple_of(CACHE_LINE),
        }
    }

    /// Bytes of the ring.
    pub(super) const fn ring_bytes(&self) -> usize {
        self.slots as usize * self.stride()
    }

    /// Where the bytes of our stream wait for the device: the image of the peer's ring.
    pub(super) const fn staging(&self) -> usize {
        RING + self.ring_bytes().next_multiple_of(CACHE_LINE)
    }

    /// Memory that a link of this kind needs, bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.staging() + self.ring_bytes().next_multiple_of(CACHE_LINE)
    }
}
