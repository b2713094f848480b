//! The queue lock of Mellor-Crummey and Scott (`[OneSided04]` §4.3.2).
//!
//! The lock's word names the last member in the queue. A member that wants the lock swaps its own
//! place in and tells its predecessor that it is next. Then it waits for its own *flag*, which the
//! predecessor sets when it releases the lock. Each member thus polls its own memory. A device has
//! no swap; there the swap is made of compare-and-swaps.
//!
//! Shared locks are an addition to the algorithm. A word beside the lock counts the members that
//! share it. A member that wants to share waits in the queue, counts itself, and lets the next
//! member in at once. A member that wants the lock exclusively stays at the head of the queue until
//! the count is zero.
//!
//! A queue does not survive the death of a member in it: the dead member's successor cannot know
//! which notifications it had received. A member that notices a death therefore *breaks* the lock
//! permanently. All members that wait for the lock or come later learn of it.
//!
//! A member that finds a value in a word that no member can have written *spoils* the lock in the
//! same way.
//!
//! To break or spoil the lock, a member marks the lock's word, so that later members learn of it.
//! It then marks the flags of all members, so that the waiting ones learn of it. A member empties
//! its flag before it joins the queue. So each member that joined before the mark keeps its marked
//! flag, and each later one finds the mark in the word.
//!
//! The mark in the lock's word must not be lost. A member that joins by compare-and-swap does not
//! replace it. A member that joins by a swap does, and may die before it marks the word again. So
//! where the word can be swapped, each member that learns of the mark marks the word and all flags
//! again before it leaves. Each member behind it has joined before that, and keeps its marked flag.

use super::{LockType, WordAccess};

/// The words of the lock. The first two belong to the target; flag and next belong to the member in
/// that place.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum McsWord {
    /// Name of the last member in the queue.
    Lock,
    /// Number of members that share the lock.
    Sharers,
    /// Flag of that member: set when it is at the head of the queue.
    Flag(u32),
    /// Name of the member behind that member.
    Next(u32),
}

/// The next step of a member.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum McsStep {
    /// Access a word and pass on the value found.
    Access(McsWord, WordAccess),
    /// Wait, for the member in this place if one is given, and then continue.
    Wait(Option<u32>),
    /// The member has the lock, or has released it.
    Done,
    /// The lock is permanently broken.
    Broken,
    /// The lock is permanently spoilt: a word holds this value, which no member can have written.
    Corrupt(u64),
}

const EMPTY: u64 = 0;
const GO: u64 = 1;
const BROKEN: u64 = u64::MAX;
/// Mark of a spoilt lock, in its word and in flags.
const SPOILT: u64 = u64::MAX - 1;

/// Returns the name by which words refer to the member in `place`.
const fn name(place: u32) -> u64 {
    place as u64 + 1
}

/// Parses the name of a member other than `own`. Returns `None` if `name` is not the name of such a
/// member.
const fn other(name: u64, own: u32, members: u32) -> Option<u32> {
    if name == EMPTY || name > members as u64 || name - 1 == own as u64 {
        return None;
    }
    Some((name - 1) as u32)
}

/// The steps that end the use of a lock permanently: they mark its word and the flags of all
/// members.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Closing {
    /// The value that no member can have written; `None` if a member has died.
    found: Option<u64>,
    swap: Swap,
    /// The member that is marked next; `None` until the lock's word is marked.
    next: Option<u32>,
}

impl Closing {
    const fn new(found: Option<u64>, native_swap: bool) -> Self {
        let swap = Swap { native: native_swap, expected: EMPTY };
        Self { found, swap, next: None }
    }

    /// Closes the lock because of the value `found` in a word, which may be the mark of another
    /// member.
    const fn because_of(found: u64, native_swap: bool) -> Self {
        Self::new(if found == BROKEN { None } else { Some(found) }, native_swap)
    }

    const fn access(&self) -> (McsWord, WordAccess) {
        let mark = if self.found.is_none() { BROKEN } else { SPOILT };
        match self.next {
            None => (McsWord::Lock, self.swap.op(mark)),
            Some(member) => (McsWord::Flag(member), WordAccess::Write(mark)),
        }
    }

    const fn outcome(&self) -> McsStep {
        match self.found {
            None => McsStep::Broken,
            Some(found) => McsStep::Corrupt(found),
        }
    }

    /// Processes the value that an access found, and skips members that have died. Returns true if
    /// all marks are set.
    fn handle(&mut self, found: u64, members: u32, is_gone: impl Fn(u32) -> bool) -> bool {
        let from = match self.next {
            None if !self.swap.handle(found) => return false,
            None => 0,
            Some(member) => member + 1,
        };
        self.next = (from..members).find(|member| !is_gone(*member));
        self.next.is_none()
    }
}

