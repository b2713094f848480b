//! The descriptor of a large message in transit between two ranks. It holds the receive cookie
//! (`[Nemesis07]` §3.2) and the counters that distribute the work.
//!
//! The sender owns the descriptor and announces it in an RTS packet. The receiver answers in the
//! descriptor itself instead of in a CTS packet. An answer therefore never waits for a free cell.
//!
//! Participants: the owner, and the receiver of the current message, one thread each. Every
//! operation is wait-free.

use super::Chunks;
use super::chunks::Grains;
use crate::golden;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, CacheLine, order};

/// The words of one transfer in the segment, on two cache lines.
///
/// | offset | size | field    | written by |
/// |-------:|-----:|----------|------------|
/// |      0 |   64 | `chunks` | both       |
/// |     64 |   64 | `grant`  | receiver   |
#[derive(Debug)]
#[repr(C)]
pub struct Descriptor {
    /// The claims of both sides, and the number of grains done.
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
    /// Generation of the transfer that the other fields answer.
    open: AtomicU32,
    handle: AtomicU32,
    address: AtomicU64,
    length: AtomicU64,
    moves: AtomicU32,
    /// First of the grains that the receiver could not move, and their number. The number is zero
    /// for none.
    refused_first: AtomicU32,
    refused_count: AtomicU32,
    /// Code for the meaning of `address`.
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

/// The receive cookie: the contents of a receiver's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReceiveCookie {
    /// Name of the receive in data packets.
    pub handle: u32,
    /// Address of the buffer in the receiver's memory ([`crate::lmt::WireAddress`]).
    pub address: u64,
    /// Code for the meaning of `address`.
    pub lies: u32,
    /// Number of bytes wanted: the whole message, or as much as the buffer holds.
    pub length: u64,
    /// True if the receiver moves grains itself.
    pub moves: bool,
}

impl Descriptor {
    /// Touches the descriptor, so that its page is mapped when a message needs it.
    pub fn touch(&self) {
        // The value says nothing without a generation.
        let _ = self.grant.open.load(Relaxed);
    }
}

impl Grant {
    /// Creates an unused grant, for models and tests. In a segment, zeroed memory has this state.
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

    /// Clears the refused grains of the previous transfer. Called by the owner between two
    /// transfers.
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
        // ORDER grant/1: Release, pairs with grant/2: the cookie comes before the word that
        //   announces it. So does every earlier access of the receiver to its buffer.
        self.open.store(generation, order("grant/1", Release));
    }

    /// Returns the answer to the transfer `generation`, if it has arrived. The caller checks the
    /// numbers.
    #[inline]
    #[must_use]
    pub fn answer(&self, generation: u32) -> Option<ReceiveCookie> {
        // ORDER grant/2: Acquire, pairs with grant/1: the cookie may be read, and the buffer
        //   written.
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

    /// Leaves grains that the receiver has claimed to the sender. The receiver cannot move them and
    /// claims no more.
    pub fn refuse(&self, grains: Grains) {
        self.refused_first.store(grains.first, Relaxed);
        // ORDER grant/3: Release, pairs with grant/4: what the receiver's attempt wrote to its
        //   buffer comes before what the sender writes there.
        self.refused_count.store(grains.count, order("grant/3", Release));
    }

    /// Returns the grains that the receiver has left to the sender, if any. The caller checks the
    /// numbers.
    #[inline]
    #[must_use]
    pub fn refused(&self) -> Option<Grains> {
        // ORDER grant/4: Acquire, pairs with grant/3: the sender may write the part of the buffer
        //   that the grains belong to.
        let count = self.refused_count.load(order("grant/4", Acquire));
        (count != 0).then(|| Grains { first: self.refused_first.load(Relaxed), count })
    }
}
