//! The queue lock of Mellor-Crummey and Scott (`[OneSided04]` §4.3.2).
//!
//! The lock's word names the last in the queue. Who wants the lock swaps its own place in, tells the one before that it is next, and
//! waits for its own *flag*, which the one before raises when it gives the lock back: everybody looks at memory of its own. A
//! device has no swap; there it is made of compare-and-swap.
//!
//! Ours: shared locks. A word beside the lock counts who shares it. Who wants to share waits in the queue, counts itself, and lets the
//! next in at once; who wants the lock alone stays at the head of the queue until nobody is counted.
//!
//! A queue does not survive the death of somebody in it: who stood behind the dead cannot know what it was told. So whoever notices
//! *breaks* the lock, for good, and all who wait for it or come later are told.
//!
//! A member that finds a word which no member can have written *spoils* the lock in the same way.
//!
//! A member that breaks or spoils the lock marks the lock's word, so that later members learn of it, and then the flags
//! of all members, so that the waiting ones do. A member empties its flag before it joins the queue. So each member that
//! joined before the mark keeps its marked flag, and each later one finds the mark in the word.
//!
//! The mark in the lock's word must not be lost. A member that joins by compare-and-swap does not
//! replace it. A member that joins by a swap does, and may die before it marks the word again. So
//! where the word can be swapped, each member that learns of the mark marks the word and all flags
//! again before it leaves: each member behind it has joined before that, and keeps its marked flag.

use super::{LockType, Op};

/// One of the words: the first two are the target's, flag and next of the member in that place.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum McsWord {
    /// Who is last in the queue.
    Lock,
    /// How many share the lock.
    Sharers,
    /// Whether it is that member's turn.
    Flag(u32),
    /// Who is behind that member.
    Next(u32),
}

/// What a member does next.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum McsStep {
    /// It accesses a word, and says what it found.
    Access(McsWord, Op),
    /// It waits for the member in this place, if for a certain one, and goes on.
    Wait(Option<u32>),
    /// It has the lock, or has given it back.
    Done,
    /// The lock is broken, for good.
    Broken,
    /// The lock is spoilt, for good: a word holds this value, which no member can have written.
    Corrupt(u64),
}

const EMPTY: u64 = 0;
const GO: u64 = 1;
const BROKEN: u64 = u64::MAX;
/// Marks a spoilt lock, in its word and in flags.
const SPOILT: u64 = u64::MAX - 1;

/// The member in `place`, as words name it.
const fn name(place: u32) -> u64 {
    place as u64 + 1
}

/// Parses the name of another member than the one in place `own`, of `members`. `None`: it is no such name.
const fn other(name: u64, own: u32, members: u32) -> Option<u32> {
    if name == EMPTY || name > members as u64 || name - 1 == own as u64 {
        return None;
    }
    Some((name - 1) as u32)
}

/// Ends the use of a lock for good: marks its word and the flags of all members.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Closing {
    /// The value that no member can have written; `None` when a member has died.
    found: Option<u64>,
    swap: Swap,
    /// The member whose flag is marked next; `None` while the lock's word is not marked.
    next: Option<u32>,
}

impl Closing {
    const fn new(found: Option<u64>, native_swap: bool) -> Self {
        let swap = Swap { native: native_swap, expected: EMPTY };
        Self { found, swap, next: None }
    }

    /// Closes the lock because of a value that a word holds, which may be the mark of another member.
    const fn because_of(found: u64, native_swap: bool) -> Self {
        Self::new(if found == BROKEN { None } else { Some(found) }, native_swap)
    }

    const fn access(&self) -> (McsWord, Op) {
        let mark = if self.found.is_none() { BROKEN } else { SPOILT };
        match self.next {
            None => (McsWord::Lock, self.swap.op(mark)),
            Some(member) => (McsWord::Flag(member), Op::Write(mark)),
        }
    }

    const fn outcome(&self) -> McsStep {
        match self.found {
            None => McsStep::Broken,
            Some(found) => McsStep::Corrupt(found),
        }
    }

