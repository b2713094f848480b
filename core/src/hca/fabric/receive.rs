//! The receives that one rank has posted, for whoever sends to it.
//!
//! A ring of slots, and two counts that only grow, and wrap. The owner posts. Senders take slots in the order of their posting,
//! under a [`Lock`], fill what was lent, each in its own time, and say how it ended; then the slot is the owner's again.
//!
//! A sender may die in between: the slot says who took it, and for which connection. `post`, `complete` and what the owner asks
//! are wait-free.

use crate::lock::Lock;
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
    lock: Lock,
    posted: AtomicU32,
    taken: AtomicU32,
}

/// What a posted receive lends: base, length and local key of a piece, as the owner wrote them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lent {
    /// Where it begins, in the owner's process.
    pub base: u64,
    /// How long it is, bytes.
    pub length: u32,
    /// The local key of its region.
    pub key: u32,
}

impl Receives {
    /// No receives, for models and tests: in a fabric, zeroed memory is already this.
    #[must_use]
    pub fn none() -> Self {
        Self { lock: Lock::free(), posted: AtomicU32::new(0), taken: AtomicU32::new(0) }
    }

    /// Held by who takes a receive.
    #[must_use]
    pub const fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Posts the owner's receive `number`, counted from zero, in its slot, which is free. The number of slots is a power of two.
    pub fn post(&self, slots: &[Slot], number: u32, lent: Lent) {
        slots[number as usize % slots.len()].lend(lent);
        // ORDER receive/1: Release, pairs with receive/2: the slot says what is lent. Without it a sender fills what an earlier
        //   receive had lent.
        self.posted.store(number.wrapping_add(1), order("receive/1", Release));
    }

    /// Takes the receive that was posted first, for a message on the owner's `connection`: its slot, and what it lends. A sender
    /// that died between its two stores left a slot that is taken already. Under the lock, by the rank `by`.
    pub fn take(&self, slots: &[Slot], by: u32, connection: u32) -> Option<(usize, Lent)> {
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

/// One posted receive.
///
/// | offset | size | field        | written by                |
/// |-------:|-----:|--------------|---------------------------|
/// |      0 |    8 | `state`      | owner, who took it        |
/// |      8 |    8 | `base`       | owner                     |
/// |     16 |    8 | `words`      | owner, who took it        |
/// |     24 |    4 | `outcome`    | who took it               |
/// |     28 |    4 | `connection` | who took it               |
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// What the slot is for; in the upper half who took it.
    state: AtomicU64,
    base: AtomicU64,
    /// Length and local key of the piece; afterwards length and immediate of the message.
    words: [AtomicU32; 2],
    /// How it ended.
    outcome: AtomicU32,
    /// The owner's end of the connection it came by.
    connection: AtomicU32,
}

const FREE: u64 = 0;
const POSTED: u64 = 1;
const TAKEN: u64 = 2;
const DONE: u64 = 3;

/// What a slot is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// Nothing: it is the owner's.
    Free,
    /// A message.
    Posted,
    /// The message of this rank, which is under way.
    Taken {
        /// The rank.
        by: u32,
    },
    /// A message that is there, or failed; the owner's again.
    Done,
}

/// How a receive ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Arrival {
    /// With a message in what was lent.
    Message,
    /// With a number that a write brought.
    Immediate,
    /// The message did not fit.
    TooLong,
    /// What was lent is in no region that may be written.
    BadPiece,
    /// The message broke off.
    Cut,
}

impl Slot {
    /// A free slot, for models and tests: in a fabric, zeroed memory is already one.
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

    fn lend(&self, lent: Lent) {
        // ORDER receive/5: Relaxed. receive/1 publishes all of it.
        let relaxed = order("receive/5", Relaxed);
        self.base.store(lent.base, relaxed);
        self.words[0].store(lent.length, relaxed);
        self.words[1].store(lent.key, relaxed);
        self.state.store(POSTED, relaxed);
    }

