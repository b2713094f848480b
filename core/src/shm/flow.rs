//! The words by which a receiver controls the flow of unexpected messages from one sender. They say
//! whether it has room for more messages, which offered message it wants, and which synchronous
//! messages have met their receives.
//!
//! A receiver copies an unexpected message into private memory. It spends a bounded amount of that
//! memory on each source. When the amount is used up, the receiver says *full*. The sender then
//! keeps its further messages and offers them instead. An offer takes part in matching like a
//! message. When an offer has matched a receive, the receiver *calls* for the message.
//!
//! Writer: the receiver. Reader: the sender. One thread each; all operations are wait-free.
//! Absent on purpose: a count of bytes. The sender's short path has no time for one. What it sends
//! before it looks is bounded by its shared memory: the lines of one fastbox and its own cells.

use crate::golden;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, order};
use crate::wire::Offer;

/// The words of one ordered pair of ranks. Zeroed memory means that there is room and that no
/// message is called for.
///
/// | offset | size | field     | written by |
/// |-------:|-----:|-----------|------------|
/// |      0 |    8 | `called`  | receiver   |
/// |      8 |    4 | `full`    | receiver   |
/// |     12 |    4 | `matched` | receiver   |
#[derive(Debug)]
#[repr(C)]
pub struct FlowWords {
    /// Number (upper half) and place (lower half) of the offer that is called for. Numbers begin
    /// with 1.
    called: AtomicU64,
    full: AtomicU32,
    /// One bit for each of the synchronous messages under way. It changes when the message has met
    /// its receive.
    matched: AtomicU32,
}

golden::structure!(FlowWords { called, full, matched });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    const_assert_eq!(size_of::<FlowWords>(), 16);
    const_assert_eq!(offset_of!(FlowWords, full), 8);
    const_assert_eq!(offset_of!(FlowWords, matched), 12);
};

impl FlowWords {
    /// Creates words that say that there is room, for models and tests. In a segment, zeroed memory
    /// has this state.
    #[must_use]
    pub fn empty() -> Self {
        Self { called: AtomicU64::new(0), full: AtomicU32::new(0), matched: AtomicU32::new(0) }
    }

    /// Tells the sender whether to keep its messages.
    ///
    /// The receiver calls it before it returns the cell or line of the message that changed the
    /// state. A sender that gets a cell or line back therefore sees the new state (free/3,
    /// fastbox/3). A sender that sees it late has only the cells and lines that it had.
    pub fn set_full(&self, full: bool) {
        // ORDER flow/1: Relaxed. The release of the cell or line that follows publishes it (free/3,
        //   fastbox/3).
        self.full.store(u32::from(full), order("flow/1", Relaxed));
    }

    /// Returns true if the sender must keep its messages. A late view of either state does no harm.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        // ORDER flow/2: Relaxed. Where it must not be late, free/4 or fastbox/4 orders it.
        self.full.load(order("flow/2", Relaxed)) != 0
    }

    /// Calls for the message of `offer`. The message called for previously has begun to arrive.
    pub fn call(&self, offer: Offer) {
        let word = u64::from(offer.number) << 32 | u64::from(offer.place);
        // ORDER flow/3: Relaxed. The word carries all the information itself.
        self.called.store(word, order("flow/3", Relaxed));
    }

    /// Returns place and number of the offer that was called for last. No offer has number 0. The
    /// caller checks both.
    #[inline]
    #[must_use]
    pub fn called(&self) -> (u32, u32) {
        // ORDER flow/4: Relaxed. It pairs with flow/3: number and place are of the same call.
        let called = self.called.load(order("flow/4", Relaxed));
        (called as u32, (called >> 32) as u32)
    }

    /// Publishes which synchronous messages have met their receives: the bit of each has changed.
    pub fn set_matched(&self, bits: u32) {
        // ORDER flow/5: Release. It pairs with flow/6: a sender that sees that its receive has
        //   started also sees what the receiver wrote before it started the receive.
        self.matched.store(bits, order("flow/5", Release));
    }

    /// Returns the bits of the synchronous messages, as the receiver published them last.
    #[inline]
    #[must_use]
    pub fn matched(&self) -> u32 {
        // ORDER flow/6: Acquire. It pairs with flow/5.
        self.matched.load(order("flow/6", Acquire))
    }
}