    /// Takes in what an access found, and skips members that have died. True: all is marked.
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

/// One member that wants the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Mcs {
    lock_type: LockType,
    place: u32,
    members: u32,
    swap: Swap,
    at: At,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum At {
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
    const fn op(self, desired: u64) -> Op {
        match self.native {
            true => Op::Swap(desired),
            false => Op::CompareAndSwap { expected: self.expected, desired },
        }
    }

    /// Whether it has happened.
    const fn handle(&mut self, found: u64) -> bool {
        let done = self.native || found == self.expected;
        self.expected = found;
        done
    }
}

impl Mcs {
    /// The member in `place`, of `members`, wants the lock. `native_swap`: the lock's word can be swapped.
    #[must_use]
    pub const fn new(lock_type: LockType, place: u32, members: u32, native_swap: bool) -> Self {
        let swap = Swap { native: native_swap, expected: EMPTY };
        Self { lock_type, place, members, swap, at: At::EmptyingFlag }
    }

    /// What to do next.
    #[must_use]
    pub const fn step(&self) -> McsStep {
        let own = self.place;
        let (word, op) = match self.at {
            At::EmptyingFlag => (McsWord::Flag(own), Op::Write(EMPTY)),
            At::EmptyingNext => (McsWord::Next(own), Op::Write(EMPTY)),
            At::Joining => (McsWord::Lock, self.swap.op(name(own))),
            At::Linking(before) => (McsWord::Next(before), Op::Write(name(own))),
            At::LookingAtFlag(_) => (McsWord::Flag(own), Op::Read),
            At::LookingWhetherBroken(_) => (McsWord::Lock, Op::Read),
            At::LookingAtSharers => (McsWord::Sharers, Op::Read),
            At::Counting => (McsWord::Sharers, Op::FetchAdd(1)),
            At::WaitingForFlag(before) => return McsStep::Wait(Some(before)),
            At::WaitingForSharers => return McsStep::Wait(None),
            At::LettingIn(release) => return release.step(),
            At::Closing(closing) => closing.access(),
            At::Done => return McsStep::Done,
            At::Closed(closing) => return closing.outcome(),
        };
        McsStep::Access(word, op)
    }

    /// Takes in what the access found. `is_gone` says which members have died.
    pub fn handle(&mut self, found: u64, is_gone: impl Fn(u32) -> bool) {
        self.at = match self.at {
            At::EmptyingFlag => At::EmptyingNext,
            At::EmptyingNext => At::Joining,
            // The mark stays, and no member stands behind this one.
            At::Joining if !self.swap.native && matches!(found, BROKEN | SPOILT) => {
                self.closed(found)
            }
            At::Joining if !self.swap.handle(found) => At::Joining,
            At::Joining => match found {
                EMPTY => self.first(),
                before => match other(before, self.place, self.members) {
                    Some(before) => At::Linking(before),
                    None => self.close(before),
                },
            },
            At::Linking(before) => At::LookingAtFlag(before),
            At::LookingAtFlag(before) if found == EMPTY => At::WaitingForFlag(before),
            At::LookingAtFlag(_) if found == GO => self.first(),
            At::LookingAtFlag(_) if matches!(found, BROKEN | SPOILT) => self.closed(found),
            At::LookingAtFlag(_) => self.close(found),
            At::LookingWhetherBroken(_) if matches!(found, BROKEN | SPOILT) => self.closed(found),
            At::LookingWhetherBroken(before) => At::LookingAtFlag(before),
            At::LookingAtSharers if found >= self.members as u64 => self.close(found),
            At::LookingAtSharers if found > 0 => At::WaitingForSharers,
            At::LookingAtSharers => At::Done,
            At::Counting => At::LettingIn(self.leaving_queue()),
            At::LettingIn(mut release) => {
                release.handle(found, is_gone);
                At::LettingIn(release).settled()
            }
            At::Closing(mut closing) => match closing.handle(found, self.members, is_gone) {
                true => At::Closed(closing),
                false => At::Closing(closing),
            },
            at => at,
        };
    }

