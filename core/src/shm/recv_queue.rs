//! Multi-producer single-consumer queue of cells (`[Nemesis07]` §2).
//!
//! Producers: any local process. Consumer: the owner of the queue, one thread.
//! `enqueue` is wait-free: one swap, one link. `dequeue` never waits: in the window between a producer's swap and
//! its link it reports the queue as empty, and finds the cell when it looks again.
//! Absent on purpose: a length, a timeout, allocation, any pointer.

use crate::layout::{CellIndex, Corrupt, golden};
use crate::shm::CellArena;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, CacheLine, order};

/// The queue's control words. Zeroed memory is an empty queue.
///
/// | offset | size | field    | written by          |
/// |-------:|-----:|----------|---------------------|
/// |      0 |    4 | `head`   | producers, consumer |
/// |      4 |    4 | `tail`   | producers, consumer |
/// |     64 |    4 | `shadow` | consumer only       |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RecvQueue {
    /// First cell, set by the producer that found the queue empty and moved to `shadow` by the consumer.
    head: AtomicU32,
    /// Last cell: the word that producers swap.
    tail: AtomicU32,
    /// The consumer's own head: while the queue is not empty, the consumer leaves the producers' line alone.
    shadow: CacheLine<AtomicU32>,
}

golden::structure!(RecvQueue { head, tail, shadow });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    use crate::sync::CACHE_LINE;

    const_assert_eq!(size_of::<RecvQueue>(), 2 * CACHE_LINE);
    // The consumer's line must not bounce on enqueue.
    const_assert_eq!(offset_of!(RecvQueue, shadow), CACHE_LINE);
};

