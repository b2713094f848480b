//! The short ways in from ranks of the node: which fastboxes are polled, and a cell that could not
//! be delivered.

use super::rank_list::RankList;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::CellIndex;

/// The ways in that this rank polls.
#[derive(Debug)]
pub(super) struct Inbox<M: Memory> {
    /// Peers with an open fastbox to this rank.
    fastboxes: RankList<M>,
    /// Counts looks at all sources. After the last number, which is 0, another source is the first.
    looks: u8,
    /// A cell that was taken from the queue and is not delivered. It stays after an error.
    cell: Option<CellIndex>,
}

impl<M: Memory> Inbox<M> {
    pub(super) fn new(memory: M) -> Self {
        Self { fastboxes: RankList::new(memory), looks: 0, cell: None }
    }

    /// Makes room for `peers` peers.
    pub(super) fn make_room(&mut self, peers: usize) -> Result<(), OutOfMemory> {
        self.fastboxes.make_room(peers)
    }

    /// Adds the fastbox from `source`.
    pub(super) fn open(&mut self, source: u32) {
        self.fastboxes.insert(source);
    }

    /// Removes the fastbox from `source`, which is gone.
    pub(super) fn close(&mut self, source: u32) {
        self.fastboxes.remove(source);
    }

    /// Counts a look at all sources, and returns whether a call of [`Inbox::take_turns`] is due.
    #[inline(always)]
    pub(super) fn ends_turn(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks == 0
    }

    /// Begins a look at all sources. Each is the first now and then. Otherwise one that always has
    /// a message would keep this rank from the others.
    #[inline(always)]
    pub(super) fn take_turns(&mut self) {
        if self.looks == 0 {
            self.rotate();
        }
        self.looks = self.looks.wrapping_add(1);
    }

    #[cold]
    #[inline(never)]
    fn rotate(&mut self) {
        self.fastboxes.rotate();
    }

    /// Returns the number of open fastboxes.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.fastboxes.len()
    }

    /// Returns the source of the open fastbox at `place`.
    #[inline(always)]
    pub(super) fn source_at(&self, place: usize) -> u32 {
        self.fastboxes.get(place)
    }

    /// Returns the cell that was taken before and is not delivered yet.
    #[inline]
    pub(super) const fn cell(&self) -> Option<CellIndex> {
        self.cell
    }

    /// Keeps a cell that was taken from the queue, until it is delivered.
    #[inline]
    pub(super) const fn keep_cell(&mut self, cell: CellIndex) {
        self.cell = Some(cell);
    }

    /// Notes that the cell is delivered.
    #[inline]
    pub(super) const fn cell_delivered(&mut self) {
        self.cell = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::with_segment;
    use crate::memory::counted::Counted;
    use crate::shm::CellArena as _;

    #[test]
    fn a_fastbox_is_polled_from_its_opening_to_the_end_of_its_source() {
        let mut inbox = Inbox::new(Counted::default());
        inbox.make_room(3).unwrap();
        [2, 0, 2].into_iter().for_each(|source| inbox.open(source));
        assert_eq!((inbox.len(), inbox.source_at(0), inbox.source_at(1)), (2, 2, 0));
        inbox.close(2);
        assert_eq!((inbox.len(), inbox.source_at(0)), (1, 0));
    }

    #[test]
    fn a_cell_is_kept_until_it_is_delivered() {
        with_segment(1, |segment| {
            let mut inbox = Inbox::new(Counted::default());
            let cell = segment.parse(1).unwrap();
            assert_eq!(inbox.cell(), None);
            inbox.keep_cell(cell.unwrap());
            assert_eq!(inbox.cell(), cell);
            inbox.cell_delivered();
            assert_eq!(inbox.cell(), None);
        });
    }
}
