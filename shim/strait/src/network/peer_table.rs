//! A table of the peers with which a rank has contact.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use strait_platform::Rank;

/// Values by peer. Its memory grows with the peers in it, and not with the ranks of the job.
#[derive(Debug)]
pub(super) struct PeerTable<T>(HashMap<Rank, T, BuildHasherDefault<RankHasher>>);

impl<T> Default for PeerTable<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T> PeerTable<T> {
    /// Returns the value of `peer`, if it has one.
    #[inline]
    pub(super) fn get(&self, peer: Rank) -> Option<&T> {
        self.0.get(&peer)
    }

    /// Returns the value of `peer`, if it has one.
    #[inline]
    pub(super) fn get_mut(&mut self, peer: Rank) -> Option<&mut T> {
        self.0.get_mut(&peer)
    }

    /// Sets the value of `peer`.
    pub(super) fn set(&mut self, peer: Rank, value: T) {
        self.0.insert(peer, value);
    }

    /// Takes the value of `peer` out of the table.
    pub(super) fn take(&mut self, peer: Rank) -> Option<T> {
        self.0.remove(&peer)
    }

    /// Returns the number of peers in the table.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the peers in the table with their values, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Rank, &T)> {
        self.0.iter().map(|(peer, value)| (*peer, value))
    }

    /// Returns the values, in no order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut()
    }

    /// Returns the number of peers for which there is memory.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.0.capacity()
    }
}

/// A hash of ranks by one multiplication. No peer chooses its rank, so that peers cannot make the
/// table slow on purpose.
#[derive(Debug, Default)]
pub(super) struct RankHasher(u64);

impl Hasher for RankHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((self.0 as u32) << 8 | u32::from(*byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, rank: u32) {
        // The high half of the product depends on all bits of the rank, and the table uses both
        // halves. Otherwise the leaders of nodes of 64 ranks would share few places.
        let product = u64::from(rank).wrapping_mul(GOLDEN);
        self.0 = product ^ product >> 32;
    }
}

/// 2⁶⁴ divided by the golden ratio, the usual factor of multiplicative hashes.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn memory_grows_with_the_peers_in_the_table() {
        let mut table = PeerTable::default();
        for peer in [9_999, 0, 64, 4_096] {
            table.set(peer, peer + 1);
        }
        assert!(table.room() < 32, "{}", table.room());
        assert_eq!((table.get(64), table.get(65), table.len()), (Some(&65), None, 4));
        assert_eq!((table.take(64), table.take(64)), (Some(65), None));
        table.values_mut().for_each(|value| *value += 1);
        assert_eq!(table.iter().map(|(_, value)| *value).sum::<u32>(), 10_001 + 2 + 4_098);
    }

    #[test]
    fn ranks_in_steps_are_spread_over_the_table() {
        for step in [1, 2, 16, 64, 100, 1024, 1 << 16] {
            let hash = |place: u32| {
                let mut hasher = RankHasher::default();
                hasher.write_u32(place * step);
                hasher.finish()
            };
            let low: HashSet<_> = (0..256).map(|place| hash(place) % 256).collect();
            let high: HashSet<_> = (0..256).map(|place| hash(place) >> 57).collect();
            assert!(low.len() > 100 && high.len() > 60, "{step}: {} {}", low.len(), high.len());
        }
    }
}
