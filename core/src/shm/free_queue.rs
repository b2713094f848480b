//! Where a rank's cells come back to it.
//!
//! Returned cells form a stack: whoever is done with a cell pushes it, the owner takes the whole stack at once and
//! hands its cells out without further atomics. The paper uses its receive queue for this too (`[Nemesis07]` §2); a
//! stack is better here for two reasons. The cell used last is used next, while its lines are still in a cache. And
//! it has no moment in which a returner that is killed leaves the structure broken: a cell is either on it or not.
//!
//! Returners: any local process. Taker: the owner, one thread. `push` is lock-free; `take` is wait-free.
//! ABA cannot happen: nobody pops single cells.

use crate::layout::{CellIndex, Corrupt, golden};
use crate::shm::CellArena;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, CacheLine, order};

/// The stack's head, alone on its line. Zeroed memory is an empty one.
#[derive(Debug)]
#[repr(C)]
pub struct FreeQueue {
    top: CacheLine<AtomicU32>,
}

golden::structure!(FreeQueue { top });

impl FreeQueue {
    /// An empty stack, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self { top: CacheLine(AtomicU32::new(CellIndex::NIL)) }
    }

    /// Gives `cell` back to its owner. The caller has dequeued it and is done with it.
    #[inline]
    pub fn push(&self, arena: &impl CellArena, cell: CellIndex) {
        // ORDER free/1: Relaxed. A stale top only makes the exchange fail and tell the new one.
        let mut top = self.top.load(order("free/1", Relaxed));
        loop {
            // ORDER free/2: Relaxed. The cell is still private; free/3 publishes its link.
            arena.next(cell).store(top, order("free/2", Relaxed));
            // ORDER free/3: Release / Relaxed.
            // Release, pairs with the owner's swap (free/4): our reads of the payload and our link come before the
            //   owner's reuse. Without it the owner overwrites a payload that is still being copied out.
            //   Pushes below ours stay published: each later push continues their release sequence.
            match self.top.compare_exchange_weak(top, cell.raw(), order("free/3", Release), Relaxed)
            {
                Ok(_) => return,
                Err(newer) => top = newer,
            }
        }
    }

    /// Takes every returned cell: the first of a chain linked through `next`, to be walked with
    /// [`FreeQueue::next`]. Called by the owner alone.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] when the head is no cell.
    #[inline]
    pub fn take(&self, arena: &impl CellArena) -> Result<Option<CellIndex>, Corrupt> {
        // ORDER free/4: Acquire, pairs with free/3.
        arena.parse(self.top.swap(CellIndex::NIL, order("free/4", Acquire)))
    }

    /// The cell behind `cell` in a taken chain.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] when the link is no cell.
    #[inline]
    pub fn next(arena: &impl CellArena, cell: CellIndex) -> Result<Option<CellIndex>, Corrupt> {
        // ORDER free/5: Relaxed. The chain became ours by free/4.
        arena.parse(arena.next(cell).load(order("free/5", Relaxed)))
    }
}
