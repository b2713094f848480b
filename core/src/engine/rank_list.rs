//! A list of ranks.

use crate::memory::{Memory, OutOfMemory, Table};

/// A list of ranks, each at most once. While none is removed, they keep their order.
#[derive(Debug)]
pub(super) struct RankList<M: Memory> {
    ranks: Table<u32, M>,
    length: usize,
}

impl<M: Memory> RankList<M> {
    pub(super) fn new(memory: M, ranks: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { ranks: Table::new(memory, ranks, |_| 0)?, length: 0 })
    }

    /// Makes room for `ranks` different ranks.
    pub(super) fn extend(&mut self, ranks: usize) -> Result<(), OutOfMemory> {
        self.ranks.extend(ranks, |_| 0)
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
        let mut list = RankList::new(Counted::default(), 2).unwrap();
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
    fn an_extended_list_keeps_its_ranks() {
        let mut list = RankList::new(Counted::default(), 1).unwrap();
        list.insert(0);
        list.extend(3).unwrap();
        list.insert(2);
        list.insert(1);
        assert_eq!([list.get(0), list.get(1), list.get(2)], [0, 2, 1]);
    }
}
