//! Blocks: the piece of a vector that belongs to each member.

use core::ops::Range;

use crate::CollectiveError;

/// The place of each member's block in a vector of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blocks<'a> {
    /// Each block has this many bytes. They lie one after the other, in the order of the places.
    Equal(usize),
    /// The range of each block, in units of `unit` bytes.
    Ranges {
        /// The range of the block of each place.
        ranges: &'a [Range<usize>],
        /// Bytes of one element.
        unit: usize,
    },
}

impl<'a> Blocks<'a> {
    /// Returns the equal blocks of a vector of `bytes` bytes with elements of `unit` bytes.
    pub(super) const fn equal(
        bytes: usize,
        unit: usize,
        members: u32,
    ) -> Result<Self, CollectiveError> {
        let block = bytes / members as usize;
        let divides = bytes.is_multiple_of(members as usize) && block.is_multiple_of(unit);
        if divides {
            Ok(Self::Equal(block))
        } else {
            Err(CollectiveError::Uneven { bytes, members })
        }
    }

    /// Returns the blocks that `ranges` gives, after it has checked them against a vector of
    /// `bytes` bytes.
    pub(super) fn ranges(
        ranges: &'a [Range<usize>],
        unit: usize,
        bytes: usize,
        members: u32,
    ) -> Result<Self, CollectiveError> {
        if ranges.len() != members as usize {
            return Err(CollectiveError::Blocks { found: ranges.len(), members });
        }
        let fits = |range: &Range<usize>| {
            range.start <= range.end && range.end.checked_mul(unit).is_some_and(|end| end <= bytes)
        };
        match ranges.iter().position(|range| !fits(range)) {
            None => Ok(Self::Ranges { ranges, unit }),
            Some(place) => Err(CollectiveError::Block {
                place: place as u32,
                start: ranges[place].start,
                end: ranges[place].end,
                room: bytes / unit.max(1),
            }),
        }
    }

    /// Returns the range of the block of `place`, in bytes.
    pub(super) fn range(&self, place: u32) -> Range<usize> {
        let place = place as usize;
        match self {
            Self::Equal(bytes) => place * bytes..(place + 1) * bytes,
            Self::Ranges { ranges, unit } => {
                let Range { start, end } = &ranges[place];
                start * unit..end * unit
            }
        }
    }

    /// Returns the number of bytes in the block of `place`.
    pub(super) fn length(&self, place: u32) -> usize {
        self.range(place).len()
    }

    /// Returns the number of bytes in the blocks of all members.
    pub(super) fn total(&self, members: u32) -> usize {
        (0..members).map(|place| self.length(place)).sum()
    }
}

/// Copies the block that a member keeps for itself. `None`: it is in place already.
pub(super) fn keep(own: Option<&[u8]>, block: &mut [u8]) {
    if let Some(own) = own {
        block.copy_from_slice(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_outside_the_vector_are_refused() {
        let far = Blocks::ranges(&[0..1, 1..3], 4, 8, 2).unwrap_err();
        assert_eq!(far, CollectiveError::Block { place: 1, start: 1, end: 3, room: 2 });
        let backwards = Range { start: 2, end: 1 };
        assert!(Blocks::ranges(&[0..1, backwards], 4, 8, 2).is_err());
        let huge = Blocks::ranges(&[0..1, 0..usize::MAX], 4, 8, 2);
        assert!(huge.is_err(), "the end overflows");
        let short = Blocks::ranges(&[0..1, 0..1], 4, 8, 3).unwrap_err();
        assert_eq!(short, CollectiveError::Blocks { found: 2, members: 3 });
    }

    #[test]
    fn equal_blocks_have_whole_elements() {
        assert!(Blocks::equal(24, 4, 3).is_ok());
        let uneven = Blocks::equal(20, 4, 3).unwrap_err();
        assert_eq!(uneven, CollectiveError::Uneven { bytes: 20, members: 3 });
        assert!(Blocks::equal(6, 4, 3).is_err(), "half an element each");
    }
}
