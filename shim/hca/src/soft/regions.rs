//! The regions that one device has registered, and their keys.

use std::collections::VecDeque;

use strait_core::hca::fabric::RegionEntry;
use strait_core::hca::{Access, HcaError, Region, Sge};

use super::block::REGIONS;

/// Bits of a key that select its entry. The other bits are its tag.
const INDEX_BITS: u32 = REGIONS.trailing_zeros();

/// Bits of a key's tag.
const TAG_BITS: u32 = 32 - INDEX_BITS;

/// Returns the index of the entry that a remote key selects.
pub(super) const fn index(key: u32) -> usize {
    (key & (REGIONS - 1)) as usize
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
    /// Number of keys given. Each entry gets another tag each time, for as many times as there are
    /// tags.
    given: u32,
    salt: u32,
}

impl SoftRegions {
    pub(super) fn new(salt: u32) -> Self {
        let entries = (0..REGIONS).map(|_| None).collect();
        Self { entries, free: (0..REGIONS).collect(), given: 0, salt }
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

    /// Removes a region, and revokes it for peers.
    pub(super) fn remove(&mut self, region: Region, table: &[RegionEntry]) -> Result<(), HcaError> {
        let at = index(region.remote_key);
        match self.entries[at] {
            Some((known, _)) if known == region => {
                table[at].revoke();
                self.entries[at] = None;
                self.free.push_back(at as u32);
                Ok(())
            }
            _ => Err(HcaError::UnknownRegion { key: region.local_key }),
        }
    }

    /// Returns all registered regions.
    pub(super) fn all(&self) -> Vec<Region> {
        self.entries.iter().flatten().map(|(region, _)| *region).collect()
    }

    /// Returns whether the piece lies in the region of its key, and whether that region permits
    /// local writes if `write` is set.
    pub(super) fn covers(&self, piece: &Sge, write: bool) -> bool {
        let entry = &self.entries[index(remote(piece.key))];
        entry.as_ref().is_some_and(|(region, access)| {
            region.local_key == piece.key
                && (access.local_write || !write)
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
    fn a_range_lies_in_another_or_not() {
        assert!(lies_in(10, 0, 10, 0));
        assert!(lies_in(10, 5, 10, 5));
        assert!(!lies_in(9, 5, 10, 5));
        assert!(!lies_in(11, 5, 10, 5));
        assert!(!lies_in(11, u64::MAX, 10, 5));
        assert!(!lies_in(0, 1, 10, 5));
    }
}
