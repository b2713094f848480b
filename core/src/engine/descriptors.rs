//! The descriptors of this rank.

use crate::layout::DESCRIPTORS_PER_RANK;
use crate::memory::{Memory, OutOfMemory, Table};

/// The descriptors of this rank: which are free, and how often each was used.
#[derive(Debug)]
pub(super) struct Descriptors<M: Memory> {
    generations: Table<u32, M>,
    free: Table<u32, M>,
    free_count: usize,
}

impl<M: Memory + Clone> Descriptors<M> {
    pub(super) fn new(memory: M) -> Result<Self, OutOfMemory> {
        let count = DESCRIPTORS_PER_RANK as usize;
        Ok(Self {
            generations: Table::new(memory.clone(), count, |_| 0)?,
            // The lowest is on top: a rank that sends little touches little memory.
            free: Table::new(memory, count, |place| (count - 1 - place) as u32)?,
            free_count: count,
        })
    }

    pub(super) fn take(&mut self) -> Option<(u32, u32)> {
        self.free_count = self.free_count.checked_sub(1)?;
        let place = self.free[self.free_count];
        let generation = &mut self.generations[place as usize];
        // Zeroed memory is generation 0, so no use has that number.
        *generation = generation.wrapping_add(1).max(1);
        Some((place, *generation))
    }

    pub(super) const fn free(&self) -> usize {
        self.free_count
    }

    pub(super) fn in_use(&self) -> usize {
        self.free.len() - self.free_count
    }

    pub(super) fn put_back(&mut self, place: u32) {
        self.free[self.free_count] = place;
        self.free_count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn each_use_of_a_descriptor_has_a_generation_of_its_own() {
        let mut descriptors = Descriptors::new(Counted::default()).unwrap();
        let first = descriptors.take().unwrap();
        assert_eq!(first, (0, 1));
        descriptors.put_back(first.0);
        assert_eq!(descriptors.take(), Some((0, 2)));
        assert_eq!(descriptors.in_use(), 1);
    }

    #[test]
    fn there_are_as_many_as_the_segment_has_for_a_rank() {
        let mut descriptors = Descriptors::new(Counted::default()).unwrap();
        let mut places = std::vec::Vec::new();
        while let Some((place, _)) = descriptors.take() {
            places.push(place);
        }
        places.sort_unstable();
        assert!(places.into_iter().eq(0..DESCRIPTORS_PER_RANK));
        assert_eq!(descriptors.free(), 0);
    }

    #[test]
    fn no_use_has_generation_zero() {
        let mut descriptors = Descriptors::new(Counted::default()).unwrap();
        descriptors.generations[0] = u32::MAX;
        assert_eq!(descriptors.take(), Some((0, 1)));
    }
}
