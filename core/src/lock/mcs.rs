//! The queue lock of Mellor-Crummey and Scott (`[OneSided04]` §4.3.2).
//!
//! The lock's word names the last member in the queue. A member that wants the lock swaps its own
//! place in and tells its predecessor that it is next. Then it waits for its own *flag*, which the
//! predecessor sets when it releases the lock. Each member thus polls its own memory. A device has
//! no swap; there the swap is made of compare-and-swaps.
//!
//! A second word names the *holders*. A member at the head of the queue takes the lock there, as a
//! test-and-set lock is taken ([`super::Attempt`]). So that word alone decides which member has the
//! lock, and the queue only decides which may try. The paper's algorithm has no such word. It has
//! two uses:
//!
//! - Members share the lock: the word counts them. A member that wants to share waits in the queue,
//!   counts itself, and lets the next member in at once. A member that wants the lock exclusively
//!   stays at the head until the count is zero.
//! - The lock survives deaths. A queue does not: the dead member's successor cannot know which
//!   notifications it had received. A member that notices a death therefore *breaks* the queue
//!   permanently. From then on members take the lock without a queue. The name of a dead holder is
//!   replaced.
//!
//! A member that finds a value in a word that no member can have written *spoils* the lock.
//!
//! To break or spoil the queue, a member marks the lock's word, so that later members learn of it.
//! It then marks the flags of all members, so that the waiting ones learn of it. A member empties
//! its flag before it joins the queue. So each member that joined before the mark keeps its marked
//! flag, and each later one finds the mark in the word.
//!
//! The mark in the lock's word must not be lost. A member that joins by compare-and-swap does not
//! replace it. A member that joins by a swap does, and may die before it marks the word again. So
//! where the word can be swapped, each member that learns of the mark marks the word and all flags
//! again before it leaves. Each member behind it has joined before that, and keeps its marked flag.

use super::mcs_release::McsRelease;
use super::{Attempt, AttemptOutcome, Coding, LockState, LockType, WordAccess};

/// The words of the lock. The first two belong to the target; flag and next belong to the member in
/// that place.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum McsWord {
    /// Name of the last member in the queue.
    Lock,
    /// Names the member that holds the lock, or counts those that share it ([`Coding::Signed`]).
    Holders,
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
    /// Wait for the holders, in this state, and then continue.
    Held(LockState),
    /// The member has the lock, or has released it.
    Done,
    /// The lock is permanently spoilt: a word holds this value, which no member can have written.
    Corrupt(u64),
}

pub(super) const EMPTY: u64 = 0;
pub(super) const GO: u64 = 1;
pub(super) const BROKEN: u64 = u64::MAX;
/// Mark of a spoilt lock, in its word and in flags.
pub(super) const SPOILT: u64 = u64::MAX - 1;

/// Returns the name by which words refer to the member in `place`.
pub(super) const fn name(place: u32) -> u64 {
    place as u64 + 1
}

/// Parses the name of a member other than `own`. Returns `None` if `name` is not the name of such a
/// member.
pub(super) const fn other(name: u64, own: u32, members: u32) -> Option<u32> {
    if name == EMPTY || name > members as u64 || name - 1 == own as u64 {
        return None;
    }
    Some((name - 1) as u32)
}

/// The steps that end the use of a queue permanently: they mark its word and the flags of all
/// members.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Closing {
    /// The value that no member can have written; `None` if a member has died.
    pub(super) found: Option<u64>,
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
    pub(super) const fn because_of(found: u64, native_swap: bool) -> Self {
        Self::new(if found == BROKEN { None } else { Some(found) }, native_swap)
    }

    pub(super) const fn access(&self) -> (McsWord, WordAccess) {
        let mark = if self.found.is_none() { BROKEN } else { SPOILT };
        match self.next {
            None => (McsWord::Lock, self.swap.op(mark)),
            Some(member) => (McsWord::Flag(member), WordAccess::Write(mark)),
        }
    }

    /// Returns the state of a member that has closed the queue.
    const fn ended(&self) -> McsState {
        match self.found {
            None => McsState::Broken,
            Some(found) => McsState::Spoilt(found),
        }
    }

    /// Processes the value that an access found, and skips members that have died. Returns true if
    /// all marks are set.
    pub(super) fn handle(
        &mut self,
        found: u64,
        members: u32,
        is_gone: impl Fn(u32) -> bool,
    ) -> bool {
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
/// let [lock, holders, flag, next] = [0; 4].map(LockWord::new);
/// let mut member = Mcs::new(LockType::Exclusive, 0, 1, true);
/// while let McsStep::Access(word, access) = member.step() {
///     let word = match word {
///         McsWord::Lock => &lock,
///         McsWord::Holders => &holders,
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
    /// The attempt at the word of the holders.
    attempt: Attempt,
    /// True until this member learns that the queue is broken.
    queued: bool,
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
    Taking,
    Held(LockState),
    LettingIn(McsRelease),
    Closing(Closing),
    Done,
    /// The queue is broken.
    Broken,
    Spoilt(u64),
}

