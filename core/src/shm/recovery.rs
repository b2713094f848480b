//! Repair of a receive queue in which a killed producer left the chain broken.
//!
//! A producer swaps the queue's tail and then links its cell to the previous one. If it is killed
//! in between, nothing leads to its cell. The cells of all later producers, with *survivors'*
//! messages, hang behind that cell. Only the dead producer knew its predecessor in the queue. The
//! consumer reconstructs where the chains belong.
//!
//! Each rank has an in-flight marker, its [`InFlightMarker`]: a word that says which cell it is
//! putting into the queue of which rank. The rank stores it before the swap and clears it after the
//! link. No other rank writes that line. From the markers the consumer learns two facts:
//!
//! - the dead ranks' cells that may lack a link: at most one for each rank, since a rank sends from
//!   one thread;
//! - that no *living* rank is between its swap and its link. Such a rank may store its link at any
//!   moment, at an unknown place, where a repair would put another chain. The consumer then waits.
//!
//! So when no marker of a living rank names the queue, each chain but the first begins with a dead
//! rank's cell. The consumer links the chains in an order in which no source's messages overtake
//! each other.
//!
//! A killed producer leaves one of these states, which are all distinguishable:
//!
//! | killed               | its cell                                    | result               |
//! |----------------------|---------------------------------------------|----------------------|
//! | before the swap      | not the tail; no link, as `hold` resets it  | not delivered        |
//! | after the swap       | the tail, or linked on by the next producer | linked and delivered |
//! | both, after the swap | not the tail, no link                       | not delivered        |
//! | after the link       | in a chain, or its message is taken         | nothing to repair    |
//!
//! In the third row, the next producer was killed after its swap too. The cell looks as in the
//! first row, and only its own message is lost.
//!
//! The markers also serve the owner of a cell that it sent to a rank that died. They tell it when
//! no rank touches the cell any more ([`regain`]).
//!
//! Consumer: the owner of the queue, one thread, between two calls of `dequeue`.
//! Absent on purpose: memory of its own, a timeout, any cost on the receive path.

use super::{CellArena, RecvQueue};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, Step, order, reached};
use crate::wire::{CellIndex, Corrupt};

/// A rank's in-flight marker: the cell that it is putting into a queue, and the rank that owns the
/// queue. Zeroed memory is a clear marker.
#[derive(Debug)]
#[repr(transparent)]
pub struct InFlightMarker(AtomicU64);

impl InFlightMarker {
    /// Creates a clear marker, for models and tests. In a segment, zeroed memory has this state.
    #[must_use]
    pub fn empty() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Appends `cell` to the queue of rank `consumer`, as [`RecvQueue::enqueue`] does.
    ///
    /// The queue can be repaired if this rank, the owner of the marker, is killed on the way.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] if the tail is not the index of a cell. The queue is then unusable,
    /// and `cell` is not in it.
    #[inline]
    pub fn enqueue(
        &self,
        queue: &RecvQueue,
        arena: &impl CellArena,
        consumer: u32,
        cell: CellIndex,
    ) -> Result<(), Corrupt> {
        self.hold(arena, consumer, cell);
        reached(Step::CellHeld);
        let last = queue.swap(arena, cell);
        reached(Step::CellSwapped);
        let appended = last.map(|last| queue.link(arena, last, cell));
        reached(Step::CellLinked);
        self.clear();
        appended
    }

    /// Stores the filled `cell` in the marker before the swap. Public for tests that stop after
    /// this step.
    #[inline]
    pub fn hold(&self, arena: &impl CellArena, consumer: u32, cell: CellIndex) {
        RecvQueue::prepare(arena, cell);
        let held = u64::from(consumer) << 32 | u64::from(cell.raw());
        // ORDER in_flight/1: Release. The contents and the empty link come before it, for a process
        //   that looks after our death. A kill falls between two instructions, so the compiler's
        //   order is what matters. For living processes, the swap publishes the marker (queue/2).
        self.0.store(held, order("in_flight/1", Release));
    }

    /// Clears the marker after the link.
    #[inline]
    fn clear(&self) {
        // ORDER in_flight/2: Release, pairs with in_flight/3: a process that sees the marker clear
        //   sees the link.
        self.0.store(0, order("in_flight/2", Release));
    }

