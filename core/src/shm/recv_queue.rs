//! Multi-producer single-consumer queue of cells (`[Nemesis07]` §2).
//!
//! Producers: any local process. Consumer: the owner of the queue, one thread.
//! `enqueue` is wait-free: one swap, one link. `dequeue` never waits. Between a producer's swap and
//! its link it reports the queue as empty, and finds the cell at a later call.
//! Absent on purpose: a length, a timeout, allocation, any pointer.

use crate::golden;
use crate::shm::CellArena;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, CacheLine, order};
use crate::wire::{CellIndex, Corrupt};

/// The queue's control words. Zeroed memory is an empty queue.
///
/// | offset | size | field    | written by          |
/// |-------:|-----:|----------|---------------------|
/// |      0 |    4 | `head`   | producers, consumer |
/// |      4 |    4 | `tail`   | producers, consumer |
/// |     64 |    4 | `shadow` | consumer only       |
///
/// ```
/// use strait_core::shm::{CellArena, RecvQueue};
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
/// let queue = RecvQueue::empty();
/// queue.enqueue(&cells, first)?;
/// queue.enqueue(&cells, second)?;
/// assert_eq!(queue.dequeue(&cells)?, Some(first));
/// assert_eq!(queue.dequeue(&cells)?, Some(second));
/// assert_eq!(queue.dequeue(&cells)?, None);
/// # Ok::<(), Corrupt>(())
/// ```
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RecvQueue {
    /// First cell. The producer that finds the queue empty sets it, and the consumer moves it to
    /// `shadow`.
    head: AtomicU32,
    /// Last cell: the word that producers swap.
    tail: AtomicU32,
    /// The consumer's own head. While the queue is not empty, the consumer does not touch the
    /// producers' line.
    shadow: CacheLine<AtomicU32>,
}

golden::structure!(RecvQueue { head, tail, shadow });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    use crate::sync::CACHE_LINE;

    const_assert_eq!(size_of::<RecvQueue>(), 2 * CACHE_LINE);
    // An enqueue must not move the consumer's line between cores.
    const_assert_eq!(offset_of!(RecvQueue, shadow), CACHE_LINE);
};