/// The state of one member that wants the lock.
///
/// ```
/// use strait_core::lock::{LockType, LockWord, Mcs, McsStep, McsWord};
///
/// let [lock, sharers, flag, next] = [0; 4].map(LockWord::new);
/// let mut member = Mcs::new(LockType::Exclusive, 0, 1, true);
/// while let McsStep::Access(word, access) = member.step() {
///     let word = match word {
///         McsWord::Lock => &lock,
///         McsWord::Sharers => &sharers,
///         McsWord::Flag(_) => &flag,
///         McsWord::Next(_) => &next,
///     };
///     member.handle(word.access(access), |_member| false);
/// }
/// assert_eq!(member.step(), McsStep::Done, "the member has the lock");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Mcs {
    lock_type: LockType,
    place: u32,
    members: u32,
    swap: Swap,
    at: McsState,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum McsState {
    EmptyingFlag,
    EmptyingNext,
    Joining,
    Linking(u32),
    LookingAtFlag(u32),
    WaitingForFlag(u32),
    LookingWhetherBroken(u32),
    LookingAtSharers,
    WaitingForSharers,
    Counting,
    LettingIn(McsRelease),
    Closing(Closing),
    Done,
    Closed(Closing),
}

/// A swap of the lock's word, by the processor or by compare-and-swap.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Swap {
    native: bool,
    expected: u64,
}

impl Swap {
    const fn op(self, desired: u64) -> WordAccess {
        match self.native {
            true => WordAccess::Swap(desired),
            false => WordAccess::CompareAndSwap { expected: self.expected, desired },
        }
    }

    /// Processes the value found. Returns true if the swap has happened.
    const fn handle(&mut self, found: u64) -> bool {
        let done = self.native || found == self.expected;
        self.expected = found;
        done
    }
}

impl Mcs {
    /// Creates the state of member `place`, of `members`, which wants the lock. `native_swap` says
    /// whether the lock's word can be swapped.
    #[must_use]
    pub const fn new(lock_type: LockType, place: u32, members: u32, native_swap: bool) -> Self {
        let swap = Swap { native: native_swap, expected: EMPTY };
        Self { lock_type, place, members, swap, at: McsState::EmptyingFlag }
    }

    /// Returns the next step.
    #[must_use]
    pub const fn step(&self) -> McsStep {
        let own = self.place;
        let (word, op) = match self.at {
            McsState::EmptyingFlag => (McsWord::Flag(own), WordAccess::Write(EMPTY)),
            McsState::EmptyingNext => (McsWord::Next(own), WordAccess::Write(EMPTY)),
            McsState::Joining => (McsWord::Lock, self.swap.op(name(own))),
            McsState::Linking(before) => (McsWord::Next(before), WordAccess::Write(name(own))),
            McsState::LookingAtFlag(_) => (McsWord::Flag(own), WordAccess::Read),
            McsState::LookingWhetherBroken(_) => (McsWord::Lock, WordAccess::Read),
            McsState::LookingAtSharers => (McsWord::Sharers, WordAccess::Read),
            McsState::Counting => (McsWord::Sharers, WordAccess::FetchAdd(1)),
            McsState::WaitingForFlag(before) => return McsStep::Wait(Some(before)),
            McsState::WaitingForSharers => return McsStep::Wait(None),
            McsState::LettingIn(release) => return release.step(),
            McsState::Closing(closing) => closing.access(),
            McsState::Done => return McsStep::Done,
            McsState::Closed(closing) => return closing.outcome(),
        };
        McsStep::Access(word, op)
    }

