//! The regions that one device has registered, and their keys.

use std::collections::{HashMap, VecDeque};

use strait_core::hca::fabric::RegionEntry;
use strait_core::hca::{Access, HcaError, Region, Sge};

use super::block::REGIONS;

/// Bits of a key that select its entry. The other bits are its tag.
const INDEX_BITS: u32 = REGIONS.trailing_zeros();

/// Bits of a key's tag.
const TAG_BITS: u32 = 32 - INDEX_BITS;

/// Returns the index of the entry that a remote key of this device's own selects.
const fn index(key: u32) -> usize {
    (key & (REGIONS - 1)) as usize
}

/// Returns the indices at which the entry of a key that another device gave may be, in the order of
/// a search. The keys of a device may differ in any bits, so all of them select the first index.
fn places(key: u32) -> impl Iterator<Item = usize> {
    const GOLDEN: u32 = 0x9e37_79b9;
    let first = key.wrapping_mul(GOLDEN) >> (32 - INDEX_BITS);
    (0..REGIONS).map(move |step| index(first + step))
}

/// Returns the region with this remote key in the table of a device. The caller holds a claim.
pub(super) fn find(table: &[RegionEntry], key: u32) -> Option<(Access, u64, u64)> {
    let own = table[index(key)].get(key);
    own.or_else(|| places(key).find_map(|place| table[place].get(key)))
}

/// Returns the local key of a region. It differs from the remote key, so that a mix-up of the two
/// is detected.
const fn local(remote_key: u32) -> u32 {
    !remote_key
}

/// Returns the remote key of a local key.
pub(super) const fn remote(local_key: u32) -> u32 {
    !local_key
}

/// The device's private record of its regions. Peers see their entries in the fabric, and what is
/// written there is not trusted.
#[derive(Debug)]
pub(super) struct SoftRegions {
    entries: Vec<Option<(Region, Access)>>,
    /// Free entries. The entry that is free for the longest time is used first.
    free: VecDeque<u32>,
    /// The entries of regions with keys that another device gave, by local key.
    named: HashMap<u32, usize>,
    /// Number of keys given. Each entry gets another tag each time, for as many times as there are
    /// tags.
    given: u32,
    salt: u32,
}

impl SoftRegions {
    pub(super) fn new(salt: u32) -> Self {
        let entries = (0..REGIONS).map(|_| None).collect();
        Self { entries, free: (0..REGIONS).collect(), named: HashMap::new(), given: 0, salt }
    }

    /// Registers memory, and publishes it to peers in `table`.
    pub(super) fn add(
        &mut self,
        base: u64,
        length: u64,
        access: Access,
        table: &[RegionEntry],
    ) -> Result<Region, HcaError> {
        let index = self.free.pop_front().ok_or(HcaError::Memory { bytes: length })?;
        let remote_key = self.draw() << INDEX_BITS | index;
        let region = Region { base, length, local_key: local(remote_key), remote_key };
        self.entries[index as usize] = Some((region, access));
        table[index as usize].publish(remote_key, access, base, length);
        Ok(region)
    }

    /// Registers memory under the keys that another device gave for it, and publishes it to peers
    /// in `table`. Peers do not reach a region with the remote key zero.
    pub(super) fn add_named(
        &mut self,
        region: Region,
        access: Access,
        table: &[RegionEntry],
    ) -> Result<(), HcaError> {
        let Region { base, length, local_key, remote_key } = region;
        let is_taken = self.entry(local_key).is_some()
            || self
                .entries
                .iter()
                .flatten()
                .any(|(known, _)| known.remote_key == remote_key && remote_key != 0);
        if is_taken {
            return Err(HcaError::Device { code: libc::EEXIST });
        }
        let place = places(remote_key).find(|place| self.entries[*place].is_none());
        let place = place.ok_or(HcaError::Memory { bytes: length })?;
        self.free.retain(|free| *free as usize != place);
        self.entries[place] = Some((region, access));
        self.named.insert(local_key, place);
        if remote_key != 0 {
            table[place].publish(remote_key, access, base, length);
        }
        Ok(())
    }

    /// Returns the index of the entry of a local key.
    fn entry(&self, local_key: u32) -> Option<usize> {
        let has_key = |place: &usize| {
            self.entries[*place].is_some_and(|(region, _)| region.local_key == local_key)
        };
        let own = Some(index(remote(local_key))).filter(has_key);
        own.or_else(|| self.named.get(&local_key).copied())
    }

