//! Words that locks are made of, and what is done to them.

use core::convert::Infallible;

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, order};

/// Who else may hold a lock meanwhile (MPI-4.1 §12.5.3).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LockType {
    /// Others that share it: `MPI_LOCK_SHARED`.
    Shared,
    /// Nobody: `MPI_LOCK_EXCLUSIVE`.
    Exclusive,
}

/// One access to a word.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Op {
    /// Replaces it if it is as expected.
    CompareAndSwap {
        /// What has to be there.
        expected: u64,
        /// What shall be there.
        desired: u64,
    },
    /// Adds to it, wrapping.
    FetchAdd(u64),
    /// Replaces it. Devices cannot; see [`super::Mcs::new`].
    Swap(u64),
    /// Reads it.
    Read,
    /// Writes it. Never a lock's own word, only what one rank tells another.
    Write(u64),
}

/// A word that may be reached by atomics of the processor or of a device. Never by both.
pub trait RemoteWord {
    /// Why it is not reached.
    type Error;

    /// Makes an access, and gives what was there before.
    ///
    /// # Errors
    ///
    /// It was not made, or nobody knows.
    fn perform(&self, op: Op) -> Result<u64, Self::Error>;
}

/// A word that processors reach. Zeroed memory is one.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LockWord(AtomicU64);

impl LockWord {
    /// A word with this value, for models and tests.
    #[must_use]
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Sets the word before anybody else knows of it.
    pub fn preset(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Makes an access, and gives what was there before.
    #[inline(always)]
    pub fn access(&self, op: Op) -> u64 {
        match op {
            Op::CompareAndSwap { expected, desired } => {
                // ORDER lockword/1: AcqRel.
                // Acquire, pairs with lockword/2, and with itself where a queue gives its lock back: what the holders before us did
                //   comes first.
                // Release, pairs with itself and lockword/3: what we did comes before whoever finds the queue empty.
                let order = order("lockword/1", AcqRel);
                let found = self.0.compare_exchange(expected, desired, order, Relaxed);
                found.unwrap_or_else(|found| found)
            }
            // ORDER lockword/2: Release, pairs with lockword/1, and with lockword/4 of who waits until nobody shares the lock.
            Op::FetchAdd(number) => self.0.fetch_add(number, order("lockword/2", Release)),
            // ORDER lockword/3: AcqRel.
            // Acquire, pairs with itself and lockword/1: what the holder before us did comes first, and our link comes after the
            //   rank before us has emptied its own.
            // Release, pairs with itself: we have emptied our words before the rank behind us writes them.
            Op::Swap(desired) => self.0.swap(desired, order("lockword/3", AcqRel)),
            // ORDER lockword/4: Acquire, pairs with lockword/2 and lockword/5.
            Op::Read => self.0.load(order("lockword/4", Acquire)),
            // ORDER lockword/5: Release, pairs with lockword/4: a flag says that what we did is done, a link that our words are empty.
            Op::Write(value) => {
                self.0.store(value, order("lockword/5", Release));
                0
            }
        }
    }
}

impl RemoteWord for LockWord {
    type Error = Infallible;

    #[inline(always)]
    fn perform(&self, op: Op) -> Result<u64, Infallible> {
        Ok(self.access(op))
    }
}

/// What a lock's word says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// Nobody has the lock.
    Free,
    /// The member in this place has it. Somebody wrote that, so the place need not exist.
    One(u32),
    /// So many share it.
    Sharers(u32),
    /// It is not here that the lock is had now: it is in the other mode, for the so-and-so-manieth time.
    Elsewhere(u64),
}

/// How a word says it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Coding {
    /// 0 is free, n are n that share it, -1 - p is the member in place p (`[OneSided04]` §4.3.1, where it is -1, and nobody can tell
    /// who has died). The lowest numbers say that the lock is in network mode.
    Signed,
    /// The place of who has it, or the number of members when it is free, and one more when it is in CPU mode (`[HybridLock09]`
    /// §4.1); ours: in the upper half, how many share it.
    Ranks {
        /// Members.
        size: u32,
    },
}

/// Bits of places.
const PLACES: u32 = 32;

/// Less than any place can make it.
const NETWORK: i64 = i64::MIN;

/// The highest number of moves to network mode that a word names: nine years of one each microsecond. A word above it
/// is thus known to be destroyed, while a number of all bits that are left would pass for a mode.
const TIMES_MAX: u64 = (1 << 48) - 1;