    /// Processes the value that the access found. `is_gone` says which members have died.
    pub fn handle(&mut self, found: u64, is_gone: impl Fn(u32) -> bool) {
        self.at = match self.at {
            McsState::EmptyingFlag => McsState::EmptyingNext,
            McsState::EmptyingNext => McsState::Joining,
            // The mark stays, and no member stands behind this one.
            McsState::Joining if !self.swap.native && matches!(found, BROKEN | SPOILT) => {
                self.closed(found)
            }
            McsState::Joining if !self.swap.handle(found) => McsState::Joining,
            McsState::Joining => match found {
                EMPTY => self.first(),
                before => match other(before, self.place, self.members) {
                    Some(before) => McsState::Linking(before),
                    // This member gave up an earlier attempt because of a death.
                    None if before == name(self.place) && (0..self.members).any(is_gone) => {
                        self.close(BROKEN)
                    }
                    None => self.close(before),
                },
            },
            McsState::Linking(before) => McsState::LookingAtFlag(before),
            McsState::LookingAtFlag(before) if found == EMPTY => McsState::WaitingForFlag(before),
            McsState::LookingAtFlag(_) if found == GO => self.first(),
            McsState::LookingAtFlag(_) if matches!(found, BROKEN | SPOILT) => self.closed(found),
            McsState::LookingAtFlag(_) => self.close(found),
            McsState::LookingWhetherBroken(_) if matches!(found, BROKEN | SPOILT) => {
                self.closed(found)
            }
            McsState::LookingWhetherBroken(before) => McsState::LookingAtFlag(before),
            McsState::LookingAtSharers if found >= self.members as u64 => self.close(found),
            McsState::LookingAtSharers if found > 0 => McsState::WaitingForSharers,
            McsState::LookingAtSharers => McsState::Done,
            McsState::Counting => McsState::LettingIn(self.leaving_queue()),
            McsState::LettingIn(mut release) => {
                release.handle(found, is_gone);
                McsState::LettingIn(release).settled()
            }
            McsState::Closing(mut closing) => match closing.handle(found, self.members, is_gone) {
                true => McsState::Closed(closing),
                false => McsState::Closing(closing),
            },
            at => at,
        };
    }

    /// Continues after a wait. `lost` is `None` if no member has died, else it says whether the
    /// awaited member has.
    pub const fn again(&mut self, lost: Option<bool>) {
        self.at = match (self.at, lost) {
            (McsState::WaitingForFlag(_), Some(true)) => self.close(BROKEN),
            (McsState::WaitingForFlag(before), Some(false)) => {
                McsState::LookingWhetherBroken(before)
            }
            (McsState::WaitingForFlag(before), None) => McsState::LookingAtFlag(before),
            (McsState::WaitingForSharers, Some(true)) => self.close(BROKEN),
            (McsState::WaitingForSharers, _) => McsState::LookingAtSharers,
            (McsState::LettingIn(mut release), lost) => {
                release.again(lost.is_some());
                McsState::LettingIn(release)
            }
            (at, _) => at,
        };
    }

    const fn close(&self, found: u64) -> McsState {
        McsState::Closing(Closing::because_of(found, self.swap.native))
    }

    /// Returns the next state after this member learnt from a mark that the lock is closed. With
    /// native swaps, a swap may have replaced the mark in the lock's word meanwhile.
    const fn closed(&self, found: u64) -> McsState {
        match self.swap.native {
            true => self.close(found),
            false => McsState::Closed(Closing::because_of(found, false)),
        }
    }

    const fn leaving_queue(&self) -> McsRelease {
        let (place, members, native_swap) = (self.place, self.members, self.swap.native);
        McsRelease { place, members, native_swap, at: Release::LookingBehind }
    }

    /// Returns the next state at the head of the queue.
    const fn first(&self) -> McsState {
        match self.lock_type {
            LockType::Shared => McsState::Counting,
            LockType::Exclusive => McsState::LookingAtSharers,
        }
    }
}

impl McsState {
    const fn settled(self) -> Self {
        match self {
            // A member that shares a closed lock still holds it: it is counted.
            Self::LettingIn(McsRelease { at: Release::Done | Release::Closed(_), .. }) => {
                Self::Done
            }
            at => at,
        }
    }
}

/// The state of one member that releases the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct McsRelease {
    place: u32,
    members: u32,
    native_swap: bool,
    at: Release,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Release {
    CountingOff,
    LookingBehind,
    Clearing,
    /// The last member in the queue has died.
    Breaking(u64),
    WaitingForLink,
    LookingForLink,
    LookingAtOwnFlag,
    LookingWhoIsLast,
    Granting(u32),
    Closing(Closing),
    Done,
    Closed(Closing),
}

impl McsRelease {
    /// Creates the state of member `place`, of `members`, which holds the lock. `native_swap` says
    /// whether the lock's word can be swapped.
    #[must_use]
    pub const fn new(lock_type: LockType, place: u32, members: u32, native_swap: bool) -> Self {
        let at = match lock_type {
            LockType::Shared => Release::CountingOff,
            LockType::Exclusive => Release::LookingBehind,
        };
        Self { place, members, native_swap, at }
    }