    /// Removes a region, and revokes it for peers.
    pub(super) fn remove(&mut self, region: Region, table: &[RegionEntry]) -> Result<(), HcaError> {
        let unknown = HcaError::UnknownRegion { key: region.local_key };
        let at = self.entry(region.local_key).ok_or(unknown)?;
        match self.entries[at] {
            Some((known, _)) if known == region => {
                table[at].revoke();
                self.entries[at] = None;
                self.named.remove(&region.local_key);
                self.free.push_back(at as u32);
                Ok(())
            }
            _ => Err(unknown),
        }
    }

    /// Returns all registered regions.
    pub(super) fn all(&self) -> Vec<Region> {
        self.entries.iter().flatten().map(|(region, _)| *region).collect()
    }

    /// Returns whether the piece lies in the region of its key, and whether that region permits
    /// local writes if `write` is set.
    pub(super) fn covers(&self, piece: &Sge, write: bool) -> bool {
        let entry = self.entry(piece.key).and_then(|place| self.entries[place].as_ref());
        entry.is_some_and(|(region, access)| {
            (access.local_write || !write)
                && lies_in(
                    piece.base.as_ptr().addr() as u64,
                    piece.length.into(),
                    region.base,
                    region.length,
                )
        })
    }

    /// Returns the tag of the next key. It is not zero, does not repeat before all others were
    /// used, and cannot be guessed from the last one.
    fn draw(&mut self) -> u32 {
        const MASK: u32 = (1 << TAG_BITS) - 1;
        loop {
            let mut tag = self.given.wrapping_add(self.salt) & MASK;
            self.given = self.given.wrapping_add(1);
            // Each step is invertible, so different numbers stay different.
            for odd in [0x2c_1b3d | 1, 0x29_7a2d] {
                tag = tag.wrapping_mul(odd) & MASK;
                tag ^= tag >> (TAG_BITS / 2);
            }
            if tag != 0 {
                return tag;
            }
        }
    }
}

/// Returns whether `length` bytes from `start` lie in the `whole` bytes from `base`.
pub(super) fn lies_in(start: u64, length: u64, base: u64, whole: u64) -> bool {
    start
        .checked_sub(base)
        .is_some_and(|offset| offset.checked_add(length).is_some_and(|end| end <= whole))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_key_comes_twice_before_all_have_come() {
        let mut regions = SoftRegions::new(77);
        let mut seen = HashSet::new();
        for _ in 0..(1 << TAG_BITS) - 1 {
            assert!(seen.insert(regions.draw()));
        }
        assert!(!seen.contains(&0));
    }

    #[test]
    fn regions_with_keys_of_another_device_are_found() {
        let table: Vec<_> = (0..REGIONS).map(|_| RegionEntry::none()).collect();
        let mut regions = SoftRegions::new(7);
        let own = regions.add(64, 8, Access::ALL, &table).unwrap();
        // Keys as cards give them: an index in the upper bits, and the same lower bits.
        let region = |number: u32| Region {
            base: u64::from(number) << 12,
            length: 64,
            local_key: number << 8 | 3,
            remote_key: number << 8 | 5,
        };
        let found = |key| find(&table, key).map(|(_, base, _)| base);
        for number in 1..REGIONS {
            regions.add_named(region(number), Access::ALL, &table).unwrap();
        }
        let full = regions.add_named(region(REGIONS), Access::ALL, &table);
        assert_eq!(full, Err(HcaError::Memory { bytes: 64 }));
        assert!(
            (1..REGIONS)
                .all(|number| found(region(number).remote_key) == Some(region(number).base))
        );
        assert_eq!((found(own.remote_key), found(region(REGIONS).remote_key)), (Some(64), None));
        for number in (1..REGIONS).step_by(2) {
            regions.remove(region(number), &table).unwrap();
            assert_eq!(found(region(number).remote_key), None);
        }
        assert_eq!(found(region(2).remote_key), Some(region(2).base));
        let twice = regions.add_named(region(2), Access::ALL, &table);
        assert_eq!(twice, Err(HcaError::Device { code: libc::EEXIST }));
        let private = Region { remote_key: 0, local_key: 99, ..region(9) };
        regions.add_named(private, Access::LOCAL, &table).unwrap();
        assert_eq!(found(0), None);
        assert_eq!(
            regions.remove(region(9), &table),
            Err(HcaError::UnknownRegion { key: region(9).local_key })
        );
        regions.remove(private, &table).unwrap();
    }

    #[test]
    fn a_range_lies_in_another_or_not() {
        assert!(lies_in(10, 0, 10, 0));
        assert!(lies_in(10, 5, 10, 5));
        assert!(!lies_in(9, 5, 10, 5));
        assert!(!lies_in(11, 5, 10, 5));
        assert!(!lies_in(11, u64::MAX, 10, 5));
        assert!(!lies_in(0, 1, 10, 5));
    }
}
