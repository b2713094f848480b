//! A list of ranks.

use crate::memory::{Memory, OutOfMemory, Table};

/// Number of ranks for which the first memory of a list has room.
const LEAST: usize = 4;

/// A list of ranks, each at most once. While none is removed, they keep their order.
#[derive(Debug)]
pub(super) struct RankList<M: Memory> {
    ranks: Table<u32, M>,
    length: usize,
}

impl<M: Memory> RankList<M> {
    /// Returns a list with room for no rank.
    pub(super) fn new(memory: M) -> Self {
        Self { ranks: Table::empty(memory), length: 0 }
    }

    /// Makes room for `ranks` different ranks. Room that grows doubles, so that the calls for one
    /// rank after the other copy each rank about twice.
    pub(super) fn make_room(&mut self, ranks: usize) -> Result<(), OutOfMemory> {
        if ranks <= self.ranks.len() {
            return Ok(());
        }
        self.ranks.extend(ranks.max(self.ranks.len() * 2).max(LEAST), |_| 0)
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn get(&self, place: usize) -> u32 {
        self.ranks[place]
    }

    pub(super) fn insert(&mut self, rank: u32) {
        if !self.ranks[..self.length].contains(&rank) {
            self.ranks[self.length] = rank;
            self.length += 1;
        }
    }

    pub(super) fn remove(&mut self, rank: u32) {
        if let Some(place) = self.ranks[..self.length].iter().position(|other| *other == rank) {
            self.length -= 1;
            self.ranks[place] = self.ranks[self.length];
        }
    }

    /// Moves the first rank to the end.
    pub(super) fn rotate(&mut self) {
        if !self.is_empty() {
            self.ranks[..self.length].rotate_left(1);
        }
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.length = self.length.checked_sub(1)?;
        Some(self.ranks[self.length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn a_rank_is_in_the_list_once() {
        let mut list = RankList::new(Counted::default());
        list.make_room(2).unwrap();
        list.insert(1);
        list.insert(1);
        list.insert(0);
        assert_eq!(list.len(), 2);
        list.remove(1);
        list.remove(1);
        assert_eq!([list.pop(), list.pop()], [Some(0), None]);
        assert!(list.is_empty());
    }

    #[test]
    fn a_rotated_list_has_all_ranks_in_turn() {
        let mut list = RankList::new(Counted::default());
        list.rotate();
        list.make_room(5).unwrap();
        (0..3).for_each(|rank| list.insert(rank));
        for first in [1, 2, 0] {
            list.rotate();
            assert_eq!((list.get(0), list.len()), (first, 3));
        }
    }

    #[test]
    fn an_extended_list_keeps_its_ranks() {
        let memory = Counted::default();
        let mut list = RankList::new(memory.clone());
        for rank in (0..64).rev() {
            list.make_room(list.len() + 1).unwrap();
            list.insert(rank);
        }
        assert_eq!([list.get(0), list.get(1), list.get(63)], [63, 62, 0]);
        assert_eq!(memory.asked(), 5, "the room doubles from 4 to 64");
        memory.refuse(true);
        assert!(list.make_room(65).is_err() && list.make_room(64).is_ok());
    }
}