/// A swap of the lock's word, by the processor or by compare-and-swap.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Swap {
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
        let attempt = Attempt::new(Coding::Signed, lock_type, place, members);
        let at = McsState::EmptyingFlag;
        Self { lock_type, place, members, swap, attempt, queued: true, at }
    }

    /// Returns whether this member is in the queue, or holds the lock at its head. It is not if the
    /// queue is broken.
    #[must_use]
    pub const fn is_queued(&self) -> bool {
        self.queued
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
            McsState::Taking | McsState::Broken => (McsWord::Holders, self.attempt.op()),
            McsState::WaitingForFlag(before) => return McsStep::Wait(Some(before)),
            McsState::Held(state) => return McsStep::Held(state),
            McsState::LettingIn(release) => return release.step(),
            McsState::Closing(closing) => closing.access(),
            McsState::Done => return McsStep::Done,
            McsState::Spoilt(found) => return McsStep::Corrupt(found),
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
                EMPTY => McsState::Taking,
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
            McsState::LookingAtFlag(_) if found == GO => McsState::Taking,
            McsState::LookingAtFlag(_) if matches!(found, BROKEN | SPOILT) => self.closed(found),
            McsState::LookingAtFlag(_) => self.close(found),
            McsState::LookingWhetherBroken(_) if matches!(found, BROKEN | SPOILT) => {
                self.closed(found)
            }
            McsState::LookingWhetherBroken(before) => McsState::LookingAtFlag(before),
            McsState::Taking => match self.attempt.handle(found) {
                AttemptOutcome::Taken => match self.lock_type {
                    LockType::Shared if self.queued => McsState::LettingIn(self.leaving_queue()),
                    _ => McsState::Done,
                },
                AttemptOutcome::Again => McsState::Taking,
                AttemptOutcome::Held(state) => McsState::Held(state),
                // No member marks this word, so that the value of a mark is damage here.
                AttemptOutcome::Corrupt(found) => self.spoil(found),
            },
            McsState::LettingIn(mut release) => {
                release.handle(found, is_gone);
                McsState::LettingIn(release).settled()
            }
            McsState::Closing(mut closing) => match closing.handle(found, self.members, is_gone) {
                true => closing.ended(),
                false => McsState::Closing(closing),
            },
            at => at,
        };
        self.leave_broken_queue();
    }

    /// Continues at the word of the holders if the queue is broken.
    const fn leave_broken_queue(&mut self) {
        if let McsState::Broken = self.at {
            self.queued = false;
            self.at = McsState::Taking;
        }
    }

    /// Continues after a wait for the holders by taking the lock over from `state`, for which no
    /// living member is responsible.
    pub const fn take_over(&mut self, state: LockState) {
        self.attempt.take_over(state);
        self.at = McsState::Taking;
    }

    /// Continues after a wait. `lost` is `None` if no member has died, else it says whether an
    /// awaited member has.
    pub const fn again(&mut self, lost: Option<bool>) {
        self.at = match (self.at, lost) {
            (McsState::WaitingForFlag(_), Some(true)) => self.close(BROKEN),
            (McsState::WaitingForFlag(before), Some(false)) => {
                McsState::LookingWhetherBroken(before)
            }
            (McsState::WaitingForFlag(before), None) => McsState::LookingAtFlag(before),
            // This member cannot stay at the head of the queue until a dead member shares no more.
            (McsState::Held(_), Some(true)) if self.queued => self.close(BROKEN),
            (McsState::Held(_), _) => McsState::Taking,
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

    const fn spoil(&self, found: u64) -> McsState {
        McsState::Closing(Closing::new(Some(found), self.swap.native))
    }

    /// Returns the next state after this member learnt from a mark that the lock is closed. With
    /// native swaps, a swap may have replaced the mark in the lock's word meanwhile.
    const fn closed(&self, found: u64) -> McsState {
        match self.swap.native {
            true => self.close(found),
            false => Closing::because_of(found, false).ended(),
        }
    }

    const fn leaving_queue(&self) -> McsRelease {
        McsRelease::of_queue(self.place, self.members, self.swap.native)
    }
}

impl McsState {
    const fn settled(self) -> Self {
        match self {
            // A member that shares a spoilt lock still holds it: it is counted.
            Self::LettingIn(release) if release.is_over() => Self::Done,
            at => at,
        }
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;
    use crate::lock::LockWord;

    /// Lets member 3 of 5 ask for a lock with the word `found`.
    fn ask(found: u64, is_gone: impl Fn(u32) -> bool) -> McsStep {
        let [lock, holders, other] = [found, EMPTY, EMPTY].map(LockWord::new);
        let mut member = Mcs::new(LockType::Exclusive, 3, 5, true);
        loop {
            let McsStep::Access(word, op) = member.step() else { return member.step() };
            let word = match word {
                McsWord::Lock => &lock,
                McsWord::Holders => &holders,
                McsWord::Flag(_) | McsWord::Next(_) => &other,
            };
            member.handle(word.access(op), &is_gone);
        }
    }

    #[test]
    fn an_attempt_that_a_death_ended_breaks_the_queue_and_does_not_pass_for_damage() {
        assert_eq!(ask(name(3), |member| member == 1), McsStep::Done);
        assert_eq!(ask(name(3), |_| false), McsStep::Corrupt(name(3)));
        assert_eq!(ask(name(5), |member| member == 1), McsStep::Corrupt(name(5)));
    }

    /// In that word the value names member 0, which does not hold the lock.
    #[test]
    fn the_value_of_a_mark_in_the_word_of_the_holders_is_damage() {
        let [lock, holders, other] = [EMPTY, BROKEN, EMPTY].map(LockWord::new);
        let mut member = Mcs::new(LockType::Shared, 0, 5, true);
        for _ in 0..20 {
            let McsStep::Access(word, op) = member.step() else { break };
            let word = match word {
                McsWord::Lock => &lock,
                McsWord::Holders => &holders,
                McsWord::Flag(_) | McsWord::Next(_) => &other,
            };
            member.handle(word.access(op), |_| false);
        }
        assert_eq!(member.step(), McsStep::Corrupt(BROKEN));
    }
}