impl RecvQueue {
    /// Creates an empty queue, for models and tests. In a segment, zeroed memory has this state.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            head: AtomicU32::new(CellIndex::NIL),
            tail: AtomicU32::new(CellIndex::NIL),
            shadow: CacheLine(AtomicU32::new(CellIndex::NIL)),
        }
    }

    /// Appends `cell`. The caller owns the cell, has filled it and no longer touches it.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] if the tail is not the index of a cell. The queue is then unusable,
    /// and `cell` is not in it.
    #[inline]
    pub fn enqueue(&self, arena: &impl CellArena, cell: CellIndex) -> Result<(), Corrupt> {
        Self::prepare(arena, cell);
        let last = self.swap(arena, cell)?;
        self.link(arena, last, cell);
        Ok(())
    }

    /// Resets the link of `cell` before the swap.
    #[inline(always)]
    pub(super) fn prepare(arena: &impl CellArena, cell: CellIndex) {
        // ORDER queue/1: Relaxed. The cell is still private; queue/2 and queue/3 publish it.
        arena.next(cell).store(CellIndex::NIL, order("queue/1", Relaxed));
    }

    /// Makes `cell` the last cell and returns the previous last one if the queue was not empty.
    ///
    /// This is the first half of [`RecvQueue::enqueue`]. It is public for tests that stop a
    /// producer between the halves.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] if the tail is not the index of a cell.
    #[inline(always)]
    pub fn swap(
        &self,
        arena: &impl CellArena,
        cell: CellIndex,
    ) -> Result<Option<CellIndex>, Corrupt> {
        // ORDER queue/2: AcqRel.
        // Acquire, pairs with the consumer's exchange (queue/8): our store of `head` comes after
        //   the consumer's reset of it. Without it the reset can land last and the message is lost.
        // Release, pairs with the next producer's swap: our `next = NIL` comes before its link.
        //   Without it the link is overwritten and the consumer never finds the cells behind it.
        let last = self.tail.swap(cell.raw(), order("queue/2", AcqRel));
        arena.parse(last)
    }

    /// Links `cell` behind `last`, which `swap` returned. This is the second half of
    /// [`RecvQueue::enqueue`].
    #[inline(always)]
    pub fn link(&self, arena: &impl CellArena, last: Option<CellIndex>, cell: CellIndex) {
        match last {
            // ORDER queue/3: Release, pairs with queue/5: the cell's contents come before the
            //   queue's head.
            None => self.head.store(cell.raw(), order("queue/3", Release)),
            // ORDER queue/4: Release, pairs with queue/7 and queue/9: the contents come before the
            //   link.
            Some(last) => arena.next(last).store(cell.raw(), order("queue/4", Release)),
        }
    }

    /// Returns the last cell, for a repair by the owner. All stores of producers before the swaps
    /// that led to it are visible.
    pub(super) fn tail(&self, arena: &impl CellArena) -> Result<Option<CellIndex>, Corrupt> {
        // ORDER queue/12: Acquire, pairs with queue/2 of this cell's producer and of each earlier
        //   one. Their in-flight markers (in_flight/1) and the contents of their cells are visible.
        arena.parse(self.tail.load(order("queue/12", Acquire)))
    }

    /// Returns the first cell, for a repair by the owner.
    pub(super) fn first(&self, arena: &impl CellArena) -> Result<Option<CellIndex>, Corrupt> {
        match arena.parse(self.shadow.load(Relaxed))? {
            // ORDER queue/13: Relaxed. queue/12 and in_flight/3 order everything that the repair
            //   reads through it.
            None => arena.parse(self.head.load(order("queue/13", Relaxed))),
            first => Ok(first),
        }
    }

    /// Links `cell` behind `last` in place of its producer, which is dead. Called by the owner.
    ///
    /// Makes `cell` the first if `last` is `None`, that is, if the owner has taken all earlier
    /// cells.
    pub(super) fn mend(&self, arena: &impl CellArena, last: Option<CellIndex>, cell: CellIndex) {
        match last {
            None => self.shadow.store(cell.raw(), Relaxed),
            // ORDER queue/14: Relaxed. Only the owner reads it.
            Some(last) => arena.next(last).store(cell.raw(), order("queue/14", Relaxed)),
        }
    }

    /// Takes `cell`, which the caller owns, out of the queue of a dead rank, if it is the last cell
    /// there.
    ///
    /// The cells before it leave the queue with it; no rank takes anything from this queue any
    /// more. Returns true if the cell was taken out: no producer links a cell to it. Returns false
    /// if `cell` is not the last. The in-flight markers of the producers before the tail are then
    /// visible.
    pub(super) fn withdraw(
        &self,
        arena: &impl CellArena,
        cell: CellIndex,
    ) -> Result<bool, Corrupt> {
        // A second iteration finds another tail: the caller does not send to the dead rank
        // meanwhile.
        while self.tail(arena)? == Some(cell) {
            // ORDER queue/15: Relaxed. The tail's modification order decides: a later swap does not
            //   return `cell`. A failure leads to queue/12.
            let withdrawn = self.tail.compare_exchange(
                cell.raw(),
                CellIndex::NIL,
                order("queue/15", Relaxed),
                Relaxed,
            );
            if withdrawn.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the queue may hold a cell. Costs at most two loads.
    #[inline(always)]
    #[must_use]
    pub fn has_news(&self) -> bool {
        // ORDER queue/10: Relaxed. It is only a reason to look; `dequeue` orders what it finds.
        self.head.load(order("queue/10", Relaxed)) != CellIndex::NIL
            || self.shadow.load(Relaxed) != CellIndex::NIL
    }

    /// Returns true if the queue holds a cell that `dequeue` could not return, because a producer
    /// has not linked the cell behind it yet.
    ///
    /// The result is meaningful to the owner, after a `dequeue` that found nothing.
    #[must_use]
    pub fn awaits_link(&self) -> bool {
        self.shadow.load(Relaxed) != CellIndex::NIL
    }

    /// Returns true if the producer behind `cell` has linked its own cell to it, or if `cell` has
    /// left the queue.
    ///
    /// Called by the owner of a cell that it sent to a rank that is gone. If true, no producer
    /// touches the cell any more, and it may be used again.
    #[inline]
    #[must_use]
    pub fn is_linked(arena: &impl CellArena, cell: CellIndex) -> bool {
        // ORDER queue/11: Relaxed. Coherence of this one word: the owner's next store to it comes
        //   after the link that it saw. A producer touches nothing else of the owner's cells.
        arena.next(cell).load(order("queue/11", Relaxed)) != CellIndex::NIL
    }

    /// Takes the first cell, if there is one. Called by the owner alone.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] if a link is not the index of a cell.
    #[inline]
    pub fn dequeue(&self, arena: &impl CellArena) -> Result<Option<CellIndex>, Corrupt> {
        let first = match arena.parse(self.shadow.load(Relaxed))? {
            Some(first) => first,
            None => {
                // ORDER queue/5: Acquire, pairs with queue/3: the first cell's contents may be
                //   read.
                match arena.parse(self.head.load(order("queue/5", Acquire)))? {
                    None => return Ok(None),
                    Some(first) => {
                        // ORDER queue/6: Relaxed. Producers store `head` again only after they saw
                        //   the tail empty. queue/8, which empties the tail, comes after this
                        //   store.
                        self.head.store(CellIndex::NIL, order("queue/6", Relaxed));
                        self.shadow.store(first.raw(), Relaxed);
                        first
                    }
                }
            }
        };
        // ORDER queue/7: Acquire, pairs with queue/4: the next cell's contents may be read once it
        //   is `shadow`.
        let mut next = arena.next(first).load(order("queue/7", Acquire));
        if next == CellIndex::NIL {
            // The last cell, as far as is visible: close the queue behind it, unless a producer has
            // swapped already.
            // ORDER queue/8: Release / Relaxed.
            // Release, pairs with queue/2: our reset of `head` (queue/6) comes before the next
            //   producer's store.
            let closed = self.tail.compare_exchange(
                first.raw(),
                CellIndex::NIL,
                order("queue/8", Release),
                Relaxed,
            );
            if closed.is_err() {
                // ORDER queue/9: Acquire, pairs with queue/4: the next cell's contents may be read
                //   once it is `shadow`.
                next = arena.next(first).load(order("queue/9", Acquire));
                if next == CellIndex::NIL {
                    // A producer has swapped but not linked yet. `first` stays, because the
                    // producer will store the link into it.
                    return Ok(None);
                }
            }
        }
        self.shadow.store(next, Relaxed);
        Ok(Some(first))
    }
}
