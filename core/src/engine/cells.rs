//! The cells that a rank owns: which are free, and which destination has each other one.

use crate::layout::Segment;
use crate::memory::{Memory, OutOfMemory, Table};
use crate::shm::recovery::{self, Producers};
use crate::shm::{CellArena, FreeQueue};
use crate::wire::{CellIndex, Corrupt};

/// The whereabouts of a cell that its owner has.
const HOME: u32 = u32::MAX;

/// The owner's private record of its cells.
#[derive(Debug)]
pub(super) struct CellPool<M: Memory> {
    rank: u32,
    first: u32,
    /// The destination of each cell, or [`HOME`].
    whereabouts: Table<u32, M>,
    /// Cells known to be free, the last used first.
    free: Table<u32, M>,
    free_count: usize,
    /// The rest of a chain that was taken from the free queue and not walked yet.
    returned: Option<CellIndex>,
}

impl<M: Memory + Clone> CellPool<M> {
    pub(super) fn new(memory: M, segment: &Segment, rank: u32) -> Result<Self, OutOfMemory> {
        let count = segment.plan().config().cells_per_rank;
        let first = rank * count + 1;
        Ok(Self {
            rank,
            first,
            whereabouts: Table::new(memory.clone(), count as usize, |_| HOME)?,
            // The lowest cell is on top: a rank that sends little touches little memory.
            free: Table::new(memory, count as usize, |number| first + count - 1 - number as u32)?,
            free_count: count as usize,
            returned: None,
        })
    }

    /// Takes a free cell and records it as on its way to `destination`. Returns `None` if no cell
    /// is free.
    #[inline]
    pub(super) fn take(
        &mut self,
        segment: &Segment,
        destination: u32,
    ) -> Result<Option<CellIndex>, Corrupt> {
        let cell = if self.free_count > 0 {
            self.free_count -= 1;
            segment.parse(self.free[self.free_count])?
        } else {
            if self.returned.is_none() {
                self.returned = segment.rank_block(self.rank).free_queue.take(segment)?;
            }
            self.pop_returned(segment)?
        };
        if let Some(cell) = cell {
            self.whereabouts[(cell.raw() - self.first) as usize] = destination;
        }
        Ok(cell)
    }

    /// Returns a cell that was taken and not sent.
    pub(super) fn put_back(&mut self, cell: CellIndex) {
        self.book_home(cell);
    }

    /// Records all cells that came back. [`CellPool::out_with`] and [`CellPool::reclaim`] need the
    /// complete record.
    pub(super) fn collect(&mut self, segment: &Segment) -> Result<(), Corrupt> {
        loop {
            while let Some(cell) = self.pop_returned(segment)? {
                self.book_home(cell);
            }
            self.returned = segment.rank_block(self.rank).free_queue.take(segment)?;
            if self.returned.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns whether any cell came back since the last call or since the last send that lacked a
    /// cell.
    pub(super) fn came_back(&mut self, segment: &Segment) -> Result<bool, Corrupt> {
        let came = segment.rank_block(self.rank).free_queue.has_cells();
        if came {
            self.collect(segment)?;
        }
        Ok(came)
    }

    /// Returns the number of cells that are with `destination`, by the record.
    pub(super) fn out_with(&self, destination: u32) -> usize {
        self.whereabouts.iter().filter(|with| **with == destination).count()
    }

    /// Returns the number of cells that are with any rank, by the record.
    pub(super) fn out(&self) -> usize {
        self.whereabouts.iter().filter(|with| **with != HOME).count()
    }

    /// Takes back the cells that are with a dead rank; `producers` describe its senders. Returns
    /// false if a living rank may still write the link of one of these cells.
    ///
    /// Call again after false. A cell that stays out is lost, and a rank that has lost all of its
    /// cells can send nothing any more.
    pub(super) fn reclaim(
        &mut self,
        segment: &Segment,
        dead: u32,
        producers: &impl Producers,
    ) -> Result<bool, Corrupt> {
        self.collect(segment)?;
        let queue = &segment.rank_block(dead).recv_queue;
        let mut all = true;
        for number in 0..self.whereabouts.len() {
            if self.whereabouts[number] != dead {
                continue;
            }
            let Some(cell) = segment.parse(self.first + number as u32)? else { continue };
            if recovery::regain(queue, segment, producers, cell)? {
                self.book_home(cell);
            } else {
                all = false;
            }
        }
        Ok(all)
    }

    fn book_home(&mut self, cell: CellIndex) {
        self.whereabouts[(cell.raw() - self.first) as usize] = HOME;
        self.free[self.free_count] = cell.raw();
        self.free_count += 1;
    }

    /// Takes the next cell of the returned chain. Checks that it is one of this rank's and was out.
    fn pop_returned(&mut self, segment: &Segment) -> Result<Option<CellIndex>, Corrupt> {
        let Some(cell) = self.returned else { return Ok(None) };
        let ours = cell
            .raw()
            .checked_sub(self.first)
            .and_then(|number| self.whereabouts.get(number as usize))
            .is_some_and(|with| *with != HOME);
        if !ours {
            self.returned = None;
            return Err(Corrupt::CellIndex {
                found: cell.raw(),
                cells: segment.plan().config().cells_per_rank,
            });
        }
        self.returned = FreeQueue::next(segment, cell)?;
        Ok(Some(cell))
    }
}