    /// Goes on after a wait. `lost`: whether any member has died, and then whether the one waited for has.
    pub const fn again(&mut self, lost: Option<bool>) {
        self.at = match (self.at, lost) {
            (At::WaitingForFlag(_), Some(true)) => self.close(BROKEN),
            (At::WaitingForFlag(before), Some(false)) => At::LookingWhetherBroken(before),
            (At::WaitingForFlag(before), None) => At::LookingAtFlag(before),
            (At::WaitingForSharers, Some(true)) => self.close(BROKEN),
            (At::WaitingForSharers, _) => At::LookingAtSharers,
            (At::LettingIn(mut release), lost) => {
                release.again(lost.is_some());
                At::LettingIn(release)
            }
            (at, _) => at,
        };
    }

    const fn close(&self, found: u64) -> At {
        At::Closing(Closing::because_of(found, self.swap.native))
    }

    /// This member has learnt from a mark that the lock is closed. A swap may have replaced the mark
    /// in the lock's word meanwhile.
    const fn closed(&self, found: u64) -> At {
        match self.swap.native {
            true => self.close(found),
            false => At::Closed(Closing::because_of(found, false)),
        }
    }

    const fn leaving_queue(&self) -> McsRelease {
        let (place, members, native_swap) = (self.place, self.members, self.swap.native);
        McsRelease { place, members, native_swap, at: Release::LookingBehind }
    }

    /// It is at the head of the queue.
    const fn first(&self) -> At {
        match self.lock_type {
            LockType::Shared => At::Counting,
            LockType::Exclusive => At::LookingAtSharers,
        }
    }
}

impl At {
    const fn settled(self) -> Self {
        match self {
            // A member that shares a closed lock holds it all the same: it is counted.
            Self::LettingIn(McsRelease { at: Release::Done | Release::Closed(_), .. }) => {
                Self::Done
            }
            at => at,
        }
    }
}

/// One member that gives the lock back.
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
    /// The last in the queue has died.
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
    /// The member in `place`, of `members`, has it. `native_swap`: the lock's word can be swapped.
    #[must_use]
    pub const fn new(lock_type: LockType, place: u32, members: u32, native_swap: bool) -> Self {
        let at = match lock_type {
            LockType::Shared => Release::CountingOff,
            LockType::Exclusive => Release::LookingBehind,
        };
        Self { place, members, native_swap, at }
    }

    /// What to do next.
    #[must_use]
    pub const fn step(&self) -> McsStep {
        let own = self.place;
        let (word, op) = match self.at {
            Release::CountingOff => (McsWord::Sharers, Op::FetchAdd(1_u64.wrapping_neg())),
            Release::LookingBehind | Release::LookingForLink => (McsWord::Next(own), Op::Read),
            Release::Clearing => {
                (McsWord::Lock, Op::CompareAndSwap { expected: name(own), desired: EMPTY })
            }
            Release::Breaking(expected) => {
                (McsWord::Lock, Op::CompareAndSwap { expected, desired: BROKEN })
            }
            Release::LookingAtOwnFlag => (McsWord::Flag(own), Op::Read),
            Release::LookingWhoIsLast => (McsWord::Lock, Op::Read),
            Release::Granting(next) => (McsWord::Flag(next), Op::Write(GO)),
            Release::Closing(closing) => closing.access(),
            Release::WaitingForLink => return McsStep::Wait(None),
            Release::Done => return McsStep::Done,
            Release::Closed(closing) => return closing.outcome(),
        };
        McsStep::Access(word, op)
    }

    /// Takes in what the access found. `is_gone` says which members have died.
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
            // Who has joined says so soon.
            Release::Clearing | Release::Breaking(_) => Release::LookingForLink,
            Release::LookingWhoIsLast => match (found, self.other(found)) {
                (EMPTY, _) => Release::Done,
                (BROKEN | SPOILT, _) => self.closed(found),
                // Who is next may have died, or be before this one and about to say so.
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

    /// This member has learnt from a mark that the lock is closed, as in [`Mcs::closed`].
    const fn closed(&self, found: u64) -> Release {
        match self.native_swap {
            true => self.close(found),
            false => Release::Closed(Closing::because_of(found, false)),
        }
    }

    /// Goes on after a wait. `lost`: whether any member has died.
    pub const fn again(&mut self, lost: bool) {
        if let Release::WaitingForLink = self.at {
            self.at = if lost { Release::LookingWhoIsLast } else { Release::LookingAtOwnFlag };
        }
    }
}
