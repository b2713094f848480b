//! The stack through which a rank's cells return to it.
//!
//! A process that has finished with a cell pushes it. The owner takes the whole stack at once and
//! hands out its cells without further atomics. The paper uses its receive queue for this purpose
//! too (`[Nemesis07]` §2). A stack is better here for two reasons:
//!
//! - The cell used last is used next, while its lines are still in a cache.
//! - A killed process cannot leave the structure broken: a cell is either on the stack or not.
//!
//! Pushers: any local process. Taker: the owner, one thread. `push` is lock-free; `take` is
//! wait-free.
//! ABA cannot happen, because no process pops single cells.

use crate::golden;
use crate::shm::CellArena;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, CacheLine, order};
use crate::wire::{CellIndex, Corrupt};

/// The head of the stack, alone on its line. Zeroed memory is an empty stack.
///
/// ```
/// use strait_core::shm::{CellArena, FreeQueue};
/// use strait_core::wire::CellIndex;
/// # use strait_core::sync::AtomicU32;
/// # use strait_core::wire::Corrupt;
/// # struct Cells([AtomicU32; 4]);
/// # impl CellArena for Cells {
/// #     fn parse(&self, raw: u32) -> Result<Option<CellIndex>, Corrupt> {
/// #         CellIndex::parse(raw, 4)
/// #     }
/// #     fn next(&self, index: CellIndex) -> &AtomicU32 {
/// #         &self.0[index.raw() as usize - 1]
/// #     }
/// # }
///
/// let cells = Cells([0; 4].map(AtomicU32::new));
/// let [first, second] = [1, 2].map(|raw| CellIndex::parse(raw, 4));
/// let (first, second) = (first?.expect("a cell"), second?.expect("a cell"));
/// let free = FreeQueue::empty();
/// free.push(&cells, first);
/// free.push(&cells, second);
/// // The owner takes all returned cells at once. The last one comes first.
/// assert_eq!(free.take(&cells)?, Some(second));
/// assert_eq!(FreeQueue::next(&cells, second)?, Some(first));
/// assert_eq!(FreeQueue::next(&cells, first)?, None);
/// # Ok::<(), Corrupt>(())
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct FreeQueue {
    top: CacheLine<AtomicU32>,
}

golden::structure!(FreeQueue { top });

impl FreeQueue {
    /// Creates an empty stack, for models and tests. In a segment, zeroed memory has this state.
    #[must_use]
    pub fn empty() -> Self {
        Self { top: CacheLine(AtomicU32::new(CellIndex::NIL)) }
    }

    /// Returns `cell` to its owner. The caller has dequeued the cell and has finished with it.
    #[inline]
    pub fn push(&self, arena: &impl CellArena, cell: CellIndex) {
        // ORDER free/1: Relaxed. A stale top only makes the exchange fail and return the new one.
        let mut top = self.top.load(order("free/1", Relaxed));
        loop {
            // ORDER free/2: Relaxed. The cell is still private; free/3 publishes its link.
            arena.next(cell).store(top, order("free/2", Relaxed));
            // ORDER free/3: Release / Relaxed.
            // Release, pairs with the owner's swap (free/4): our reads of the payload and our link
            //   come before the owner's reuse. Without it the owner overwrites a payload that is
            //   still being copied out. Pushes below ours stay published: each later push continues
            //   their release sequence.
            match self.top.compare_exchange_weak(top, cell.raw(), order("free/3", Release), Relaxed)
            {
                Ok(_) => return,
                Err(newer) => top = newer,
            }
        }
    }

    /// Returns whether there are cells to [take](FreeQueue::take). Costs one load.
    #[inline]
    #[must_use]
    pub fn has_cells(&self) -> bool {
        // Relaxed: it is only a reason to look; `take` orders what it finds.
        self.top.load(Relaxed) != CellIndex::NIL
    }

    /// Takes every returned cell and returns the first of a chain linked through `next`.
    ///
    /// The caller is the owner and walks the chain with [`FreeQueue::next`].
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] if the head is not the index of a cell.
    #[inline]
    pub fn take(&self, arena: &impl CellArena) -> Result<Option<CellIndex>, Corrupt> {
        // ORDER free/4: Acquire, pairs with free/3: the cells and their links may be used.
        arena.parse(self.top.swap(CellIndex::NIL, order("free/4", Acquire)))
    }

    /// Returns the cell behind `cell` in a taken chain.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] if the link is not the index of a cell.
    #[inline]
    pub fn next(arena: &impl CellArena, cell: CellIndex) -> Result<Option<CellIndex>, Corrupt> {
        // ORDER free/5: Relaxed. The chain became ours by free/4.
        arena.parse(arena.next(cell).load(order("free/5", Relaxed)))
    }
}