    /// Returns the cell that the rank is putting into the queue of rank `consumer`, if any.
    ///
    /// Returns `None` for a value that no correct rank writes.
    #[must_use]
    pub fn holds_for(&self, arena: &impl CellArena, consumer: u32) -> Option<CellIndex> {
        // ORDER in_flight/3: Acquire, pairs with in_flight/2: if the marker is clear, the link is
        //   visible.
        let held = self.0.load(order("in_flight/3", Acquire));
        let cell = arena.parse(held as u32).ok().flatten();
        cell.filter(|_| held >> 32 == u64::from(consumer))
    }
}

/// What the repair of a queue needs to know about the ranks that send to it.
pub trait Producers {
    /// Returns the number of ranks.
    fn ranks(&self) -> u32;

    /// Returns the number of cells in the segment.
    fn cells(&self) -> u32;

    /// Returns true if `rank` is known to have stopped running: all its stores are visible, and
    /// none follows.
    ///
    /// The answer does not change during a repair. The repair ignores cells that are swapped in
    /// behind the tail that it began with.
    fn is_dead(&self, rank: u32) -> bool;

    /// Returns the cell that `rank` is putting into the queue, from [`InFlightMarker::holds_for`].
    fn in_flight(&self, rank: u32) -> Option<CellIndex>;

    /// Returns source and sequence number of the message in `cell`. The cell is in the queue, or
    /// named by a dead rank's marker.
    fn place(&self, cell: CellIndex) -> (u32, u64);

