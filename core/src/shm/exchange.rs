//! Short vectors that the two members of a group exchange through a line in their slot.
//!
//! The line has the vectors of both and the count of those that have come. A member that enters
//! takes the line by an addition, and reads with it whether the other has come. The last one has
//! all of it, and enters the next exchange while it still has the line. A message in each direction
//! takes the time of two lines.
//!
//! There is room for two exchanges, which take turns. A member that enters exchange `n + 2` has
//! seen the other enter exchange `n + 1`, and so knows that the other has read the vector of `n`.
//! Both are on one line, since processors fetch neighbouring lines in pairs.
//!
//! Participants: two members, one thread each. All calls are wait-free. The caller decides how to
//! pass the time until `take` returns a vector.
//! Absent on purpose: a wait, a reset, more than two members.

use crate::golden;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, Step, order, reached};

/// Largest length of a vector in bytes.
pub const EXCHANGE_MAX: usize = size_of::<u64>();

/// The line of a group's exchanges. It has room for two exchanges, each with a vector of both
/// members.
///
/// | offset | size | field     | written by           |
/// |-------:|-----:|-----------|----------------------|
/// |      0 |    8 | `count`   | both members         |
/// |      8 |   16 | `lengths` | each member its half |
/// |     24 |   32 | `words`   | each member its half |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ExchangeLine {
    /// Entries so far, of both members.
    count: AtomicU64,
    /// Length in bytes of the vector of each exchange and member.
    lengths: [[AtomicU32; 2]; 2],
    words: [[AtomicU64; 2]; 2],
}

golden::structure!(ExchangeLine { count, lengths, words });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    const_assert_eq!(offset_of!(ExchangeLine, lengths), 8);
    const_assert_eq!(offset_of!(ExchangeLine, words), 24);
    const_assert_eq!(size_of::<ExchangeLine>(), 64);
};

impl ExchangeLine {
    /// Creates a line that no member has entered. In a segment, zeroed memory has this state.
    #[must_use]
    pub(super) fn empty() -> Self {
        Self {
            count: AtomicU64::new(0),
            lengths: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU32::new(0))),
            words: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// Returns the line to its empty state, by the leader that claims the slot.
    pub(super) fn clear(&self) {
        self.count.store(0, Relaxed);
    }
}

/// One member's view of its group's exchanges: private state.
///
/// ```
/// use strait_core::shm::{BarrierSlot, Exchange};
///
/// let slot = BarrierSlot::empty();
/// let [mut first, mut second] = [0, 1].map(Exchange::new);
/// let mut theirs = [0; 4];
/// assert!(!first.enter(slot.exchange(), b"ping"), "the other member has not entered");
/// assert!(second.enter(slot.exchange(), b"pong"), "it enters last");
/// assert_eq!(first.take(slot.exchange(), &mut theirs), Some(4));
/// assert_eq!(&theirs, b"pong");
/// assert_eq!(second.take(slot.exchange(), &mut theirs), Some(4));
/// assert_eq!(&theirs, b"ping");
/// ```
#[derive(Debug)]
pub struct Exchange {
    place: usize,
    /// Number of exchanges that this member has entered.
    epoch: u64,
}

impl Exchange {
    /// Creates the view of the member in place 0 or 1.
    #[must_use]
    pub const fn new(place: u32) -> Self {
        Self { place: place as usize % 2, epoch: 0 }
    }

    /// Enters the next exchange with this vector, of which the first [`EXCHANGE_MAX`] bytes count.
    /// The previous one is over.
    ///
    /// Returns true if the exchange is over as a result. A member that sleeps while it waits for it
    /// must then be woken.
    #[inline(always)]
    #[must_use]
    pub fn enter(&mut self, line: &ExchangeLine, data: &[u8]) -> bool {
        self.epoch += 1;
        let at = self.epoch as usize % 2;
        let length = data.len().min(EXCHANGE_MAX);
        let mut word = [0; EXCHANGE_MAX];
        word[..length].copy_from_slice(&data[..length]);
        // exchange/1 publishes both.
        line.words[at][self.place].store(u64::from_ne_bytes(word), Relaxed);
        line.lengths[at][self.place].store(length as u32, Relaxed);
        // ORDER exchange/1: Release, pairs with exchange/2: a member that sees the count sees this
        //   member's vector, and knows that it has read the vector of the exchange before.
        let before = line.count.fetch_add(1, order("exchange/1", Release));
        reached(Step::BarrierEntered);
        before + 1 == 2 * self.epoch
    }

    /// Copies the other member's vector to `theirs` if the exchange that this member entered last
    /// is over, and returns the vector's length. Of a longer vector, the first bytes are copied.
    #[inline(always)]
    #[must_use]
    pub fn take(&self, line: &ExchangeLine, theirs: &mut [u8]) -> Option<usize> {
        // ORDER exchange/2: Acquire, pairs with exchange/1: the other member's vector is complete.
        if line.count.load(order("exchange/2", Acquire)) < 2 * self.epoch {
            return None;
        }
        let (at, other) = (self.epoch as usize % 2, 1 - self.place);
        let word = line.words[at][other].load(Relaxed).to_ne_bytes();
        let length = theirs.len().min(EXCHANGE_MAX);
        theirs[..length].copy_from_slice(&word[..length]);
        Some(line.lengths[at][other].load(Relaxed) as usize)
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_every_length_arrive_in_every_exchange() {
        let line = ExchangeLine::empty();
        let mut members = [0, 1].map(Exchange::new);
        let data = |place: usize, length: usize| {
            core::array::from_fn::<u8, EXCHANGE_MAX, _>(|at| (place ^ at ^ length) as u8)
        };
        for length in 0..=EXCHANGE_MAX {
            let order = [[0, 1], [1, 0]][length % 2];
            for (at, place) in order.into_iter().enumerate() {
                let mine = data(place, length);
                assert_eq!(members[place].enter(&line, &mine[..length]), at == 1);
            }
            for (place, member) in members.iter().enumerate() {
                let mut theirs = [0; EXCHANGE_MAX];
                let found = member.take(&line, &mut theirs[..length]);
                assert_eq!(found, Some(length));
                assert_eq!(theirs[..length], data(1 - place, length)[..length]);
            }
        }
    }

    #[test]
    fn a_shorter_vector_says_its_length() {
        let line = ExchangeLine::empty();
        let [mut first, mut second] = [0, 1].map(Exchange::new);
        let _ = first.enter(&line, &[1; 5]);
        let _ = second.enter(&line, &[2; 8]);
        assert_eq!(second.take(&line, &mut [0; 8]), Some(5));
        assert_eq!(first.take(&line, &mut [0; 5]), Some(8));
    }

    #[test]
    fn a_member_alone_sees_no_end() {
        let line = ExchangeLine::empty();
        let mut alone = Exchange::new(1);
        assert!(!alone.enter(&line, &[1]));
        assert_eq!(alone.take(&line, &mut [0]), None);
    }
}