    /// Returns the next step.
    #[must_use]
    pub const fn step(&self) -> McsStep {
        let own = self.place;
        let (word, op) = match self.at {
            Release::CountingOff => (McsWord::Sharers, WordAccess::FetchAdd(1_u64.wrapping_neg())),
            Release::LookingBehind | Release::LookingForLink => {
                (McsWord::Next(own), WordAccess::Read)
            }
            Release::Clearing => {
                (McsWord::Lock, WordAccess::CompareAndSwap { expected: name(own), desired: EMPTY })
            }
            Release::Breaking(expected) => {
                (McsWord::Lock, WordAccess::CompareAndSwap { expected, desired: BROKEN })
            }
            Release::LookingAtOwnFlag => (McsWord::Flag(own), WordAccess::Read),
            Release::LookingWhoIsLast => (McsWord::Lock, WordAccess::Read),
            Release::Granting(next) => (McsWord::Flag(next), WordAccess::Write(GO)),
            Release::Closing(closing) => closing.access(),
            Release::WaitingForLink => return McsStep::Wait(None),
            Release::Done => return McsStep::Done,
            Release::Closed(closing) => return closing.outcome(),
        };
        McsStep::Access(word, op)
    }

    /// Processes the value that the access found. `is_gone` says which members have died.
    pub fn handle(&mut self, found: u64, is_gone: impl Fn(u32) -> bool) {
        self.at = match self.at {
            Release::LookingBehind if found == EMPTY => Release::Clearing,
            Release::LookingForLink if found == EMPTY => Release::WaitingForLink,
            Release::LookingBehind | Release::LookingForLink => match self.other(found) {
                Some(next) => Release::Granting(next),
                None => self.close(found),
            },
            // The member that was about to join may have closed the lock instead.
            Release::LookingAtOwnFlag if matches!(found, BROKEN | SPOILT) => self.closed(found),
            Release::LookingAtOwnFlag => Release::LookingForLink,
            Release::Clearing if found == name(self.place) => Release::Done,
            Release::Clearing if self.other(found).is_none() => self.close(found),
            Release::Breaking(last) if found == last => self.closed(BROKEN),
            // A member that has joined will store its link soon.
            Release::Clearing | Release::Breaking(_) => Release::LookingForLink,
            Release::LookingWhoIsLast => match (found, self.other(found)) {
                (EMPTY, _) => Release::Done,
                (BROKEN | SPOILT, _) => self.closed(found),
                // The next member may have died, or may be queued before the last one and about to
                // store its link.
                (last, Some(place)) if is_gone(place) => Release::Breaking(last),
                (_, Some(_)) => Release::LookingForLink,
                (last, None) => self.close(last),
            },
            Release::CountingOff if found == 0 || found > self.members as u64 => self.close(found),
            Release::CountingOff | Release::Granting(_) => Release::Done,
            Release::Closing(mut closing) => match closing.handle(found, self.members, is_gone) {
                true => Release::Closed(closing),
                false => Release::Closing(closing),
            },
            at => at,
        };
    }

    const fn other(&self, found: u64) -> Option<u32> {
        other(found, self.place, self.members)
    }

    const fn close(&self, found: u64) -> Release {
        Release::Closing(Closing::because_of(found, self.native_swap))
    }

    /// Returns the next state after this member learnt from a mark that the lock is closed. With
    /// native swaps it marks the lock again ([`Mcs::closed`]).
    const fn closed(&self, found: u64) -> Release {
        match self.native_swap {
            true => self.close(found),
            false => Release::Closed(Closing::because_of(found, false)),
        }
    }

    /// Continues after a wait. `lost` says whether any member has died.
    pub const fn again(&mut self, lost: bool) {
        if let Release::WaitingForLink = self.at {
            self.at = if lost { Release::LookingWhoIsLast } else { Release::LookingAtOwnFlag };
        }
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;
    use crate::lock::LockWord;

    /// Lets member 3 of 5 ask for a lock with the word `found`.
    fn ask(found: u64, is_gone: impl Fn(u32) -> bool) -> McsStep {
        let (lock, other) = (LockWord::new(found), LockWord::new(EMPTY));
        let mut member = Mcs::new(LockType::Exclusive, 3, 5, true);
        loop {
            let McsStep::Access(word, op) = member.step() else { return member.step() };
            let word = if word == McsWord::Lock { &lock } else { &other };
            member.handle(word.access(op), &is_gone);
        }
    }

    #[test]
    fn an_attempt_that_a_death_ended_breaks_the_lock_and_does_not_pass_for_damage() {
        assert_eq!(ask(name(3), |member| member == 1), McsStep::Broken);
        assert_eq!(ask(name(3), |_| false), McsStep::Corrupt(name(3)));
        assert_eq!(ask(name(5), |member| member == 1), McsStep::Corrupt(name(5)));
    }
}