    fn take(&self, by: u32, connection: u32) -> Option<Lent> {
        // ORDER receive/6: Relaxed, after receive/2 and under the lock.
        let relaxed = order("receive/6", Relaxed);
        if self.state.load(relaxed) != POSTED {
            return None;
        }
        let lent = Lent {
            base: self.base.load(relaxed),
            length: self.words[0].load(relaxed),
            key: self.words[1].load(relaxed),
        };
        self.connection.store(connection, relaxed);
        // The owner asks for the connection of what is only taken when the taker is dead, and its stores are in memory.
        self.state.store(u64::from(by) << 32 | TAKEN, relaxed);
        Some(lent)
    }

    /// Says how the receive ended: length and immediate of the message, where it has them. By who took it, once.
    pub fn complete(&self, arrival: Arrival, length: u32, immediate: u32) {
        // ORDER receive/7: Relaxed. receive/8 publishes them.
        let relaxed = order("receive/7", Relaxed);
        self.words[0].store(length, relaxed);
        self.words[1].store(immediate, relaxed);
        self.outcome.store(arrival as u32, relaxed);
        // ORDER receive/8: Release, pairs with receive/9: the message is there, and what is said of it. Without it the owner reads
        //   a message that is still landing.
        self.state.store(DONE, order("receive/8", Release));
    }

    /// What it is for.
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

    /// The owner's connection by which it was taken, as the taker wrote it. Of what is done, or was taken by who is dead.
    #[must_use]
    pub fn connection(&self) -> u32 {
        // ORDER receive/10: Relaxed, after receive/9.
        self.connection.load(order("receive/10", Relaxed))
    }

    /// How it ended, length and immediate. `None` for what no device writes. Of what is done.
    #[must_use]
    pub fn outcome(&self) -> Option<(Arrival, u32, u32)> {
        // ORDER receive/11: Relaxed, after receive/9.
        let relaxed = order("receive/11", Relaxed);
        let arrival = match self.outcome.load(relaxed) {
            0 => Arrival::Message,
            1 => Arrival::Immediate,
            2 => Arrival::TooLong,
            3 => Arrival::BadPiece,
            4 => Arrival::Cut,
            _ => return None,
        };
        Some((arrival, self.words[0].load(relaxed), self.words[1].load(relaxed)))
    }

    /// Takes the slot back, when its receive is over.
    pub fn take_back(&self) {
        // ORDER receive/12: Relaxed. Nobody but the owner looks before receive/1.
        self.state.store(FREE, order("receive/12", Relaxed));
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    /// Between its two stores: the slot is taken, and the count says that it is not.
    #[test]
    fn the_slot_of_a_dead_sender_is_passed_over() {
        let (receives, slots) = (Receives::none(), [Slot::free(), Slot::free()]);
        let lent = |base| Lent { base, length: 8, key: 1 };
        receives.post(&slots, 0, lent(64));
        receives.post(&slots, 1, lent(128));
        assert_eq!(slots[0].take(5, 9), Some(lent(64)));
        assert_eq!(receives.take(&slots, 6, 3), Some((1, lent(128))));
        assert_eq!((slots[0].state(), slots[0].connection()), (Use::Taken { by: 5 }, 9));
        assert_eq!((slots[1].state(), slots[1].connection()), (Use::Taken { by: 6 }, 3));
        assert_eq!(receives.take(&slots, 6, 3), None);
    }

    /// Counts wrap, and slots are used again.
    #[test]
    fn the_ring_goes_round() {
        let (receives, slots) = (Receives::none(), [Slot::free(), Slot::free()]);
        for number in 0..10 {
            let lent = Lent { base: number.into(), length: number, key: number };
            receives.post(&slots, number, lent);
            assert_eq!(receives.take(&slots, 1, 2), Some((number as usize % 2, lent)));
            let slot = &slots[number as usize % 2];
            slot.complete(Arrival::Immediate, 3, number);
            assert_eq!(slot.outcome(), Some((Arrival::Immediate, 3, number)));
            slot.take_back();
            assert_eq!(slot.state(), Use::Free);
        }
    }
}
