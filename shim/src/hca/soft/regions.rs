//! The regions that one device has registered, and their keys.

use std::collections::VecDeque;

use strait_core::hca::fabric::RegionEntry;
use strait_core::hca::{Access, HcaError, Piece, Region};

use super::block::REGIONS;

/// Bits of a key that say which entry it opens. The others are its tag.
const INDEX_BITS: u32 = REGIONS.trailing_zeros();

/// Bits of a key's tag.
const TAG_BITS: u32 = 32 - INDEX_BITS;

/// Which entry a remote key opens, if any.
pub(super) const fn index(key: u32) -> usize {
    (key & (REGIONS - 1)) as usize
}

/// The local key of a region. Not its remote key, so that to mistake one for the other is found out.
const fn local(remote_key: u32) -> u32 {
    !remote_key
}

/// Which entry a local key opens.
pub(super) const fn remote(local_key: u32) -> u32 {
    !local_key
}

/// What this device knows of its own regions. Peers see their entries in the fabric; what is written there is not trusted.
#[derive(Debug)]
pub(super) struct Regions {
    entries: Vec<Option<(Region, Access)>>,
    /// Free entries. The one that is longest free goes first.
    free: VecDeque<u32>,
    /// Keys given. Each entry has another tag each time, for as many times as there are tags.
    given: u32,
    salt: u32,
}

impl Regions {
    pub(super) fn new(salt: u32) -> Self {
        let entries = (0..REGIONS).map(|_| None).collect();
        Self { entries, free: (0..REGIONS).collect(), given: 0, salt }
    }

    /// Registers memory, and opens it to peers in `table`.
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

    /// Takes a region away, from peers too.
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

    /// All regions there are.
    pub(super) fn all(&self) -> Vec<Region> {
        self.entries.iter().flatten().map(|(region, _)| *region).collect()
    }

    /// Whether the piece lies in the region of its key, and that region may be written if it shall be.
    pub(super) fn covers(&self, piece: &Piece, write: bool) -> bool {
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

    /// The tag of the next key: not zero, not again before all others were, and not to be guessed from the last one.
    fn draw(&mut self) -> u32 {
        const MASK: u32 = (1 << TAG_BITS) - 1;
        loop {
            let mut tag = self.given.wrapping_add(self.salt) & MASK;
            self.given = self.given.wrapping_add(1);
            // Each step can be undone, so different numbers stay different.
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

/// Whether `length` bytes from `start` lie in the `whole` bytes from `base`.
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
        let mut regions = Regions::new(77);
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