    /// Returns true if the consumer has taken message `sequence` of `source`.
    fn is_taken(&self, source: u32, sequence: u64) -> bool;
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repair {
    /// All cells that had been swapped in when the repair began are in one chain.
    Whole,
    /// A living rank is about to link its cell. The caller tries again later.
    Later,
}

/// Links the chains of `queue` into one. Only the queue's consumer may call it.
///
/// # Errors
///
/// [`Corrupt::CellIndex`] if a link is not the index of a cell, or if the cells form a ring.
pub fn repair(
    queue: &RecvQueue,
    arena: &impl CellArena,
    producers: &impl Producers,
) -> Result<Repair, Corrupt> {
    let Some(tail) = queue.tail(arena)? else { return Ok(Repair::Whole) };
    // The markers are read after the tail: each swap that led to the tail came after its producer's
    // `hold`.
    if is_living_producer_in_flight(producers) {
        return Ok(Repair::Later);
    }
    let chains = BrokenChains { arena, producers, tail };
    loop {
        let first = queue.first(arena)?;
        let end = first.map(|first| chains.end(first)).transpose()?;
        if end == Some(tail) {
            return Ok(Repair::Whole);
        }
        let Some(next) = chains.next(first)? else { return Ok(Repair::Later) };
        queue.mend(arena, end, next);
    }
}

/// Returns true if a living rank is between its `hold` and its link.
fn is_living_producer_in_flight(producers: &impl Producers) -> bool {
    let mut ranks = 0..producers.ranks();
    ranks.any(|rank| producers.in_flight(rank).is_some() && !producers.is_dead(rank))
}

/// Takes back `cell`, which the caller owns and sent to `queue`, and which has not come back.
///
/// The queue's consumer is dead, and so are the ranks for which `producers` says so. Returns true
/// if no rank touches the cell any more. Returns false if a living rank may be about to link its
/// own cell behind it; the caller tries again later.
///
/// A producer that swapped the tail from `cell` either stores its link or died before that. A cell
/// without a link is in one of three states:
///
/// - It is the last of the queue, and this function takes it out.
/// - Such a producer is on its way, and its marker says so.
/// - The consumer took the cell and died before it returned it.
///
/// # Errors
///
/// [`Corrupt::CellIndex`] if a link is not the index of a cell.
pub fn regain(
    queue: &RecvQueue,
    arena: &impl CellArena,
    producers: &impl Producers,
    cell: CellIndex,
) -> Result<bool, Corrupt> {
    Ok(RecvQueue::is_linked(arena, cell)
        || queue.withdraw(arena, cell)?
        || !is_living_producer_in_flight(producers))
}

/// Returns true if the first chain of the queue holds a message of `source`. The consumer has not
/// taken the cells of that chain.
///
/// # Errors
///
/// [`Corrupt::CellIndex`] if a link is not the index of a cell, or if the cells form a ring.
pub fn holds_message_of(
    queue: &RecvQueue,
    arena: &impl CellArena,
    producers: &impl Producers,
    source: u32,
) -> Result<bool, Corrupt> {
    let (Some(tail), Some(first)) = (queue.tail(arena)?, queue.first(arena)?) else {
        return Ok(false);
    };
    for cell in (BrokenChains { arena, producers, tail }).chain(first) {
        if producers.place(cell?).0 == source {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The chains of a queue, up to the cell that was its tail when the repair began.
struct BrokenChains<'a, A, P> {
    arena: &'a A,
    producers: &'a P,
    tail: CellIndex,
}

impl<A: CellArena, P: Producers> BrokenChains<'_, A, P> {
    /// Returns the cell that belongs behind the chain that begins with `first`.
    fn next(&self, first: Option<CellIndex>) -> Result<Option<CellIndex>, Corrupt> {
        for candidate in self.loose() {
            if self.is_linked(candidate, first)? {
                continue;
            }
            let mut precedes_all = true;
            for other in self.loose().filter(|other| *other != candidate) {
                precedes_all &= self.is_linked(other, first)? || self.precedes(candidate, other)?;
            }
            if precedes_all {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    /// Returns the dead ranks' cells that are in the queue, linked or not.
    fn loose(&self) -> impl Iterator<Item = CellIndex> {
        let dead = (0..self.producers.ranks()).filter(|rank| self.producers.is_dead(*rank));
        dead.filter_map(|rank| self.producers.in_flight(rank)).filter(|cell| {
            let (source, sequence) = self.producers.place(*cell);
            (*cell == self.tail || RecvQueue::is_linked(self.arena, *cell))
                && !self.producers.is_taken(source, sequence)
        })
    }

    /// Returns true if `cell` is in the first chain, or in the chain of another loose cell.
    fn is_linked(&self, cell: CellIndex, first: Option<CellIndex>) -> Result<bool, Corrupt> {
        for start in first.into_iter().chain(self.loose().filter(|start| *start != cell)) {
            for other in self.chain(start) {
                if other? == cell {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns true if the chain from `a` may come before the one from `b`.
    ///
    /// It may if it does not end at the tail, and if none of its messages overtakes a message of
    /// the same source.
    fn precedes(&self, a: CellIndex, b: CellIndex) -> Result<bool, Corrupt> {
        if self.end(a)? == self.tail {
            return Ok(false);
        }
        for early in self.chain(a) {
            let (source, sequence) = self.producers.place(early?);
            for late in self.chain(b) {
                let (other_source, other_sequence) = self.producers.place(late?);
                if source == other_source && other_sequence < sequence {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn end(&self, start: CellIndex) -> Result<CellIndex, Corrupt> {
        self.chain(start).try_fold(start, |_, cell| cell)
    }

    /// Iterates over the cells from `start` to the tail or to the end of the chain.
    fn chain(&self, start: CellIndex) -> impl Iterator<Item = Result<CellIndex, Corrupt>> {
        let mut next = Ok(Some(start));
        let cells = self.producers.cells();
        let mut left = cells;
        core::iter::from_fn(move || {
            let cell = match core::mem::replace(&mut next, Ok(None)) {
                Ok(cell) => cell?,
                Err(corrupt) => return Some(Err(corrupt)),
            };
            if left == 0 {
                return Some(Err(Corrupt::CellIndex { found: cell.raw(), cells }));
            }
            left -= 1;
            if cell != self.tail {
                // ORDER in_flight/4: Relaxed. The tail's swaps order the contents (queue/12), the
                //   in-flight markers the links (in_flight/3).
                next = self.arena.parse(self.arena.next(cell).load(order("in_flight/4", Relaxed)));
            }
            Some(Ok(cell))
        })
    }
}
