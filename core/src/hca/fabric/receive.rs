//! The receives that one rank has posted, shared with the ranks that send to it.
//!
//! The structure is a ring of slots with two counts that only increase, and wrap. The owner posts
//! receives. Under a [`RevocableLock`], senders take slots in the order of their posting. Each
//! sender fills the lent memory in its own time and records the outcome. Then the slot belongs to
//! the owner again.
//!
//! A sender may die in between: the slot records which rank took it, and for which connection.
//! `post`, `complete` and the owner's queries are wait-free.

use crate::lock::RevocableLock;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, order};

/// The two ends of the ring.
///
/// | offset | size | field    | written by |
/// |-------:|-----:|----------|------------|
/// |      0 |    4 | `lock`   | senders    |
/// |      4 |    4 | `posted` | owner      |
/// |      8 |    4 | `taken`  | senders    |
#[derive(Debug)]
#[repr(C)]
pub struct Receives {
    lock: RevocableLock,
    posted: AtomicU32,
    taken: AtomicU32,
}

/// The memory that a posted receive lends: base, length and local key of a piece, as the owner
/// wrote them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReceiveBuffer {
    /// Address of its first byte in the owner's process.
    pub base: u64,
    /// Its length, in bytes.
    pub length: u32,
    /// The local key of its region.
    pub key: u32,
}

impl Receives {
    /// Creates a ring without receives, for models and tests. In a fabric, zeroed memory is that
    /// state.
    #[must_use]
    pub fn none() -> Self {
        Self { lock: RevocableLock::free(), posted: AtomicU32::new(0), taken: AtomicU32::new(0) }
    }

    /// Returns the lock that a sender holds while it takes a receive.
    #[must_use]
    pub const fn lock(&self) -> &RevocableLock {
        &self.lock
    }

    /// Posts the owner's receive `number`, counted from zero, in its slot, which is free. The
    /// number of slots is a power of two.
    pub fn post(&self, slots: &[ReceiveSlot], number: u32, lent: ReceiveBuffer) {
        slots[number as usize % slots.len()].lend(lent);
        // ORDER receive/1: Release, pairs with receive/2: the slot says what is lent.
        // Without it a sender fills the memory that an earlier receive lent.
        self.posted.store(number.wrapping_add(1), order("receive/1", Release));
    }

    /// Takes the receive that was posted first, for a message on the owner's `connection`. Returns
    /// the index of its slot and what it lends. The caller is rank `by` and holds the lock.
    ///
    /// A sender that died between its two stores left a slot that is already taken; such a slot is
    /// skipped.
    pub fn take(
        &self,
        slots: &[ReceiveSlot],
        by: u32,
        connection: u32,
    ) -> Option<(usize, ReceiveBuffer)> {
        // ORDER receive/2: Acquire, pairs with receive/1.
        let posted = self.posted.load(order("receive/2", Acquire));
        for _ in 0..slots.len() {
            // ORDER receive/3: Relaxed, under the lock.
            let taken = self.taken.load(order("receive/3", Relaxed));
            if taken == posted {
                return None;
            }
            let at = taken as usize % slots.len();
            let lent = slots[at].take(by, connection);
            // ORDER receive/4: Relaxed, under the lock.
            self.taken.store(taken.wrapping_add(1), order("receive/4", Relaxed));
            if let Some(lent) = lent {
                return Some((at, lent));
            }
        }
        None
    }
}

/// One posted receive. The taker is the sender that took it.
///
/// | offset | size | field        | written by   |
/// |-------:|-----:|--------------|--------------|
/// |      0 |    8 | `state`      | owner, taker |
/// |      8 |    8 | `base`       | owner        |
/// |     16 |    8 | `words`      | owner, taker |
/// |     24 |    4 | `outcome`    | taker        |
/// |     28 |    4 | `connection` | taker        |
#[derive(Debug)]
#[repr(C)]
pub struct ReceiveSlot {
    /// The use of the slot. The upper half holds the rank that took it.
    state: AtomicU64,
    base: AtomicU64,
    /// Length and local key of the piece; after completion, length and immediate of the message.
    words: [AtomicU32; 2],
    /// The outcome of the receive.
    outcome: AtomicU32,
    /// The owner's end of the connection that the message came by.
    connection: AtomicU32,
}

const FREE: u64 = 0;
const POSTED: u64 = 1;
const TAKEN: u64 = 2;
const DONE: u64 = 3;

/// The use of a slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// The slot is empty and belongs to the owner.
    Free,
    /// The slot waits for a message.
    Posted,
    /// A message of this rank is in flight.
    Taken {
        /// The rank.
        by: u32,
    },
    /// A message has arrived or failed; the slot belongs to the owner again.
    Done,
}

/// The outcome of a receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum ReceiveResult {
    /// A message is in the lent memory.
    Message,
    /// A write brought an immediate value.
    Immediate,
    /// The message did not fit.
    TooLong,
    /// The lent memory is not in a region that permits writes.
    BadPiece,
    /// The message was cut off.
    Cut,
}

