//! Repair of a receive queue whose chain a killed producer left broken.
//!
//! A producer swaps the queue's tail and then links its cell to the one before. Killed in between, it leaves a cell
//! that nothing leads to, and behind it the cells of all who came later: *survivors'* messages. What the dead one knew,
//! its predecessor in the queue, died with it. The consumer finds out again where the chains belong.
//!
//! Each rank says in a word of its own, its [`Hand`], which cell it is putting into whose queue: a store before the swap
//! and one after the link, on a line that nobody else touches. From the hands the consumer knows
//!
//! - the dead ranks' cells that may lack a link: at most one for each, since a rank sends from one thread;
//! - that no *living* rank is between its swap and its link. While one is, it will store its link any moment, nobody can
//!   say where, and a repair would put a chain into its place. Then the consumer waits.
//!
//! So when no hand of a living rank is on the queue, each chain but the first begins with a dead rank's cell, and the
//! consumer links them up, in an order in which no source's messages overtake each other.
//!
//! The states that a killed producer leaves, all told apart:
//!
//! | killed                     | its cell                                        | what happens                  |
//! |----------------------------|-------------------------------------------------|-------------------------------|
//! | before the swap            | not the tail, no link: `hold` resets the link   | it is not delivered           |
//! | after the swap             | the tail, or linked on by the producer behind   | it is linked, and delivered   |
//! | likewise, and so was the producer behind it | not the tail, no link          | not delivered: it looks as in the first row, and only its own message is in it |
//! | after the link             | in a chain, or its message is taken             | nothing                       |
//!
//! The hands also tell the owner of a cell that it sent to a rank that died when no rank touches the cell any more
//! ([`regain`]).
//!
//! Consumer: the owner of the queue, one thread, between two calls of `dequeue`. Absent on purpose: memory of its own, a
//! time-out, any cost for who receives.

use super::{CellArena, RecvQueue};
use crate::layout::{CellIndex, Corrupt};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, Step, order, reached};

/// What a rank has in hand: the cell that it is putting into a queue, and whose queue it is. Zeroed memory is an empty
/// hand.
#[derive(Debug)]
#[repr(transparent)]
pub struct Hand(AtomicU64);

impl Hand {
    /// An empty hand, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Appends `cell` to the queue of rank `consumer`, as [`RecvQueue::enqueue`] does, so that it can be repaired when
    /// this rank, whose hand this is, is killed on the way.
    ///
    /// # Errors
    ///
    /// As [`RecvQueue::enqueue`].
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
        self.open();
        appended
    }

    /// Takes `cell`, which is filled, in hand: the step before the swap. Public for tests that stop behind it.
    #[inline]
    pub fn hold(&self, arena: &impl CellArena, consumer: u32, cell: CellIndex) {
        RecvQueue::prepare(arena, cell);
        let held = u64::from(consumer) << 32 | u64::from(cell.raw());
        // ORDER hand/1: Release. The contents and the empty link come before it, for whoever looks after our death. A
        //   kill falls between two instructions, so it is the compiler's order that matters. To the living, the swap
        //   publishes it (queue/2).
        self.0.store(held, order("hand/1", Release));
    }

    /// Opens the hand again: the step after the link.
    #[inline]
    fn open(&self) {
        // ORDER hand/2: Release, pairs with hand/3: who sees the hand empty sees the link.
        self.0.store(0, order("hand/2", Release));
    }

    /// The cell that the rank is putting into the queue of rank `consumer`, if it is doing that. A value that no rank
    /// writes is no cell.
    #[must_use]
    pub fn holds_for(&self, arena: &impl CellArena, consumer: u32) -> Option<CellIndex> {
        // ORDER hand/3: Acquire, pairs with hand/2.
        let held = self.0.load(order("hand/3", Acquire));
        let cell = arena.parse(held as u32).ok().flatten();
        cell.filter(|_| held >> 32 == u64::from(consumer))
    }
}

/// What the repair of a queue has to know of the ranks that send to it.
pub trait Producers {
    /// Number of ranks.
    fn ranks(&self) -> u32;

    /// Number of cells that there are.
    fn cells(&self) -> u32;

    /// True when `rank` is known to run no more: what it has stored can be seen, and nothing follows. The answer does not
    /// change during a repair: a cell that is swapped in behind the tail that the repair began with is not its concern.
    fn is_dead(&self, rank: u32) -> bool;

