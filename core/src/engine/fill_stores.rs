//! The stores that fill cells and lent parcels best for one peer: through the caches, or round
//! them.
//!
//! What comes back from the peer has its lines in the cache of the core that read it. Where this
//! core shares a cache with that one, cached stores get them at 10 to 20 GB/s. Elsewhere they get
//! them one by one, at 2 to 3 GB/s, and non-temporal stores, which fetch no line, are three times
//! as fast. Which of both holds shows in the time of a fill by cached stores. It may change while a
//! job runs, so one fill is timed now and then.
//!
//! Time is an argument and affects only speed.

use crate::buffer::copy::Stores;

/// Shortest part of a message, in bytes, for which non-temporal stores are worth their fence.
pub(super) const STREAMED_FILL_LEAST: usize = 2048;

/// Number of messages between two that are timed, while cached stores are used and while they are
/// not. In the latter case a message that is timed takes much longer than the others.
const NEAR_SPACING: u8 = 15;
const FAR_SPACING: u8 = 63;

/// Nanoseconds for a KiB in which cached stores fill what comes back, at most, where the cores
/// share a cache. The sender's own buffer may come from memory.
const NEAR_MOST: u16 = 180;

/// The same where they do so as fast as non-temporal stores. Cores that share a cache take 40 or
/// 115, which of both may differ from one job to the next; non-temporal stores take 70.
const FAST_MOST: u16 = 80;

/// Shortest part of a message, in bytes, for which non-temporal stores are worth their fence
/// between cores that share a cache.
const STREAMED_NEAR_LEAST: usize = 8192;

/// Number of the last fills of which the median decides. One disturbed fill says nothing.
const TIMED: usize = 3;

/// What this rank knows about its stores into cells and lent parcels for one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FillStores {
    /// Bytes that the message which is timed has put into cells or lent parcels, and one more. 0:
    /// none is timed.
    filled: u32,
    /// Nanoseconds for a KiB of each of the last fills. 0: there was none yet.
    costs: [u16; TIMED],
    /// Messages until one is timed again.
    untimed: u8,
}

impl FillStores {
    /// Counts a message that may fill what comes back, and returns whether it is to be timed.
    pub(super) const fn is_due(&mut self) -> bool {
        match self.untimed.checked_sub(1) {
            Some(untimed) => self.untimed = untimed,
            None => self.filled = 1,
        }
        self.filled > 0
    }

    /// Returns the stores for a part of `length` bytes that is to fill a cell.
    pub(super) fn of_cell(&self, length: usize) -> Stores {
        self.stores(length >= STREAMED_FILL_LEAST && self.cost() > NEAR_MOST)
    }

    /// Returns the stores for a part of `length` bytes that is to fill parcels and lend them.
    pub(super) fn of_lent_parcels(&self, length: usize) -> Stores {
        let most = if length >= STREAMED_NEAR_LEAST { FAST_MOST } else { NEAR_MOST };
        self.stores(length >= STREAMED_FILL_LEAST && self.cost() > most)
    }

    /// Returns the stores of a message that would rather go round the caches, or not. One that is
    /// timed never does.
    const fn stores(&self, is_streamed: bool) -> Stores {
        if is_streamed && self.filled == 0 { Stores::NonTemporal } else { Stores::Cached }
    }

    /// Counts `length` bytes that have filled a cell or lent parcels.
    pub(super) const fn count(&mut self, length: usize) {
        if self.filled > 0 {
            // No part has more bytes than 32 bits count.
            self.filled = self.filled.saturating_add(length as u32);
        }
    }

    /// Takes the nanoseconds that the message took for which [`FillStores::is_due`] returned true.
    /// They do not count if it took other paths.
    pub(super) fn timed(&mut self, nanoseconds: u64) {
        let filled = core::mem::take(&mut self.filled).saturating_sub(1);
        if filled == 0 {
            self.untimed = NEAR_SPACING;
            return;
        }
        let cost = nanoseconds.saturating_mul(1024) / u64::from(filled);
        self.costs.rotate_right(1);
        self.costs[0] = u16::try_from(cost.max(1)).unwrap_or(u16::MAX);
        self.untimed = match (self.costs.contains(&0), self.cost() > FAST_MOST) {
            (true, _) => 0,
            (false, false) => NEAR_SPACING,
            (false, true) => FAR_SPACING,
        };
    }

    /// Returns the median of the last costs.
    fn cost(&self) -> u16 {
        let mut costs = self.costs;
        costs.sort_unstable();
        costs[TIMED / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 4096;

    /// Times of 4 KiB by cached stores, in nanoseconds.
    const NEAR: u64 = 250;
    const SLOW: u64 = 460;
    const FAR: u64 = 1600;

    /// Sends `messages` messages that each take `nanoseconds` when they are timed. Returns how many
    /// were timed.
    fn send(stores: &mut FillStores, messages: usize, nanoseconds: u64) -> usize {
        let message = |_: &usize| {
            let due = stores.is_due();
            assert!(!due || stores.of_cell(LENGTH) == Stores::Cached);
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
        let mut stores = FillStores::default();
        for (nanoseconds, streamed) in [(FAR, false), (NEAR, false), (FAR, true)] {
            assert_eq!(send(&mut stores, 1, nanoseconds), 1);
            assert_eq!(stores.of_cell(LENGTH) == Stores::NonTemporal, streamed);
        }
        assert_eq!(stores.of_cell(STREAMED_FILL_LEAST - 1), Stores::Cached);
    }

    #[test]
    fn lent_parcels_go_round_the_caches_where_those_are_slow() {
        const SHORT: usize = STREAMED_NEAR_LEAST - 1;
        let mut stores = FillStores::default();
        let both = |stores: &FillStores| {
            [SHORT, SHORT + 1].map(|length| stores.of_lent_parcels(length) == Stores::NonTemporal)
        };
        for (nanoseconds, short, long) in
            [(NEAR, false, false), (SLOW, false, true), (FAR, true, true)]
        {
            send(&mut stores, 4 * usize::from(FAR_SPACING + 1), nanoseconds);
            assert_eq!(both(&stores), [short, long], "{nanoseconds}");
        }
        assert_eq!(stores.of_lent_parcels(STREAMED_FILL_LEAST - 1), Stores::Cached);
    }

    #[test]
    fn a_message_is_timed_now_and_then_and_less_often_where_that_costs_more() {
        let [mut near, mut far] = [FillStores::default(); 2];
        assert_eq!(send(&mut near, TIMED + 2 * usize::from(NEAR_SPACING + 1), NEAR), TIMED + 2);
        assert_eq!(send(&mut far, TIMED + 2 * usize::from(FAR_SPACING + 1), FAR), TIMED + 2);
        send(&mut far, 4 * usize::from(FAR_SPACING + 1), NEAR);
        assert_eq!(far.of_cell(LENGTH), Stores::Cached, "the cores have moved");
    }

    #[test]
    fn a_message_that_took_no_cell_says_nothing() {
        let mut stores = FillStores::default();
        for _ in 0..5 {
            assert!(stores.is_due());
            stores.timed(FAR);
            for _ in 0..NEAR_SPACING {
                assert!(!stores.is_due(), "the next ones may take no cell either");
            }
        }
        assert_eq!(stores.of_cell(LENGTH), Stores::Cached);
        stores.timed(FAR);
        assert_eq!(stores.of_cell(LENGTH), Stores::Cached, "nobody asked");
    }
}
