//! Test-and-set: takes a lock by compare-and-swap on its only word (`[OneSided04]` §4.3.1).
//!
//! A member takes an exclusive lock if the word says that it is free. It takes a shared lock also
//! if other members share it: each swap expects the value that the previous one found. A member
//! that finds the lock held waits, longer each time ([`super::LockBackoff`]).

use super::{Coding, LockState, LockType, WordAccess};

/// The state of one member that wants the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Attempt {
    coding: Coding,
    lock_type: LockType,
    place: u32,
    members: u32,
    holders: Holders,
    expected: u64,
}

/// The states in which the word may be while this member waits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Holders {
    /// Other members hold the lock.
    Others,
    /// Other members hold the lock, or the lock is in the other mode.
    OthersOrElsewhere,
    /// Any member holds the lock, including this one, or the lock is in the other mode. A lock
    /// manager may take the lock in this member's name.
    Any,
}

/// The result of an access.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AttemptOutcome {
    /// This member has taken the lock.
    Taken,
    /// Another member changed the word in between. The next access may succeed.
    Again,
    /// The lock is held in this state. This member must wait for a release.
    Held(LockState),
    /// The word has a value that no member can have written.
    Corrupt(u64),
}

impl Attempt {
    /// Creates an attempt of member `place`, of `members`, at a lock that has one word.
    #[inline(always)]
    #[must_use]
    pub const fn new(coding: Coding, lock_type: LockType, place: u32, members: u32) -> Self {
        let (expected, holders) = (coding.word(LockState::Free), Holders::Others);
        Self { coding, lock_type, place, members, holders, expected }
    }

    /// Makes this the attempt at one of the two words of a hybrid lock.
    ///
    /// `managed` says whether a lock manager may take the word in the name of the same member.
    #[must_use]
    pub(super) const fn of_two_words(self, managed: bool) -> Self {
        let holders = if managed { Holders::Any } else { Holders::OthersOrElsewhere };
        Self { holders, ..self }
    }

    /// Returns the next access to the word.
    #[inline(always)]
    #[must_use]
    pub const fn op(&self) -> WordAccess {
        let state = match (self.lock_type, self.coding.state(self.expected)) {
            (LockType::Exclusive, _) => LockState::One(self.place),
            (LockType::Shared, LockState::Sharers(count)) => {
                LockState::Sharers(count.saturating_add(1))
            }
            (LockType::Shared, _) => LockState::Sharers(1),
        };
        WordAccess::CompareAndSwap { expected: self.expected, desired: self.coding.word(state) }
    }

    /// Processes the value that the access found.
    #[inline(always)]
    pub fn handle(&mut self, found: u64) -> AttemptOutcome {
        if found == self.expected {
            return AttemptOutcome::Taken;
        }
        self.expected = self.coding.word(LockState::Free);
        match (self.lock_type, self.parse(found)) {
            (_, None) => AttemptOutcome::Corrupt(found),
            (_, Some(LockState::Free)) => AttemptOutcome::Again,
            (LockType::Shared, Some(LockState::Sharers(_))) => {
                self.expected = found;
                AttemptOutcome::Again
            }
            (_, Some(state)) => AttemptOutcome::Held(state),
        }
    }

    const fn parse(&self, found: u64) -> Option<LockState> {
        match (self.coding.parse(found, self.members), self.holders) {
            (Some(LockState::Elsewhere(_)), Holders::Others) => None,
            (Some(LockState::One(place)), Holders::Others | Holders::OthersOrElsewhere)
                if place == self.place =>
            {
                None
            }
            (state, _) => state,
        }
    }

    /// Makes the next access take the lock over from `state`, for which no living member is
    /// responsible.
    ///
    /// That is the state of a member that has died, or of the other mode after all members have
    /// left it.
    pub const fn take_over(&mut self, state: LockState) {
        self.expected = self.coding.word(state);
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;
    use crate::lock::LockWord;

    const CODINGS: [Coding; 2] = [Coding::Signed, Coding::Ranks { size: 4 }];

    fn take(word: &LockWord, attempt: &mut Attempt) -> AttemptOutcome {
        loop {
            let outcome = attempt.handle(word.access(attempt.op()));
            if outcome != AttemptOutcome::Again {
                return outcome;
            }
        }
    }

    #[test]
    fn sharers_share_and_one_excludes() {
        use LockType::{Exclusive, Shared};
        for coding in CODINGS {
            let word = LockWord::new(coding.word(LockState::Free));
            for place in 0..3 {
                let taken = take(&word, &mut Attempt::new(coding, Shared, place, 4));
                assert_eq!(taken, AttemptOutcome::Taken);
            }
            let mut one = Attempt::new(coding, Exclusive, 3, 4);
            assert_eq!(take(&word, &mut one), AttemptOutcome::Held(LockState::Sharers(3)));
            for place in 0..3 {
                word.access(coding.release(Shared, place));
            }
            assert_eq!(take(&word, &mut one), AttemptOutcome::Taken);
            for lock_type in [Exclusive, Shared] {
                let held = take(&word, &mut Attempt::new(coding, lock_type, 0, 4));
                assert_eq!(held, AttemptOutcome::Held(LockState::One(3)));
            }
        }
    }

    #[test]
    fn a_destroyed_word_is_corrupt_and_not_waited_for() {
        let (coding, place) = (Coding::Signed, 1);
        let states = [
            LockState::One(4),
            LockState::One(place),
            LockState::Sharers(4),
            LockState::Elsewhere(3),
        ];
        let words = states.map(|state| coding.word(state));
        for found in words.into_iter().chain([u64::MAX >> 1, 1 << 63 | 1 << 62]) {
            for lock_type in [LockType::Exclusive, LockType::Shared] {
                let outcome = Attempt::new(coding, lock_type, place, 4).handle(found);
                assert_eq!(outcome, AttemptOutcome::Corrupt(found), "{found:#x}");
            }
        }
    }

    #[test]
    fn one_member_takes_over_the_lock_of_a_dead_one() {
        for coding in CODINGS {
            let word = LockWord::new(coding.word(LockState::One(2)));
            let mut heirs = [0, 1].map(|place| Attempt::new(coding, LockType::Exclusive, place, 4));
            for heir in &mut heirs {
                assert_eq!(take(&word, heir), AttemptOutcome::Held(LockState::One(2)));
                heir.take_over(LockState::One(2));
            }
            let heirs = heirs.map(|mut heir| take(&word, &mut heir));
            assert_eq!(heirs, [AttemptOutcome::Taken, AttemptOutcome::Held(LockState::One(0))]);
        }
    }
}
