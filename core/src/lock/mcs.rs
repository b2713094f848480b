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
}

const EMPTY: u64 = 0;
const GO: u64 = 1;
const BROKEN: u64 = u64::MAX;

/// The member in `place`, as words name it.
const fn name(place: u32) -> u64 {
    place as u64 + 1
}

/// Whose name it is. One that makes no sense is a place that does not exist.
const fn place(name: u64) -> u32 {
    match name {
        1..=0xffff_ffff => (name - 1) as u32,
        _ => u32::MAX,
    }
}

/// One member that wants the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Mcs {
    lock_type: LockType,
    place: u32,
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
    Breaking,
    Done,
    Broken,
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
    /// The member in `place` wants the lock. `native_swap`: the lock's word can be swapped.
    #[must_use]
    pub const fn new(lock_type: LockType, place: u32, native_swap: bool) -> Self {
        let swap = Swap { native: native_swap, expected: EMPTY };
        Self { lock_type, place, swap, at: At::EmptyingFlag }
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
            At::Breaking => (McsWord::Lock, self.swap.op(BROKEN)),
            At::WaitingForFlag(before) => return McsStep::Wait(Some(before)),
            At::WaitingForSharers => return McsStep::Wait(None),
            At::LettingIn(release) => return release.step(),
            At::Done => return McsStep::Done,
            At::Broken => return McsStep::Broken,
        };
        McsStep::Access(word, op)
    }

    /// Takes in what the access found. `is_gone` says which members have died.
    pub fn handle(&mut self, found: u64, is_gone: impl Fn(u32) -> bool) {
        self.at = match self.at {
            At::EmptyingFlag => At::EmptyingNext,
            At::EmptyingNext => At::Joining,
            At::Joining if !self.swap.handle(found) => At::Joining,
            At::Joining => match found {
                EMPTY => self.first(),
                BROKEN => At::Breaking,
                before => At::Linking(place(before)),
            },
            At::Linking(before) => At::LookingAtFlag(before),
            At::LookingAtFlag(before) if found == EMPTY => At::WaitingForFlag(before),
            At::LookingAtFlag(_) => self.first(),
            At::LookingWhetherBroken(_) if found == BROKEN => At::Broken,
            At::LookingWhetherBroken(before) => At::LookingAtFlag(before),
            At::LookingAtSharers if found > 0 => At::WaitingForSharers,
            At::LookingAtSharers => At::Done,
            At::Counting => At::LettingIn(McsRelease::of_queue(self.place)),
            At::LettingIn(mut release) => {
                release.handle(found, is_gone);
                At::LettingIn(release).settled()
            }
            At::Breaking if !self.swap.handle(found) => At::Breaking,
            At::Breaking => At::Broken,
            at => at,
        };
    }

    /// Goes on after a wait. `lost`: whether any member has died, and then whether the one waited for has.
    pub const fn again(&mut self, lost: Option<bool>) {
        self.at = match (self.at, lost) {
            (At::WaitingForFlag(_), Some(true)) => At::Breaking,
            (At::WaitingForFlag(before), Some(false)) => At::LookingWhetherBroken(before),
            (At::WaitingForFlag(before), None) => At::LookingAtFlag(before),
            (At::WaitingForSharers, Some(true)) => At::Breaking,
            (At::WaitingForSharers, _) => At::LookingAtSharers,
            (At::LettingIn(mut release), lost) => {
                release.again(lost.is_some());
                At::LettingIn(release)
            }
            (at, _) => at,
        };
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
            Self::LettingIn(McsRelease { at: Release::Done, .. }) => Self::Done,
            at => at,
        }
    }
}

/// One member that gives the lock back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct McsRelease {
    place: u32,
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
    LookingWhoIsLast,
    Granting(u32),
    Done,
}

impl McsRelease {
    /// The member in `place` has it.
    #[must_use]
    pub const fn new(lock_type: LockType, place: u32) -> Self {
        let at = match lock_type {
            LockType::Shared => Release::CountingOff,
            LockType::Exclusive => Release::LookingBehind,
        };
        Self { place, at }
    }

    const fn of_queue(place: u32) -> Self {
        Self { place, at: Release::LookingBehind }
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
            Release::LookingWhoIsLast => (McsWord::Lock, Op::Read),
            Release::Granting(next) => (McsWord::Flag(next), Op::Write(GO)),
            Release::WaitingForLink => return McsStep::Wait(None),
            Release::Done => return McsStep::Done,
        };
        McsStep::Access(word, op)
    }

    /// Takes in what the access found. `is_gone` says which members have died.
    pub fn handle(&mut self, found: u64, is_gone: impl Fn(u32) -> bool) {
        self.at = match self.at {
            Release::LookingBehind if found == EMPTY => Release::Clearing,
            Release::LookingForLink if found == EMPTY => Release::WaitingForLink,
            Release::LookingBehind | Release::LookingForLink => Release::Granting(place(found)),
            Release::Clearing if found == name(self.place) => Release::Done,
            Release::Breaking(last) if found == last => Release::Done,
            // Who has joined says so soon.
            Release::Clearing | Release::Breaking(_) => Release::LookingForLink,
            Release::LookingWhoIsLast => match found {
                EMPTY | BROKEN => Release::Done,
                // Who is next may have died, or be before this one and about to say so.
                last if is_gone(place(last)) => Release::Breaking(last),
                _ => Release::LookingForLink,
            },
            Release::CountingOff | Release::Granting(_) => Release::Done,
            at => at,
        };
    }

    /// Goes on after a wait. `lost`: whether any member has died.
    pub const fn again(&mut self, lost: bool) {
        if let Release::WaitingForLink = self.at {
            self.at = if lost { Release::LookingWhoIsLast } else { Release::LookingForLink };
        }
    }
}
