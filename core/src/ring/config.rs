//! What a link is made of, and what lies where in the memory lent to it.

use core::ptr::NonNull;

use crate::sync::CACHE_LINE;

/// How bytes travel: the designs of `[RdmaChannel04]`, each better than the one before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Design {
    /// Head and tail pointers on both sides; three writes for a message (§4.2).
    Basic = 0,
}

impl Design {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 1] = [Self::Basic];

    /// Its name, as the paper has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
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

/// Sources of the numbers that we write into the peer's words.
const WORDS: usize = 2 * CACHE_LINE;

/// The ring that the peer writes.
pub(super) const RING: usize = WORDS + REQUESTS * size_of::<u64>();

/// Where request `number` takes a word from.
pub(super) const fn word(number: u64) -> usize {
    WORDS + number as usize % REQUESTS * size_of::<u64>()
}

impl Config {
    /// 64 chunks of 16 KiB, the paper's choice (§4.4).
    #[must_use]
    pub const fn new(design: Design) -> Self {
        Self { design, chunk: 16 << 10, slots: 64 }
    }

    /// Whether links can be made so: the ring has between 8 bytes and 1 GiB, in whole words.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        let ring = self.slots as u64 * self.stride() as u64;
        self.chunk >= 8 && self.chunk.is_multiple_of(8) && self.slots > 0 && ring <= 1 << 30
    }

    /// Bytes from one slot to the next.
    pub(super) const fn stride(&self) -> usize {
        match self.design {
            Design::Basic => self.chunk as usize,
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
