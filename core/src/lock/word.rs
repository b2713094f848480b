//! The words of locks, and the operations on them.

use core::convert::Infallible;

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, order};

/// The type of a lock: which other members may hold it at the same time (MPI-4.1 §12.5.3).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LockType {
    /// `MPI_LOCK_SHARED`: other members that share it may hold it too.
    Shared,
    /// `MPI_LOCK_EXCLUSIVE`: no other member may hold it.
    Exclusive,
}

/// One access to a word.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum WordAccess {
    /// Replaces the word if it has the expected value.
    CompareAndSwap {
        /// Expected old value.
        expected: u64,
        /// New value.
        desired: u64,
    },
    /// Adds to the word, with wrap-around.
    FetchAdd(u64),
    /// Replaces the word. Devices cannot do this; see [`super::Mcs::new`].
    Swap(u64),
    /// Reads the word.
    Read,
    /// Writes the word. Used only for words by which one rank notifies another, never for a lock's
    /// own word.
    Write(u64),
}

/// A word that either the processor's atomics or a device's atomics access, never both.
pub trait RemoteWord {
    /// The reason why an access failed.
    type Error;

    /// Performs an access and returns the previous value.
    ///
    /// # Errors
    ///
    /// Fails if the access was not performed, or if its result is unknown.
    fn perform(&self, op: WordAccess) -> Result<u64, Self::Error>;
}

/// A word that processors access. Zeroed memory is a word of value 0.
///
/// ```
/// use strait_core::lock::{Coding, LockState, LockType, LockWord, WordAccess};
///
/// let (word, coding) = (LockWord::new(0), Coding::Signed);
/// let take = WordAccess::CompareAndSwap {
///     expected: coding.word(LockState::Free),
///     desired: coding.word(LockState::One(3)),
/// };
/// assert_eq!(coding.state(word.access(take)), LockState::Free, "member 3 has the lock");
/// assert_eq!(coding.state(word.access(take)), LockState::One(3), "a second attempt fails");
/// word.access(coding.release(LockType::Exclusive, 3));
/// assert_eq!(coding.state(word.access(WordAccess::Read)), LockState::Free);
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LockWord(AtomicU64);

impl LockWord {
    /// Creates a word with this value, for models and tests.
    #[must_use]
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Sets the word before any other member can access it.
    pub fn preset(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Performs an access and returns the previous value (0 for a write).
    #[inline(always)]
    pub fn access(&self, op: WordAccess) -> u64 {
        match op {
            WordAccess::CompareAndSwap { expected, desired } => {
                // ORDER lockword/1: AcqRel.
                // Acquire, pairs with lockword/2, and with itself where a queue is left: what
                //   previous holders did comes first.
                // Release, pairs with itself: where we join a queue, we have emptied our words
                //   before our successor writes them.
                let order = order("lockword/1", AcqRel);
                let found = self.0.compare_exchange(expected, desired, order, Relaxed);
                found.unwrap_or_else(|found| found)
            }
            // ORDER lockword/2: Release, pairs with lockword/1: what we did comes before the next
            //   holder's work. Pairs with lockword/4 of a member that waits until no member shares
            //   the lock.
            WordAccess::FetchAdd(number) => self.0.fetch_add(number, order("lockword/2", Release)),
            // ORDER lockword/3: AcqRel.
            // Acquire, pairs with itself and lockword/1: what the previous holder did comes first,
            //   and our link comes after our predecessor has emptied its own words.
            // Release, pairs with itself: we have emptied our words before our successor writes
            //   them.
            WordAccess::Swap(desired) => self.0.swap(desired, order("lockword/3", AcqRel)),
            // ORDER lockword/4: Acquire, pairs with lockword/2 and lockword/5: what they published
            //   comes first.
            WordAccess::Read => self.0.load(order("lockword/4", Acquire)),
            // ORDER lockword/5: Release, pairs with lockword/4: a flag says that our work is done,
            //   a link that our words are empty.
            WordAccess::Write(value) => {
                self.0.store(value, order("lockword/5", Release));
                0
            }
        }
    }
}

impl RemoteWord for LockWord {
    type Error = Infallible;

    #[inline(always)]
    fn perform(&self, op: WordAccess) -> Result<u64, Infallible> {
        Ok(self.access(op))
    }
}

/// The state that a lock's word expresses.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LockState {
    /// No member has the lock.
    Free,
    /// The member in this place has the lock. Another process wrote the word, so the place need not
    /// exist.
    One(u32),
    /// This number of members share the lock.
    Sharers(u32),
    /// The lock is in the other mode. The number counts its moves to that mode.
    Elsewhere(u64),
}

/// The encoding of the state in a word.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Coding {
    /// 0 means free, n > 0 means that n members share the lock, and -1 - p names the member in
    /// place p. The lowest numbers say that the lock is in network mode.
    ///
    /// In `[OneSided04]` §4.3.1 an exclusive holder is -1, which does not tell which member has
    /// died.
    Signed,
    /// The lower half is the place of the exclusive holder; or the number of members if there is
    /// none; or that number plus one if the lock is in CPU mode (`[HybridLock09]` §4.1).
    ///
    /// The upper half, an addition to the paper, is the number of members that share the lock.
    Ranks {
        /// Number of members.
        size: u32,
    },
}

/// Number of bits of a place.
const PLACES: u32 = 32;

/// A value below that of every place.
const NETWORK: i64 = i64::MIN;

/// Largest number of moves to network mode that a word expresses: nine years of one move per
/// microsecond.
///
/// A word above the limit is known to be destroyed. If all remaining bits counted moves, a
/// destroyed word would pass for a mode.
const TIMES_MAX: u64 = (1 << 48) - 1;

