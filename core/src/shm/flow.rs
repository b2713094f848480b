//! What a receiver tells one sender about messages that nobody waits for: whether it has room for more, and which of those
//! that the sender kept it wants now.
//!
//! A receiver copies an unexpected message into private memory, of which it spends a bounded amount on each source. When that
//! is used up it says *full*, and the sender keeps its further messages and offers them instead. An offer takes part in
//! matching like a message; when it has met its receive, the receiver *calls* for the message.
//!
//! Writer: the receiver. Reader: the sender. One thread each; all operations are wait-free.
//! Absent on purpose: a count of bytes. The sender's short path has no time for one, and what it hands over before it looks
//! is bounded by the shared memory that it has: lines of one fastbox and its own cells.

use crate::layout::golden;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};
use crate::wire::Offer;

/// The words for one ordered pair of ranks. Zeroed memory says: there is room, and nothing was called for.
///
/// | offset | size | field    | written by |
/// |-------:|-----:|----------|------------|
/// |      0 |    8 | `called` | receiver   |
/// |      8 |    4 | `full`   | receiver   |
#[derive(Debug)]
#[repr(C)]
pub struct Flow {
    /// Number (upper half) and place of the offer whose message is wanted. Numbers begin with 1.
    called: AtomicU64,
    full: AtomicU32,
    reserved: u32,
}

golden::structure!(Flow { called, full, reserved });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    const_assert_eq!(size_of::<Flow>(), 16);
    const_assert_eq!(offset_of!(Flow, full), 8);
};

impl Flow {
    /// Says whether the sender is to keep its messages.
    ///
    /// Said before the cell or line goes back whose message made the difference: so a sender that gets anything back sees
    /// it (free/1, fastbox/3), and one that sees it late has only what it had.
    pub fn set_full(&self, full: bool) {
        self.full.store(u32::from(full), Relaxed);
    }

    /// True when the sender is to keep its messages. Late news of either kind does no harm.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full.load(Relaxed) != 0
    }

    /// Calls for the message of `offer`. The one called for before has begun to arrive.
    pub fn call(&self, offer: Offer) {
        // Relaxed: the word is all there is to know.
        self.called.store(u64::from(offer.number) << 32 | u64::from(offer.place), Relaxed);
    }

    /// Place and number of the offer that was called for last. No offer has number 0. The caller checks both.
    #[inline]
    #[must_use]
    pub fn called(&self) -> (u32, u32) {
        let called = self.called.load(Relaxed);
        (called as u32, (called >> 32) as u32)
    }
}
