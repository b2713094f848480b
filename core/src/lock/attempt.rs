//! Test-and-set: taking a lock by compare-and-swap on its one word (`[OneSided04]` §4.3.1).
//!
//! An exclusive lock is taken when the word says that it is free. A shared one also when others share it: each swap expects what
//! the one before found. Who finds the lock held waits, longer each time ([`super::Backoff`]).

use super::{Coding, LockType, Op, State};

/// One member that wants the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Attempt {
    coding: Coding,
    lock_type: LockType,
    place: u32,
    members: u32,
    holders: Holders,
    expected: u64,
}

/// What the word may say while this member waits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Holders {
    /// Only that other members have the lock.
    Others,
    /// Also that the lock is in the other mode.
    OthersOrElsewhere,
    /// Also that this member has the lock: a lock manager takes it in the member's name.
    Any,
}

/// What an access brought.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// The lock is this member's.
    Taken,
    /// Another came in between: the next access may do.
    Again,
    /// Not before somebody gives it back.
    Held(State),
    /// No member can have left this word.
    Corrupt(u64),
}

impl Attempt {
    /// The member in `place`, of `members`, wants a lock that has one word.
    #[inline(always)]
    #[must_use]
    pub const fn new(coding: Coding, lock_type: LockType, place: u32, members: u32) -> Self {
        let (expected, holders) = (coding.word(State::Free), Holders::Others);
        Self { coding, lock_type, place, members, holders, expected }
    }

    /// Makes this the attempt at one of the two words of a hybrid lock. `managed`: a lock manager may take the word in
    /// the name of the same member.
    #[must_use]
    pub(super) const fn of_two_words(self, managed: bool) -> Self {
        let holders = if managed { Holders::Any } else { Holders::OthersOrElsewhere };
        Self { holders, ..self }
    }

    /// The next access to the word.
    #[inline(always)]
    #[must_use]
    pub const fn op(&self) -> Op {
        let state = match (self.lock_type, self.coding.state(self.expected)) {
            (LockType::Exclusive, _) => State::One(self.place),
            (LockType::Shared, State::Sharers(count)) => State::Sharers(count.saturating_add(1)),
            (LockType::Shared, _) => State::Sharers(1),
        };
        Op::CompareAndSwap { expected: self.expected, desired: self.coding.word(state) }
    }

    /// Takes in what the access found.
    #[inline(always)]
    pub fn handle(&mut self, found: u64) -> Outcome {
        if found == self.expected {
            return Outcome::Taken;
        }
        self.expected = self.coding.word(State::Free);
        match (self.lock_type, self.parse(found)) {
            (_, None) => Outcome::Corrupt(found),
            (_, Some(State::Free)) => Outcome::Again,
            (LockType::Shared, Some(State::Sharers(_))) => {
                self.expected = found;
                Outcome::Again
            }
            (_, Some(state)) => Outcome::Held(state),
        }
    }

    const fn parse(&self, found: u64) -> Option<State> {
        match (self.coding.parse(found, self.members), self.holders) {
            (Some(State::Elsewhere(_)), Holders::Others) => None,
            (Some(State::One(place)), Holders::Others | Holders::OthersOrElsewhere)
                if place == self.place =>
            {
                None
            }
            (state, _) => state,
        }
    }

    /// The next access takes the lock over from what the word is known to say and nobody answers for: a member that has died, or the
    /// other mode, left by all.
    pub const fn take_over(&mut self, state: State) {
        self.expected = self.coding.word(state);
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;
    use crate::lock::LockWord;

    const CODINGS: [Coding; 2] = [Coding::Signed, Coding::Ranks { size: 4 }];

    fn take(word: &LockWord, attempt: &mut Attempt) -> Outcome {
        loop {
            let outcome = attempt.handle(word.access(attempt.op()));
            if outcome != Outcome::Again {
                return outcome;
            }
        }
    }

    #[test]
    fn sharers_share_and_one_excludes() {
        use LockType::{Exclusive, Shared};
        for coding in CODINGS {
            let word = LockWord::new(coding.word(State::Free));
            for place in 0..3 {
                let taken = take(&word, &mut Attempt::new(coding, Shared, place, 4));
                assert_eq!(taken, Outcome::Taken);
            }
            let mut one = Attempt::new(coding, Exclusive, 3, 4);
            assert_eq!(take(&word, &mut one), Outcome::Held(State::Sharers(3)));
            for place in 0..3 {
                word.access(coding.release(Shared, place));
            }
            assert_eq!(take(&word, &mut one), Outcome::Taken);
            for lock_type in [Exclusive, Shared] {
                let held = take(&word, &mut Attempt::new(coding, lock_type, 0, 4));
                assert_eq!(held, Outcome::Held(State::One(3)));
            }
        }
    }

    #[test]
    fn a_destroyed_word_is_corrupt_and_not_waited_for() {
        let (coding, place) = (Coding::Signed, 1);
        let states = [State::One(4), State::One(place), State::Sharers(4), State::Elsewhere(3)];
        let words = states.map(|state| coding.word(state));
        for found in words.into_iter().chain([u64::MAX >> 1, 1 << 63 | 1 << 62]) {
            for lock_type in [LockType::Exclusive, LockType::Shared] {
                let outcome = Attempt::new(coding, lock_type, place, 4).handle(found);
                assert_eq!(outcome, Outcome::Corrupt(found), "{found:#x}");
            }
        }
    }

    #[test]
    fn the_lock_of_the_dead_is_taken_by_one() {
        for coding in CODINGS {
            let word = LockWord::new(coding.word(State::One(2)));
            let mut heirs = [0, 1].map(|place| Attempt::new(coding, LockType::Exclusive, place, 4));
            for heir in &mut heirs {
                assert_eq!(take(&word, heir), Outcome::Held(State::One(2)));
                heir.take_over(State::One(2));
            }
            let heirs = heirs.map(|mut heir| take(&word, &mut heir));
            assert_eq!(heirs, [Outcome::Taken, Outcome::Held(State::One(0))]);
        }
    }
}