impl RecvQueue {
    /// An empty queue, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            head: AtomicU32::new(CellIndex::NIL),
            tail: AtomicU32::new(CellIndex::NIL),
            shadow: CacheLine(AtomicU32::new(CellIndex::NIL)),
        }
    }

    /// Appends `cell`, which the caller owns, has filled and no longer touches.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] when the tail is no cell. The queue is then beyond use; `cell` is not in it.
    #[inline]
    pub fn enqueue(&self, arena: &impl CellArena, cell: CellIndex) -> Result<(), Corrupt> {
        Self::prepare(arena, cell);
        let last = self.swap(arena, cell)?;
        self.link(arena, last, cell);
        Ok(())
    }

    /// Resets the link of `cell`: the step before the swap.
    #[inline(always)]
    pub(super) fn prepare(arena: &impl CellArena, cell: CellIndex) {
        // ORDER queue/1: Relaxed. The cell is still private; queue/2 and queue/3 publish it.
        arena.next(cell).store(CellIndex::NIL, order("queue/1", Relaxed));
    }

    /// The first half of [`RecvQueue::enqueue`]: makes `cell` the last and gives the one that was, if the queue was not
    /// empty. Public for tests that stop a producer between the halves.
    ///
    /// # Errors
    ///
    /// As [`RecvQueue::enqueue`].
    #[inline(always)]
    pub fn swap(
        &self,
        arena: &impl CellArena,
        cell: CellIndex,
    ) -> Result<Option<CellIndex>, Corrupt> {
        // ORDER queue/2: AcqRel.
        // Acquire, pairs with the consumer's exchange (queue/8): our store of `head` comes after the consumer's
        //   reset of it. Without it the reset can land last and the message is lost.
        // Release, pairs with the next producer's swap: our `next = NIL` comes before its link. Without it the
        //   link is overwritten and the consumer never finds the cells behind it.
        let last = self.tail.swap(cell.raw(), order("queue/2", AcqRel));
        arena.parse(last)
    }

    /// The second half: links `cell` behind `last`, which `swap` gave.
    #[inline(always)]
    pub fn link(&self, arena: &impl CellArena, last: Option<CellIndex>, cell: CellIndex) {
        match last {
            // ORDER queue/3: Release, pairs with queue/5: the cell's contents come before the queue's head.
            None => self.head.store(cell.raw(), order("queue/3", Release)),
            // ORDER queue/4: Release, pairs with queue/7 and queue/9: the contents come before the link.
            Some(last) => arena.next(last).store(cell.raw(), order("queue/4", Release)),
        }
    }

    /// The last cell, for a repair by the owner: what producers stored before the swaps that led to it can be seen.
    pub(super) fn tail(&self, arena: &impl CellArena) -> Result<Option<CellIndex>, Corrupt> {
        // ORDER queue/12: Acquire, pairs with queue/2 of this cell's producer and of each before it: what they hold
        //   (hand/1), and the contents of their cells.
        arena.parse(self.tail.load(order("queue/12", Acquire)))
    }

    /// The first cell, for a repair by the owner.
    pub(super) fn first(&self, arena: &impl CellArena) -> Result<Option<CellIndex>, Corrupt> {
        match arena.parse(self.shadow.load(Relaxed))? {
            // ORDER queue/13: Relaxed. The repair reads nothing through it that queue/12 and hand/3 do not order.
            None => arena.parse(self.head.load(order("queue/13", Relaxed))),
            first => Ok(first),
        }
    }

    /// Links `cell` behind `last`, or as the first when the owner has taken all before it: for its producer, which is
    /// dead. Called by the owner.
    pub(super) fn mend(&self, arena: &impl CellArena, last: Option<CellIndex>, cell: CellIndex) {
        match last {
            None => self.shadow.store(cell.raw(), Relaxed),
            // ORDER queue/14: Relaxed. The owner itself reads it.
            Some(last) => arena.next(last).store(cell.raw(), order("queue/14", Relaxed)),
        }
    }

    /// Takes `cell`, which the caller owns, out of the queue if it is the last there; the cells before it go with it.
    /// For a queue whose owner is dead: no rank takes anything from it any more. True: no producer links a cell to
    /// `cell`. False: `cell` is not the last, and what the producers before the tail hold can be seen.
    pub(super) fn withdraw(
        &self,
        arena: &impl CellArena,
        cell: CellIndex,
    ) -> Result<bool, Corrupt> {
        // A second turn finds another tail: the caller does not send to the dead rank meanwhile.
        while self.tail(arena)? == Some(cell) {
            // ORDER queue/15: Relaxed. The tail's own order decides: a later swap does not give `cell`. A failure
            //   leads to queue/12.
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

    /// True when a look into the queue may find something. One load when the queue has been drained.
    #[inline(always)]
    #[must_use]
    pub fn has_news(&self) -> bool {
        // ORDER queue/10: Relaxed. Only a reason to look; `dequeue` orders what it finds.
        self.head.load(order("queue/10", Relaxed)) != CellIndex::NIL
            || self.shadow.load(Relaxed) != CellIndex::NIL
    }

    /// True when a cell is there that `dequeue` could not give: a producer has not linked the one behind it yet.
    /// Meaningful to the owner, after a `dequeue` that found nothing.
    #[must_use]
    pub fn awaits_link(&self) -> bool {
        self.shadow.load(Relaxed) != CellIndex::NIL
    }

    /// True when the producer behind `cell` has linked its own to it, or `cell` has left the queue. Asked by the owner
    /// of a cell that is with a rank that is gone: no producer touches the cell any more, and it may be used again.
    #[inline]
    #[must_use]
    pub fn is_linked(arena: &impl CellArena, cell: CellIndex) -> bool {
        // ORDER queue/11: Relaxed. Coherence of this one word: the owner's next store of it comes after the link it
        //   saw. Of the owner's cells a producer touches nothing else.
        arena.next(cell).load(order("queue/11", Relaxed)) != CellIndex::NIL
    }

    /// Takes the first cell, if one is there. Called by the owner alone.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] when a link is no cell.
    #[inline]
    pub fn dequeue(&self, arena: &impl CellArena) -> Result<Option<CellIndex>, Corrupt> {
        let first = match arena.parse(self.shadow.load(Relaxed))? {
            Some(first) => first,
            None => {
                // ORDER queue/5: Acquire, pairs with queue/3.
                match arena.parse(self.head.load(order("queue/5", Acquire)))? {
                    None => return Ok(None),
                    Some(first) => {
                        // ORDER queue/6: Relaxed. Producers store `head` again only after they saw the tail empty,
                        //   and queue/8, which empties it, comes after this store.
                        self.head.store(CellIndex::NIL, order("queue/6", Relaxed));
                        self.shadow.store(first.raw(), Relaxed);
                        first
                    }
                }
            }
        };
        // ORDER queue/7: Acquire, pairs with queue/4: the next cell's contents may be read once it is `shadow`.
        let mut next = arena.next(first).load(order("queue/7", Acquire));
        if next == CellIndex::NIL {
            // The last cell, as far as we see: close the queue behind it, unless a producer has swapped already.
            // ORDER queue/8: Release / Relaxed.
            // Release, pairs with queue/2: our reset of `head` (queue/6) comes before the next producer's store.
            let closed = self.tail.compare_exchange(
                first.raw(),
                CellIndex::NIL,
                order("queue/8", Release),
                Relaxed,
            );
            if closed.is_err() {
                // ORDER queue/9: Acquire, pairs with queue/4.
                next = arena.next(first).load(order("queue/9", Acquire));
                if next == CellIndex::NIL {
                    // Swapped but not linked yet. `first` stays, so that its link has a place to arrive.
                    return Ok(None);
                }
            }
        }
        self.shadow.store(next, Relaxed);
        Ok(Some(first))
    }
}