impl Coding {
    /// Returns the word that expresses `state`.
    #[must_use]
    pub const fn word(self, state: LockState) -> u64 {
        match (self, state) {
            (Self::Signed, LockState::Free) => 0,
            (Self::Signed, LockState::One(place)) => (-1 - place as i64).cast_unsigned(),
            (Self::Signed, LockState::Sharers(count)) => count as u64,
            (Self::Signed, LockState::Elsewhere(time)) => {
                (NETWORK + (time & TIMES_MAX).cast_signed()).cast_unsigned()
            }
            (Self::Ranks { size }, LockState::Free) => size as u64,
            (Self::Ranks { .. }, LockState::One(place)) => place as u64,
            (Self::Ranks { size }, LockState::Sharers(count)) => {
                size as u64 | (count as u64) << PLACES
            }
            (Self::Ranks { size }, LockState::Elsewhere(_)) => size as u64 + 1,
        }
    }

    /// Returns the state that `word` expresses. Every word expresses one.
    #[must_use]
    pub const fn state(self, word: u64) -> LockState {
        match self {
            Self::Signed => match word.cast_signed() {
                0 => LockState::Free,
                count @ 1.. => LockState::Sharers(if count > u32::MAX as i64 {
                    u32::MAX
                } else {
                    count as u32
                }),
                one if one >= -1 - u32::MAX as i64 => LockState::One((-1 - one) as u32),
                elsewhere => LockState::Elsewhere((elsewhere - NETWORK).cast_unsigned()),
            },
            Self::Ranks { size } => {
                let (place, count) = (word as u32, (word >> PLACES) as u32);
                match count {
                    0 if place == size => LockState::Free,
                    0 if place == size + 1 => LockState::Elsewhere(0),
                    0 => LockState::One(place),
                    _ => LockState::Sharers(count),
                }
            }
        }
    }

    /// Parses a word that a waiting member has found. Returns `None` if the other members of a
    /// window of `members` cannot have brought its state about.
    #[must_use]
    pub const fn parse(self, word: u64, members: u32) -> Option<LockState> {
        let state = self.state(word);
        let exists = match state {
            LockState::One(place) => place < members,
            // The member that has found the word is not among the sharers.
            LockState::Sharers(count) => count < members,
            LockState::Free | LockState::Elsewhere(_) => true,
        };
        if exists && self.word(state) == word { Some(state) } else { None }
    }

    /// Returns the access by which the member in `place` releases the lock.
    #[inline(always)]
    #[must_use]
    pub const fn release(self, lock_type: LockType, place: u32) -> WordAccess {
        let (free, held) = match lock_type {
            LockType::Exclusive => (LockState::Free, LockState::One(place)),
            LockType::Shared => (LockState::Free, LockState::Sharers(1)),
        };
        WordAccess::FetchAdd(self.word(free).wrapping_sub(self.word(held)))
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_it_was_made_to_say() {
        let states = [
            LockState::Free,
            LockState::One(0),
            LockState::One(6),
            LockState::Sharers(1),
            LockState::Sharers(7),
        ];
        for coding in [Coding::Signed, Coding::Ranks { size: 7 }] {
            for state in states {
                assert_eq!(coding.state(coding.word(state)), state, "{coding:?}");
            }
        }
        let elsewhere = Coding::Signed.word(LockState::Elsewhere(5));
        assert_eq!(Coding::Signed.state(elsewhere), LockState::Elsewhere(5));
        assert_eq!(Coding::Signed.word(LockState::One(0)), u64::MAX, "-1, as in the paper");
        assert_eq!(Coding::Ranks { size: 7 }.state(8), LockState::Elsewhere(0));
    }

    #[test]
    fn a_word_that_no_member_can_have_written_is_not_parsed() {
        for coding in [Coding::Signed, Coding::Ranks { size: 4 }] {
            for state in [LockState::Free, LockState::One(3), LockState::Sharers(3)] {
                assert_eq!(coding.parse(coding.word(state), 4), Some(state));
            }
            for state in [LockState::One(7), LockState::Sharers(4), LockState::Sharers(u32::MAX)] {
                assert_eq!(coding.parse(coding.word(state), 4), None, "{coding:?} {state:?}");
            }
        }
        for elsewhere in [LockState::Elsewhere(9), LockState::Elsewhere(TIMES_MAX)] {
            assert_eq!(Coding::Signed.parse(Coding::Signed.word(elsewhere), 4), Some(elsewhere));
        }
        let one_more_time = Coding::Signed.word(LockState::Elsewhere(TIMES_MAX)) + 1;
        for word in [u64::MAX >> 1, u64::MAX / 3 * 2, 1 << 32, one_more_time] {
            assert_eq!(Coding::Signed.parse(word, 4), None, "{word:#x}");
        }
        for word in [u64::MAX, 1 << 32 | 3, 6] {
            assert_eq!(Coding::Ranks { size: 4 }.parse(word, 4), None, "{word:#x}");
        }
    }

    #[test]
    fn a_release_leaves_the_rest_of_the_word() {
        for coding in [Coding::Signed, Coding::Ranks { size: 9 }] {
            let word = LockWord::new(coding.word(LockState::Sharers(3)));
            word.access(coding.release(LockType::Shared, 4));
            assert_eq!(coding.state(word.access(WordAccess::Read)), LockState::Sharers(2));
            let word = LockWord::new(coding.word(LockState::One(4)));
            word.access(coding.release(LockType::Exclusive, 4));
            assert_eq!(coding.state(word.access(WordAccess::Read)), LockState::Free);
        }
    }
}
