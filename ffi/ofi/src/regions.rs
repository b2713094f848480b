//! The memory regions of a domain, and their keys.
//!
//! libfabric's key of a region tells peers on this host the region's place in the table of each
//! endpoint ([`strait::port::RegionKey`]). The lowest bits are the place, the others a serial
//! number.

use std::collections::VecDeque;

use strait::port::{REGIONS_MAX, RegionKey};
use strait_core::hca::Access;

/// Number of bits in a key that hold the place of the region.
const INDEX_BITS: u32 = 20;

const _: () = assert!(REGIONS_MAX <= 1 << INDEX_BITS);

/// Registered memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MrEntry {
    pub(crate) base: usize,
    /// Size in bytes.
    pub(crate) length: usize,
    pub(crate) access: Access,
}

/// All regions of a domain.
#[derive(Debug, Default)]
pub(crate) struct MrTable {
    entries: Vec<Option<(u64, MrEntry)>>,
    /// The free places. The place that has been free longest is used first.
    free: VecDeque<usize>,
    serial: u64,
}

impl MrEntry {
    /// Returns whether the region contains all of the `length` bytes at `address`.
    pub(crate) fn holds(&self, address: u64, length: usize) -> bool {
        let before = address.checked_sub(self.base as u64);
        let needed = before.and_then(|before| before.checked_add(length as u64));
        needed.is_some_and(|needed| needed <= self.length as u64)
    }
}

impl MrTable {
    /// Adds a region. Returns its key, which no other region has or had, or `None` when the table
    /// is full.
    pub(crate) fn add(&mut self, registered: MrEntry) -> Option<u64> {
        let next = (self.entries.len() < REGIONS_MAX).then_some(self.entries.len());
        let index = self.free.pop_front().or(next)?;
        self.serial += 1;
        // Zero is not a valid tag.
        if self.serial as u32 == 0 {
            self.serial += 1;
        }
        if index == self.entries.len() {
            self.entries.push(None);
        }
        let key = self.serial << INDEX_BITS | index as u64;
        self.entries[index] = Some((key, registered));
        Some(key)
    }

    pub(crate) fn remove(&mut self, key: u64) {
        let index = place(key).index as usize;
        if self.get(key).is_some() {
            self.entries[index] = None;
            self.free.push_back(index);
        }
    }

    pub(crate) fn get(&self, key: u64) -> Option<MrEntry> {
        let (found, registered) = (*self.entries.get(place(key).index as usize)?)?;
        (found == key).then_some(registered)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &MrEntry)> {
        self.entries.iter().flatten().map(|(key, registered)| (*key, registered))
    }
}

/// Returns the place where peers on this host find the region of a key.
pub(crate) const fn place(key: u64) -> RegionKey {
    let index = (key & ((1 << INDEX_BITS) - 1)) as u32;
    RegionKey { index, tag: (key >> INDEX_BITS) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: MrEntry = MrEntry { base: 100, length: 10, access: Access::LOCAL };

    #[test]
    fn an_access_is_in_its_region_or_refused() {
        let held = [(100, 10), (105, 5), (110, 0), (99, 2), (105, 6), (u64::MAX, 2)]
            .map(|(address, length)| SOME.holds(address, length));
        assert_eq!(held, [true, true, true, false, false, false]);
    }

    #[test]
    fn a_place_is_used_again_under_another_key() {
        let mut regions = MrTable::default();
        let first = regions.add(SOME).unwrap();
        let other = regions.add(SOME).unwrap();
        regions.remove(first);
        let again = regions.add(SOME).unwrap();
        assert_eq!(place(again).index, place(first).index);
        assert_ne!(place(again).tag, place(first).tag);
        assert_eq!(
            [first, other, again].map(|key| regions.get(key)),
            [None, Some(SOME), Some(SOME)]
        );
        regions.remove(first);
        assert_eq!(regions.iter().count(), 2);
        assert_eq!(regions.get(u64::MAX), None);
    }
}
