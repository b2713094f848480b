//! What two ranks share of a large message that is on its way from one to the other: its receive cookie
//! (`[Nemesis07]` §3.2) and the counters that share the work out.
//!
//! The sender owns the descriptor and announces it in an RTS packet. The receiver answers in the descriptor itself
//! instead of in a CTS packet: an answer never waits for a free cell, whatever the queues hold.
//!
//! Participants: the owner, and the receiver of the message it is in use for, one thread each. Everything is wait-free.

use super::Chunks;
use super::chunks::Grains;
use crate::layout::golden;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, CacheLine, order};

/// One transfer's place in the segment, on two lines.
///
/// | offset | size | field    | written by |
/// |-------:|-----:|----------|------------|
/// |      0 |   64 | `chunks` | both       |
/// |     64 |   64 | `grant`  | receiver   |
#[derive(Debug)]
#[repr(C)]
pub struct Descriptor {
    /// Who moves what, and how much is done.
    pub chunks: CacheLine<Chunks>,
    /// The receiver's answer.
    pub grant: CacheLine<Grant>,
}

golden::structure!(Descriptor { chunks, grant });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    use crate::sync::CACHE_LINE;

    const_assert_eq!(size_of::<Descriptor>(), 2 * CACHE_LINE);
    const_assert_eq!(offset_of!(Descriptor, grant), CACHE_LINE);
};

/// The receiver's answer to an announced message.
#[derive(Debug)]
#[repr(C)]
pub struct Grant {
    /// Generation of the transfer that the rest answers.
    open: AtomicU32,
    handle: AtomicU32,
    address: AtomicU64,
    length: AtomicU64,
    moves: AtomicU32,
    /// First of the grains that the receiver could not move, and their number; both zero for none.
    refused_first: AtomicU32,
    refused_count: AtomicU32,
    /// What `address` means.
    lies: AtomicU32,
}

golden::structure!(Grant {
    open,
    handle,
    address,
    length,
    moves,
    refused_first,
    refused_count,
    lies
});

/// What a receiver answers: the receive cookie.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReceiveCookie {
    /// Names the receive in data packets.
    pub handle: u32,
    /// Where the buffer lies in the receiver's memory ([`crate::lmt::Place`]).
    pub address: u64,
    /// What `address` means.
    pub lies: u32,
    /// Bytes wanted: all of the message, or as many as there is room for.
    pub length: u64,
    /// Whether the receiver moves grains itself.
    pub moves: bool,
}

impl Grant {
    /// An unused grant, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn unused() -> Self {
        let (half, word) = (|| AtomicU32::new(0), || AtomicU64::new(0));
        Self {
            open: half(),
            handle: half(),
            address: word(),
            length: word(),
            moves: half(),
            refused_first: half(),
            refused_count: half(),
            lies: half(),
        }
    }

    /// Forgets what was refused last. Called by the owner between two transfers.
    pub fn begin(&self) {
        // The announcement of the transfer publishes it.
        self.refused_count.store(0, Relaxed);
    }

    /// Opens the transfer `generation`. Called by its receiver, once.
    pub fn open(&self, generation: u32, cookie: ReceiveCookie) {
        self.handle.store(cookie.handle, Relaxed);
        self.address.store(cookie.address, Relaxed);
        self.lies.store(cookie.lies, Relaxed);
        self.length.store(cookie.length, Relaxed);
        self.moves.store(u32::from(cookie.moves), Relaxed);
        // ORDER grant/1: Release, pairs with grant/2: the cookie comes before the word that says it is there, and so does
        //   whatever the receiver did to its buffer before.
        self.open.store(generation, order("grant/1", Release));
    }

    /// The answer to the transfer `generation`, if it is there. The caller checks the numbers.
    #[inline]
    #[must_use]
    pub fn answer(&self, generation: u32) -> Option<ReceiveCookie> {
        // ORDER grant/2: Acquire, pairs with grant/1: the cookie may be read, and the buffer written.
        if self.open.load(order("grant/2", Acquire)) != generation {
            return None;
        }
        Some(ReceiveCookie {
            handle: self.handle.load(Relaxed),
            address: self.address.load(Relaxed),
            lies: self.lies.load(Relaxed),
            length: self.length.load(Relaxed),
            moves: self.moves.load(Relaxed) != 0,
        })
    }

    /// Leaves grains that the receiver has claimed to the sender: it cannot move them and will claim no more.
    pub fn refuse(&self, grains: Grains) {
        self.refused_first.store(grains.first, Relaxed);
        // ORDER grant/3: Release, pairs with grant/4: what the receiver's attempt wrote to its buffer comes before what
        //   the sender writes there.
        self.refused_count.store(grains.count, order("grant/3", Release));
    }

    /// The grains that the receiver left to the sender, if it did. The caller checks the numbers.
    #[inline]
    #[must_use]
    pub fn refused(&self) -> Option<Grains> {
        // ORDER grant/4: Acquire, pairs with grant/3.
        let count = self.refused_count.load(order("grant/4", Acquire));
        (count != 0).then(|| Grains { first: self.refused_first.load(Relaxed), count })
    }
}
