//! The memory regions of a domain, and their keys.
//!
//! libfabric's key of a region says where peers on this host find it in the table of each endpoint ([`strait::port::RegionKey`]):
//! the place in the lowest bits, a serial number in the others.

use std::collections::VecDeque;

use strait::port::{REGIONS_MAX, RegionKey};
use strait_core::hca::Access;

/// Bits of a key that say which place the region has.
const INDEX_BITS: u32 = 20;

const _: () = assert!(REGIONS_MAX <= 1 << INDEX_BITS);

/// Registered memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Registered {
    pub(crate) base: usize,
    /// Bytes.
    pub(crate) length: usize,
    pub(crate) access: Access,
}

/// All regions of a domain.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    entries: Vec<Option<(u64, Registered)>>,
    /// Places that are free. The one that is longest free goes first.
    free: VecDeque<usize>,
    serial: u64,
}

impl Registered {
    /// Whether all of `length` bytes at `address` are in it.
    pub(crate) fn holds(&self, address: u64, length: usize) -> bool {
        let before = address.checked_sub(self.base as u64);
        let needed = before.and_then(|before| before.checked_add(length as u64));
        needed.is_some_and(|needed| needed <= self.length as u64)
    }
}

impl Regions {
    /// Adds a region. Returns its key, which no other has or had; `None` when there are as many as there can be.
    pub(crate) fn add(&mut self, registered: Registered) -> Option<u64> {
        let next = (self.entries.len() < REGIONS_MAX).then_some(self.entries.len());
        let index = self.free.pop_front().or(next)?;
        self.serial += 1;
        // The tag is not zero.
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

    pub(crate) fn get(&self, key: u64) -> Option<Registered> {
        let (found, registered) = (*self.entries.get(place(key).index as usize)?)?;
        (found == key).then_some(registered)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Registered)> {
        self.entries.iter().flatten().map(|(key, registered)| (*key, registered))
    }
}

/// Where peers on this host find the region of a key.
pub(crate) const fn place(key: u64) -> RegionKey {
    let index = (key & ((1 << INDEX_BITS) - 1)) as u32;
    RegionKey { index, tag: (key >> INDEX_BITS) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Registered = Registered { base: 100, length: 10, access: Access::LOCAL };

    #[test]
    fn an_access_is_in_its_region_or_refused() {
        let held = [(100, 10), (105, 5), (110, 0), (99, 2), (105, 6), (u64::MAX, 2)]
            .map(|(address, length)| SOME.holds(address, length));
        assert_eq!(held, [true, true, true, false, false, false]);
    }

    #[test]
    fn a_place_is_used_again_under_another_key() {
        let mut regions = Regions::default();
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
