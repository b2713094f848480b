//! The release of the queue lock of Mellor-Crummey and Scott ([`super::mcs`]).

use super::mcs::{BROKEN, Closing, EMPTY, GO, McsStep, McsWord, SPOILT, name, other};
use super::{Coding, LockType, WordAccess};

/// The state of one member that releases the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct McsRelease {
    lock_type: LockType,
    place: u32,
    members: u32,
    native_swap: bool,
    /// Whether this member has to leave the queue after it has released the lock.
    queue: bool,
    /// Whether the word of the holders has this member.
    holds: bool,
    at: Release,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Release {
    Releasing,
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
    Spoilt(u64),
}

impl McsRelease {
    /// Creates the state of member `place`, of `members`, which holds the lock. `native_swap` says
    /// whether the lock's word can be swapped, and `queued` whether the member took the lock in the
    /// queue ([`super::Mcs::is_queued`]).
    #[must_use]
    pub const fn new(
        lock_type: LockType,
        place: u32,
        members: u32,
        native_swap: bool,
        queued: bool,
    ) -> Self {
        // Sharers have left the queue already.
        let queue = queued && matches!(lock_type, LockType::Exclusive);
        // A device tells the next member first: the lock is released before that member tries.
        let (queue, at) = match (queue, native_swap) {
            (true, false) => (false, Release::LookingBehind),
            (queue, _) => (queue, Release::Releasing),
        };
        Self { lock_type, place, members, native_swap, queue, holds: true, at }
    }

    /// Creates the state of a member that leaves the queue, and keeps the lock to share it.
    pub(super) const fn of_queue(place: u32, members: u32, native_swap: bool) -> Self {
        let (lock_type, at) = (LockType::Shared, Release::LookingBehind);
        Self { lock_type, place, members, native_swap, queue: false, holds: false, at }
    }

    /// Returns whether no step is left.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.at, Release::Done | Release::Spoilt(_))
    }

    /// Returns the next step.
    #[must_use]
    pub const fn step(&self) -> McsStep {
        let own = self.place;
        let (word, op) = match self.at {
            Release::Releasing => (McsWord::Holders, Coding::Signed.release(self.lock_type, own)),
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
            Release::Spoilt(found) => return McsStep::Corrupt(found),
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
            Release::Clearing if found == name(self.place) => self.left(),
            Release::Clearing if self.other(found).is_none() => self.close(found),
            Release::Breaking(last) if found == last => self.closed(BROKEN),
            // A member that has joined will store its link soon.
            Release::Clearing | Release::Breaking(_) => Release::LookingForLink,
            Release::LookingWhoIsLast => match (found, self.other(found)) {
                (EMPTY, _) => self.left(),
                (BROKEN | SPOILT, _) => self.closed(found),
                // The next member may have died, or may be queued before the last one and about to
                // store its link.
                (last, Some(place)) if is_gone(place) => Release::Breaking(last),
                (_, Some(_)) => Release::LookingForLink,
                (last, None) => self.close(last),
            },
            Release::Granting(_) => self.left(),
            Release::Releasing => {
                self.holds = false;
                match core::mem::replace(&mut self.queue, false) {
                    true => Release::LookingBehind,
                    false => Release::Done,
                }
            }
            Release::Closing(mut closing) => match closing.handle(found, self.members, is_gone) {
                true => self.ended(closing),
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
            false => self.ended(Closing::because_of(found, false)),
        }
    }

    /// Returns the next state of a member that has left the queue.
    const fn left(&self) -> Release {
        if self.holds { Release::Releasing } else { Release::Done }
    }

    /// Returns the next state of a member that has closed the queue.
    const fn ended(&self, closing: Closing) -> Release {
        match closing.found {
            None => self.left(),
            Some(found) => Release::Spoilt(found),
        }
    }

    /// Continues after a wait. `lost` says whether any member has died.
    pub const fn again(&mut self, lost: bool) {
        if let Release::WaitingForLink = self.at {
            self.at = if lost { Release::LookingWhoIsLast } else { Release::LookingAtOwnFlag };
        }
    }
}
