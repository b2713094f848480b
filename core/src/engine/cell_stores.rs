//! The stores that fill cells best for one peer: through the caches, or round them.
//!
//! A cell that comes back has its lines in the cache of the core that read it. Where this core
//! shares a cache with that one, cached stores get them at 20 GB/s and more. Elsewhere they get
//! them one by one, at 2 to 3 GB/s, and non-temporal stores, which fetch no line, are three times
//! as fast. Which of both holds shows in the time of a fill by cached stores. It may change while a
//! job runs, so one fill is timed now and then.
//!
//! Time is an argument and affects only speed.

use crate::buffer::copy::Stores;

/// Shortest part of a message, in bytes, for which non-temporal stores are worth their fence.
pub(super) const STREAMED_CELL_LEAST: usize = 2048;

/// Number of messages between two that are timed, while cached stores are used and while they are
/// not. In the latter case a message that is timed takes much longer than the others.
const NEAR_SPACING: u8 = 15;
const FAR_SPACING: u8 = 63;

/// Nanoseconds for a KiB in which cached stores fill a cell, at most, where the cores share a
/// cache. The sender's own buffer may come from memory.
const NEAR_MOST: u64 = 180;

/// Number of the last fills of which the median decides. One disturbed fill says nothing.
const TIMED: usize = 3;

/// What this rank knows about its stores into cells for one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CellStores {
    /// Bytes that the message which is timed has put into cells, and one more. 0: none is timed.
    filled: u32,
    /// For each of the last fills, whether it took longer than near cores need.
    slow: [Option<bool>; TIMED],
    /// Messages until one is timed again.
    untimed: u8,
}

impl CellStores {
    /// Counts a message that may take cells, and returns whether it is to be timed.
    pub(super) const fn is_due(&mut self) -> bool {
        match self.untimed.checked_sub(1) {
            Some(untimed) => self.untimed = untimed,
            None => self.filled = 1,
        }
        self.filled > 0
    }

    /// Returns the stores for a part of `length` bytes that is to fill a cell.
    pub(super) fn of_part(&self, length: usize) -> Stores {
        let streamed = self.filled == 0 && length >= STREAMED_CELL_LEAST && self.is_far();
        if streamed { Stores::NonTemporal } else { Stores::Cached }
    }

    /// Counts a part of `length` bytes that has filled a cell.
    pub(super) const fn count(&mut self, length: usize) {
        if self.filled > 0 {
            // No cell has more bytes than 32 bits count.
            self.filled = self.filled.saturating_add(length as u32);
        }
    }

    /// Takes the nanoseconds that the message took for which [`CellStores::is_due`] returned true.
    /// They do not count if it took other paths.
    pub(super) fn timed(&mut self, nanoseconds: u64) {
        let filled = core::mem::take(&mut self.filled).saturating_sub(1);
        if filled == 0 {
            self.untimed = NEAR_SPACING;
            return;
        }
        self.slow.rotate_right(1);
        self.slow[0] = Some(nanoseconds.saturating_mul(1024) / u64::from(filled) > NEAR_MOST);
        self.untimed = match (self.slow.contains(&None), self.is_far()) {
            (true, _) => 0,
            (false, false) => NEAR_SPACING,
            (false, true) => FAR_SPACING,
        };
    }

    /// Returns whether most of the last fills were slow.
    fn is_far(&self) -> bool {
        self.slow.iter().filter(|slow| **slow == Some(true)).count() > TIMED / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 4096;

    /// Times of 4 KiB by cached stores, in nanoseconds.
    const NEAR: u64 = 250;
    const FAR: u64 = 1600;

    /// Sends `messages` messages that each take `nanoseconds` when they are timed. Returns how many
    /// were timed.
    fn send(stores: &mut CellStores, messages: usize, nanoseconds: u64) -> usize {
        let message = |_: &usize| {
            let due = stores.is_due();
            assert!(!due || stores.of_part(LENGTH) == Stores::Cached);
            if due {
                stores.count(LENGTH);
                stores.timed(nanoseconds);
            }
            due
        };
        (0..messages).filter(message).count()
    }

    #[test]
    fn two_slow_fills_of_three_let_long_parts_go_round_the_caches() {
        let mut stores = CellStores::default();
        for (nanoseconds, streamed) in [(FAR, false), (NEAR, false), (FAR, true)] {
            assert_eq!(send(&mut stores, 1, nanoseconds), 1);
            assert_eq!(stores.of_part(LENGTH) == Stores::NonTemporal, streamed);
        }
        assert_eq!(stores.of_part(STREAMED_CELL_LEAST - 1), Stores::Cached);
    }

    #[test]
    fn a_message_is_timed_now_and_then_and_less_often_where_that_costs_more() {
        let [mut near, mut far] = [CellStores::default(); 2];
        assert_eq!(send(&mut near, TIMED + 2 * usize::from(NEAR_SPACING + 1), NEAR), TIMED + 2);
        assert_eq!(send(&mut far, TIMED + 2 * usize::from(FAR_SPACING + 1), FAR), TIMED + 2);
        send(&mut far, 4 * usize::from(FAR_SPACING + 1), NEAR);
        assert_eq!(far.of_part(LENGTH), Stores::Cached, "the cores have moved");
    }

    #[test]
    fn a_message_that_took_no_cell_says_nothing() {
        let mut stores = CellStores::default();
        for _ in 0..5 {
            assert!(stores.is_due());
            stores.timed(FAR);
            for _ in 0..NEAR_SPACING {
                assert!(!stores.is_due(), "the next ones may take no cell either");
            }
        }
        assert_eq!(stores.of_part(LENGTH), Stores::Cached);
        stores.timed(FAR);
        assert_eq!(stores.of_part(LENGTH), Stores::Cached, "nobody asked");
    }
}
