//! Cells, and the queues through which they return to their owners.

use strait_core::layout::{CellIndex, Corrupt};
use strait_core::shm::{Cell, CellArena, CellHead, FreeQueue};
use strait_core::sync::AtomicU32;

/// The cells of several owners, and the free queues through which they return.
#[derive(Debug)]
pub struct Pool {
    cells: Vec<Cell>,
    per_owner: u32,
    free: Vec<FreeQueue>,
}

impl CellArena for Pool {
    fn parse(&self, raw: u32) -> Result<Option<CellIndex>, Corrupt> {
        CellIndex::parse(raw, self.cells.len() as u32)
    }

    fn next(&self, index: CellIndex) -> &AtomicU32 {
        &self.cell(index).next
    }
}

impl Pool {
    /// Creates `per_owner` zeroed cells for each of `owners`.
    #[must_use]
    pub fn new(owners: u32, per_owner: u32) -> Self {
        Self {
            cells: (0..owners * per_owner).map(|_| Cell::empty()).collect(),
            per_owner,
            free: (0..owners).map(|_| FreeQueue::empty()).collect(),
        }
    }

    /// Describes a message in `cell`, as its owner does before it enqueues the cell.
    pub fn write(&self, cell: CellIndex, source: u32, sequence: u64) {
        let head = CellHead { source, sequence, ..CellHead::default() };
        // SAFETY: the cell lives as long as the pool. The model checks that only the caller
        // accesses the cell: loom, Miri and the thread sanitizer each report an unordered access.
        unsafe { Cell::write_head(self.cell(cell).into(), head) }
    }

    /// Returns source and sequence number of the message in `cell`.
    #[must_use]
    pub fn read(&self, cell: CellIndex) -> (u32, u64) {
        // SAFETY: the cell lives as long as the pool; the model checks that only the caller
        // accesses it.
        let head = unsafe { Cell::read_head(self.cell(cell).into()) };
        (head.source, head.sequence)
    }

    /// Returns `cell` to its owner, as a receiver does after it has read the message.
    pub fn give_back(&self, cell: CellIndex) {
        self.free[((cell.raw() - 1) / self.per_owner) as usize].push(self, cell);
    }

    fn cell(&self, index: CellIndex) -> &Cell {
        &self.cells[index.raw() as usize - 1]
    }
}

/// An owner's view of its cells: the free ones, and the returned chain that is not walked yet.
#[derive(Debug)]
pub struct Owner {
    rank: u32,
    home: Vec<CellIndex>,
    returned: Option<CellIndex>,
}

impl Owner {
    /// Creates the owner `rank`, which has sent nothing yet.
    #[must_use]
    pub fn new(pool: &Pool, rank: u32) -> Self {
        let first = rank * pool.per_owner + 1;
        let cells = (first..first + pool.per_owner).rev();
        let home = cells.filter_map(|raw| pool.parse(raw).unwrap()).collect();
        Self { rank, home, returned: None }
    }

    /// Returns a free cell, or else a cell that has been returned by now.
    pub fn take(&mut self, pool: &Pool) -> Option<CellIndex> {
        self.home.pop().or_else(|| self.pop_returned(pool))
    }

    /// Collects all returned cells. Returns the number of free cells.
    ///
    /// # Panics
    ///
    /// If a returned cell is already free.
    pub fn collect(&mut self, pool: &Pool) -> usize {
        while let Some(cell) = self.pop_returned(pool) {
            assert!(!self.home.contains(&cell), "cell {} came back twice", cell.raw());
            self.home.push(cell);
        }
        self.home.len()
    }

    fn pop_returned(&mut self, pool: &Pool) -> Option<CellIndex> {
        if self.returned.is_none() {
            self.returned = pool.free[self.rank as usize].take(pool).unwrap();
        }
        let cell = self.returned?;
        self.returned = FreeQueue::next(pool, cell).unwrap();
        Some(cell)
    }
}