impl ReceiveSlot {
    /// Creates a free slot, for models and tests. In a fabric, zeroed memory is a free slot.
    #[must_use]
    pub fn free() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            base: AtomicU64::new(0),
            words: [AtomicU32::new(0), AtomicU32::new(0)],
            outcome: AtomicU32::new(0),
            connection: AtomicU32::new(0),
        }
    }

    fn lend(&self, lent: ReceiveBuffer) {
        // ORDER receive/5: Relaxed. receive/1 publishes all of it.
        let relaxed = order("receive/5", Relaxed);
        self.base.store(lent.base, relaxed);
        self.words[0].store(lent.length, relaxed);
        self.words[1].store(lent.key, relaxed);
        self.state.store(POSTED, relaxed);
    }

    fn take(&self, by: u32, connection: u32) -> Option<ReceiveBuffer> {
        // ORDER receive/6: Relaxed, after receive/2 and under the lock.
        let relaxed = order("receive/6", Relaxed);
        if self.state.load(relaxed) != POSTED {
            return None;
        }
        let lent = ReceiveBuffer {
            base: self.base.load(relaxed),
            length: self.words[0].load(relaxed),
            key: self.words[1].load(relaxed),
        };
        self.connection.store(connection, relaxed);
        // The owner reads the connection of a slot that is merely taken only if the taker is dead.
        // The taker's stores are then in memory.
        self.state.store(u64::from(by) << 32 | TAKEN, relaxed);
        Some(lent)
    }

    /// Records the outcome of the receive, with length and immediate of the message if it has them.
    /// Only the taker calls it, once.
    pub fn complete(&self, arrival: ReceiveResult, length: u32, immediate: u32) {
        // ORDER receive/7: Relaxed. receive/8 publishes them.
        let relaxed = order("receive/7", Relaxed);
        self.words[0].store(length, relaxed);
        self.words[1].store(immediate, relaxed);
        self.outcome.store(arrival as u32, relaxed);
        // ORDER receive/8: Release, pairs with receive/9: the message and its description are
        // complete.
        // Without it the owner reads a message that is still arriving.
        self.state.store(DONE, order("receive/8", Release));
    }

    /// Returns the use of the slot.
    #[must_use]
    pub fn state(&self) -> Use {
        // ORDER receive/9: Acquire, pairs with receive/8.
        let word = self.state.load(order("receive/9", Acquire));
        match word & u64::from(u32::MAX) {
            POSTED => Use::Posted,
            TAKEN => Use::Taken { by: (word >> 32) as u32 },
            DONE => Use::Done,
            _ => Use::Free,
        }
    }

    /// Returns the owner's connection for which the slot was taken, as the taker wrote it. It is
    /// valid for a slot that is done, or that a dead rank took.
    #[must_use]
    pub fn connection(&self) -> u32 {
        // ORDER receive/10: Relaxed, after receive/9.
        self.connection.load(order("receive/10", Relaxed))
    }

    /// Returns the outcome, the length in bytes and the immediate, or `None` for an outcome that no
    /// device writes. It is valid for a slot that is done.
    #[must_use]
    pub fn outcome(&self) -> Option<(ReceiveResult, u32, u32)> {
        // ORDER receive/11: Relaxed, after receive/9.
        let relaxed = order("receive/11", Relaxed);
        let arrival = match self.outcome.load(relaxed) {
            0 => ReceiveResult::Message,
            1 => ReceiveResult::Immediate,
            2 => ReceiveResult::TooLong,
            3 => ReceiveResult::BadPiece,
            4 => ReceiveResult::Cut,
            _ => return None,
        };
        Some((arrival, self.words[0].load(relaxed), self.words[1].load(relaxed)))
    }

    /// Returns the slot to the owner after its receive is complete.
    pub fn take_back(&self) {
        // ORDER receive/12: Relaxed. Only the owner reads the slot before receive/1.
        self.state.store(FREE, order("receive/12", Relaxed));
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    /// A sender died between its two stores: the slot is taken, but the count does not include it.
    #[test]
    fn the_slot_of_a_dead_sender_is_passed_over() {
        let (receives, slots) = (Receives::none(), [ReceiveSlot::free(), ReceiveSlot::free()]);
        let lent = |base| ReceiveBuffer { base, length: 8, key: 1 };
        receives.post(&slots, 0, lent(64));
        receives.post(&slots, 1, lent(128));
        assert_eq!(slots[0].take(5, 9), Some(lent(64)));
        assert_eq!(receives.take(&slots, 6, 3), Some((1, lent(128))));
        assert_eq!((slots[0].state(), slots[0].connection()), (Use::Taken { by: 5 }, 9));
        assert_eq!((slots[1].state(), slots[1].connection()), (Use::Taken { by: 6 }, 3));
        assert_eq!(receives.take(&slots, 6, 3), None);
    }

    /// Counts wrap, and slots are reused.
    #[test]
    fn the_ring_goes_round() {
        let (receives, slots) = (Receives::none(), [ReceiveSlot::free(), ReceiveSlot::free()]);
        for number in 0..10 {
            let lent = ReceiveBuffer { base: number.into(), length: number, key: number };
            receives.post(&slots, number, lent);
            assert_eq!(receives.take(&slots, 1, 2), Some((number as usize % 2, lent)));
            let slot = &slots[number as usize % 2];
            slot.complete(ReceiveResult::Immediate, 3, number);
            assert_eq!(slot.outcome(), Some((ReceiveResult::Immediate, 3, number)));
            slot.take_back();
            assert_eq!(slot.state(), Use::Free);
        }
    }
}