    /// The cell of `rank` that it has in hand for the queue, by [`Hand::holds_for`].
    fn in_hand(&self, rank: u32) -> Option<CellIndex>;

    /// Source and sequence number of the message in `cell`, which is in the queue, or in a dead rank's hand.
    fn place(&self, cell: CellIndex) -> (u32, u64);

    /// True when the consumer has taken message `sequence` of `source`.
    fn is_taken(&self, source: u32, sequence: u64) -> bool;
}

/// What became of a repair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repair {
    /// All that had been swapped in when the repair began is in one chain.
    Whole,
    /// A living rank is about to link its cell. Look again.
    Later,
}

/// Links up the chains of `queue`, which only its consumer may ask for.
///
/// # Errors
///
/// [`Corrupt::CellIndex`] when a link is no cell, or the cells form a ring.
pub fn repair(
    queue: &RecvQueue,
    arena: &impl CellArena,
    producers: &impl Producers,
) -> Result<Repair, Corrupt> {
    let Some(tail) = queue.tail(arena)? else { return Ok(Repair::Whole) };
    // After the tail: each swap that led to it was preceded by its producer's `hold`.
    if is_in_living_hands(producers) {
        return Ok(Repair::Later);
    }
    let chains = Chains { arena, producers, tail };
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

/// True when a living rank is between its `hold` and its link.
fn is_in_living_hands(producers: &impl Producers) -> bool {
    let mut ranks = 0..producers.ranks();
    ranks.any(|rank| producers.in_hand(rank).is_some() && !producers.is_dead(rank))
}

/// Takes `cell` back, which its owner, the caller, sent to `queue` and which has not come back. The queue's consumer is
/// dead, and so are the ranks that `producers` calls dead. True: no rank touches the cell any more. False: a living rank
/// may be about to link its own cell behind it. Look again.
///
/// A producer that swapped the tail from `cell` stores its link, or died before that. A cell without a link is the last of
/// the queue, and leaves it here; or such a producer is on its way, which its hand says; or the consumer took the cell and
/// died before it gave it back.
///
/// # Errors
///
/// As [`repair`].
pub fn regain(
    queue: &RecvQueue,
    arena: &impl CellArena,
    producers: &impl Producers,
    cell: CellIndex,
) -> Result<bool, Corrupt> {
    Ok(RecvQueue::is_linked(arena, cell)
        || queue.withdraw(arena, cell)?
        || !is_in_living_hands(producers))
}

/// True when the queue holds a message of `source` that its consumer has not taken, as far as it is in one chain.
///
/// # Errors
///
/// As [`repair`].
pub fn holds_message_of(
    queue: &RecvQueue,
    arena: &impl CellArena,
    producers: &impl Producers,
    source: u32,
) -> Result<bool, Corrupt> {
    let (Some(tail), Some(first)) = (queue.tail(arena)?, queue.first(arena)?) else {
        return Ok(false);
    };
    for cell in (Chains { arena, producers, tail }).chain(first) {
        if producers.place(cell?).0 == source {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The chains of a queue, up to the cell that was its tail.
struct Chains<'a, A, P> {
    arena: &'a A,
    producers: &'a P,
    tail: CellIndex,
}

impl<A: CellArena, P: Producers> Chains<'_, A, P> {
    /// The cell that belongs behind the chain that begins with `first`.
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

    /// The dead ranks' cells that are in the queue, linked or not.
    fn loose(&self) -> impl Iterator<Item = CellIndex> {
        let dead = (0..self.producers.ranks()).filter(|rank| self.producers.is_dead(*rank));
        dead.filter_map(|rank| self.producers.in_hand(rank)).filter(|cell| {
            let (source, sequence) = self.producers.place(*cell);
            (*cell == self.tail || RecvQueue::is_linked(self.arena, *cell))
                && !self.producers.is_taken(source, sequence)
        })
    }

    /// True when `cell` is in the first chain, or in the chain of another loose cell.
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

    /// True when the chain from `a` may come before the one from `b`: it does not end the queue, and none of its
    /// messages overtakes one of the same source.
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

    /// The cells from `start` on, to the tail or to where the chain breaks off.
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
                // ORDER hand/4: Relaxed. The tail's swaps order the contents (queue/12), the hands the links (hand/3).
                next = self.arena.parse(self.arena.next(cell).load(order("hand/4", Relaxed)));
            }
            Some(Ok(cell))
        })
    }
}