impl Coding {
    /// The word that says so.
    #[must_use]
    pub const fn word(self, state: State) -> u64 {
        match (self, state) {
            (Self::Signed, State::Free) => 0,
            (Self::Signed, State::One(place)) => (-1 - place as i64).cast_unsigned(),
            (Self::Signed, State::Sharers(count)) => count as u64,
            (Self::Signed, State::Elsewhere(time)) => {
                (NETWORK + (time & TIMES_MAX).cast_signed()).cast_unsigned()
            }
            (Self::Ranks { size }, State::Free) => size as u64,
            (Self::Ranks { .. }, State::One(place)) => place as u64,
            (Self::Ranks { size }, State::Sharers(count)) => size as u64 | (count as u64) << PLACES,
            (Self::Ranks { size }, State::Elsewhere(_)) => size as u64 + 1,
        }
    }

    /// What a word says. Any word says something.
    #[must_use]
    pub const fn state(self, word: u64) -> State {
        match self {
            Self::Signed => match word.cast_signed() {
                0 => State::Free,
                count @ 1.. => {
                    State::Sharers(if count > u32::MAX as i64 { u32::MAX } else { count as u32 })
                }
                one if one >= -1 - u32::MAX as i64 => State::One((-1 - one) as u32),
                elsewhere => State::Elsewhere((elsewhere - NETWORK).cast_unsigned()),
            },
            Self::Ranks { size } => {
                let (place, count) = (word as u32, (word >> PLACES) as u32);
                match count {
                    0 if place == size => State::Free,
                    0 if place == size + 1 => State::Elsewhere(0),
                    0 => State::One(place),
                    _ => State::Sharers(count),
                }
            }
        }
    }

    /// Parses a word that a member which waits for the lock has found. `None`: no state that the other members of a
    /// window of `members` can have brought about.
    #[must_use]
    pub const fn parse(self, word: u64, members: u32) -> Option<State> {
        let state = self.state(word);
        let exists = match state {
            State::One(place) => place < members,
            // The member that has found the word is not among them.
            State::Sharers(count) => count < members,
            State::Free | State::Elsewhere(_) => true,
        };
        if exists && self.word(state) == word { Some(state) } else { None }
    }

    /// What the member in `place` does to give back what it has.
    #[inline(always)]
    #[must_use]
    pub const fn release(self, lock_type: LockType, place: u32) -> Op {
        let (free, held) = match lock_type {
            LockType::Exclusive => (State::Free, State::One(place)),
            LockType::Shared => (State::Free, State::Sharers(1)),
        };
        Op::FetchAdd(self.word(free).wrapping_sub(self.word(held)))
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_it_was_made_to_say() {
        let states =
            [State::Free, State::One(0), State::One(6), State::Sharers(1), State::Sharers(7)];
        for coding in [Coding::Signed, Coding::Ranks { size: 7 }] {
            for state in states {
                assert_eq!(coding.state(coding.word(state)), state, "{coding:?}");
            }
        }
        let elsewhere = Coding::Signed.word(State::Elsewhere(5));
        assert_eq!(Coding::Signed.state(elsewhere), State::Elsewhere(5));
        assert_eq!(Coding::Signed.word(State::One(0)), u64::MAX, "-1, as in the paper");
        assert_eq!(Coding::Ranks { size: 7 }.state(8), State::Elsewhere(0));
    }

    #[test]
    fn a_word_that_no_member_can_have_written_is_not_parsed() {
        for coding in [Coding::Signed, Coding::Ranks { size: 4 }] {
            for state in [State::Free, State::One(3), State::Sharers(3)] {
                assert_eq!(coding.parse(coding.word(state), 4), Some(state));
            }
            for state in [State::One(7), State::Sharers(4), State::Sharers(u32::MAX)] {
                assert_eq!(coding.parse(coding.word(state), 4), None, "{coding:?} {state:?}");
            }
        }
        for elsewhere in [State::Elsewhere(9), State::Elsewhere(TIMES_MAX)] {
            assert_eq!(Coding::Signed.parse(Coding::Signed.word(elsewhere), 4), Some(elsewhere));
        }
        let one_more_time = Coding::Signed.word(State::Elsewhere(TIMES_MAX)) + 1;
        for word in [u64::MAX >> 1, u64::MAX / 3 * 2, 1 << 32, one_more_time] {
            assert_eq!(Coding::Signed.parse(word, 4), None, "{word:#x}");
        }
        for word in [u64::MAX, 1 << 32 | 3, 6] {
            assert_eq!(Coding::Ranks { size: 4 }.parse(word, 4), None, "{word:#x}");
        }
    }

    #[test]
    fn what_is_given_back_leaves_the_rest() {
        for coding in [Coding::Signed, Coding::Ranks { size: 9 }] {
            let word = LockWord::new(coding.word(State::Sharers(3)));
            word.access(coding.release(LockType::Shared, 4));
            assert_eq!(coding.state(word.access(Op::Read)), State::Sharers(2));
            let word = LockWord::new(coding.word(State::One(4)));
            word.access(coding.release(LockType::Exclusive, 4));
            assert_eq!(coding.state(word.access(Op::Read)), State::Free);
        }
    }
}
