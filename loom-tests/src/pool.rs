//! Cells, and their way home.

use strait_core::layout::{CellIndex, Corrupt};
use strait_core::shm::{Cell, CellArena, CellHead, FreeQueue};
use strait_core::sync::AtomicU32;

/// The cells of several owners, and the free queues through which they come home.
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
    /// `per_owner` zeroed cells for each of `owners`.
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
        // SAFETY: the cell lives as long as the pool. That it is in the caller's hands is what the model is there to
        // find out: loom, Miri and the thread sanitizer each report an access that is not ordered.
        unsafe { Cell::write_head(self.cell(cell).into(), head) }
    }

    /// Source and sequence number of the message in `cell`.
    #[must_use]
    pub fn read(&self, cell: CellIndex) -> (u32, u64) {
        // SAFETY: as in `write`.
        let head = unsafe { Cell::read_head(self.cell(cell).into()) };
        (head.source, head.sequence)
    }

    /// Returns `cell` to its owner, as a receiver does that is done with it.
    pub fn give_back(&self, cell: CellIndex) {
        self.free[((cell.raw() - 1) / self.per_owner) as usize].push(self, cell);
    }

    fn cell(&self, index: CellIndex) -> &Cell {
        &self.cells[index.raw() as usize - 1]
    }
}

/// An owner's view of its cells: those at home, and the chain that came back and is not walked yet.
#[derive(Debug)]
pub struct Owner {
    rank: u32,
    home: Vec<CellIndex>,
    returned: Option<CellIndex>,
}

impl Owner {
    /// The owner `rank` before it has sent anything.
    #[must_use]
    pub fn new(pool: &Pool, rank: u32) -> Self {
        let first = rank * pool.per_owner + 1;
        let cells = (first..first + pool.per_owner).rev();
        let home = cells.filter_map(|raw| pool.parse(raw).unwrap()).collect();
        Self { rank, home, returned: None }
    }

    /// A free cell: one at home, else one that has come back by now.
    pub fn take(&mut self, pool: &Pool) -> Option<CellIndex> {
        self.home.pop().or_else(|| self.pop_returned(pool))
    }

    /// Takes in everything that has come back. The number of cells at home then.
    ///
    /// # Panics
    ///
    /// When a cell comes back that is at home.
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
