//! A member that acquires, holds and releases a lock.

use strait_core::lock::{
    Attempt, AttemptOutcome, Coding, Hybrid, HybridStep, HybridWord, LockMode, LockRequest,
    LockState, LockType, Mcs, McsRelease, McsStep, Policy,
};

use super::target::{Answer, Target, Word};
use super::{Design, Moves};

/// The way in which a member holds the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum How {
    Managed,
    Cpu,
    Network,
    /// Whether in the queue, which may be broken.
    Queue(bool),
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Machine {
    Managed,
    Word(Attempt),
    Queue(Mcs),
    Hybrid(Hybrid),
}

/// The condition for which a member waits: a change of a word, or a death.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Wait {
    word: Word,
    found: u64,
    deaths: u32,
    /// The last place in the queue, for the case of a death.
    last: u64,
    state: Option<LockState>,
}

/// Returns the request of the member in `place` to a lock manager. Some of the members that share
/// ask as those do which have other locks of the window.
const fn ask_for(lock_type: LockType, place: u32) -> LockRequest {
    match lock_type {
        LockType::Shared if place % 2 == 1 => LockRequest::ShareAhead,
        _ => LockRequest::Lock(lock_type),
    }
}

impl Wait {
    fn new(word: Word, found: u64, state: Option<LockState>, target: &Target) -> Self {
        Self { word, found, deaths: target.deaths, last: target.last(), state }
    }

    /// Returns whether there is a reason to poll again.
    fn is_over(&self, target: &Target) -> bool {
        let lost = match self.state {
            Some(LockState::One(place)) => target.is_gone(place),
            Some(LockState::Sharers(_)) => target.lost_sharer(),
            Some(LockState::Free | LockState::Elsewhere(_)) => false,
            // A broken queue stays broken.
            None => target.deaths > 0 && (self.last != target.last() || self.last == u64::MAX),
        };
        lost || target.read(self.word) != self.found || target.deaths != self.deaths
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Doing {
    Nothing,
    Wanting {
        machine: Machine,
        wait: Option<Wait>,
        asked: bool,
    },
    Holding(How),
    Leaving {
        release: McsRelease,
        wait: Option<Wait>,
    },
    /// The member learned that it does not get the lock.
    Told,
    Dead,
}

/// One member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Member {
    program: Vec<LockType>,
    at: usize,
    doing: Doing,
    policy: Option<Moves>,
}

impl Member {
    pub(super) const fn new(program: Vec<LockType>) -> Self {
        Self { program, at: 0, doing: Doing::Nothing, policy: None }
    }

    pub(super) const fn die(&mut self) {
        self.doing = Doing::Dead;
    }

    /// Returns how it holds the lock, if it does.
    #[must_use]
    pub fn holds(&self) -> Option<LockType> {
        matches!(self.doing, Doing::Holding(_)).then(|| self.program[self.at])
    }

    pub(super) fn is_over(&self, anybody_died: bool) -> bool {
        match self.doing {
            Doing::Nothing => self.at == self.program.len(),
            Doing::Told => anybody_died,
            Doing::Dead => true,
            _ => false,
        }
    }

    pub(super) fn can_step(&self, place: u32, target: &Target) -> bool {
        let ends = |wait: Option<Wait>| wait.is_none_or(|wait| wait.is_over(target));
        // Each poll finds the same values, except for a death before the wait began.
        let is_behind_the_lost = |machine: Machine| match machine {
            Machine::Queue(mcs) => match mcs.step() {
                McsStep::Wait(Some(before)) => target.is_gone(before),
                McsStep::Wait(None) => target.lost_sharer() || target.is_gone(target.last_place()),
                _ => false,
            },
            _ => false,
        };
        match self.doing {
            Doing::Nothing => self.at < self.program.len(),
            Doing::Wanting { asked: true, .. } => target.answers[place as usize].is_some(),
            Doing::Wanting { wait, machine, .. } => ends(wait) || is_behind_the_lost(machine),
            Doing::Leaving { wait, .. } => ends(wait) || target.is_gone(target.last_place()),
            Doing::Holding(_) => true,
            Doing::Told | Doing::Dead => false,
        }
    }

    pub(super) fn step(&mut self, place: u32, target: &mut Target) {
        let lock_type = self.program.get(self.at).copied().unwrap_or(LockType::Shared);
        self.doing = match self.doing {
            Doing::Nothing => {
                target.shares[place as usize] =
                    lock_type == LockType::Shared && target.design != Design::Managed;
                let machine = self.machine(lock_type, place, target);
                Doing::Wanting { machine, wait: None, asked: false }
            }
            Doing::Wanting { machine, wait, asked } => {
                self.want(place, target, machine, wait, asked)
            }
            Doing::Holding(how) => self.give_back(place, target, lock_type, how),
            Doing::Leaving { release, wait } => self.leave(place, target, release, wait),
            doing => doing,
        };
    }

    fn machine(&mut self, lock_type: LockType, place: u32, target: &Target) -> Machine {
        match target.design {
            Design::Managed => Machine::Managed,
            Design::TestAndSet => {
                Machine::Word(Attempt::new(Coding::Signed, lock_type, place, target.size()))
            }
            Design::Queue(native_swap) => {
                Machine::Queue(Mcs::new(lock_type, place, target.size(), native_swap))
            }
            Design::Hybrid(policy) => {
                self.policy.get_or_insert(policy);
                let on_node = place < target.on_node;
                Machine::Hybrid(Hybrid::new(lock_type, place, target.size(), on_node))
            }
        }
    }

    fn want(
        &mut self,
        place: u32,
        target: &mut Target,
        mut machine: Machine,
        wait: Option<Wait>,
        asked: bool,
    ) -> Doing {
        if asked {
            return match target.answers[place as usize].take() {
                Some(Answer::Granted(LockMode::Network)) => Doing::Holding(How::Network),
                Some(Answer::Granted(LockMode::Cpu)) => Doing::Holding(How::Managed),
                Some(Answer::Denied) if target.lost_sharer() => Doing::Told,
                Some(Answer::Elsewhere | Answer::Denied) | None => {
                    if let Machine::Hybrid(hybrid) = &mut machine {
                        hybrid.again();
                    }
                    Doing::Wanting { machine, wait: None, asked: false }
                }
            };
        }
        if let Some(wait) = wait {
            // A member in a queue breaks it first.
            let queued = matches!(machine, Machine::Queue(mcs) if mcs.is_queued());
            if matches!(wait.state, Some(LockState::Sharers(_))) && target.lost_sharer() && !queued
            {
                return Doing::Told;
            }
            go_on(&mut machine, wait, target);
        }
        let mut wait = None;
        let lock_type = self.program[self.at];
        match &mut machine {
            Machine::Managed => {
                target.request(place, ask_for(lock_type, place));
                return Doing::Wanting { machine, wait, asked: true };
            }
            Machine::Word(attempt) => {
                let found = target.access(Word::Cpu, attempt.op());
                match attempt.handle(found) {
                    AttemptOutcome::Taken => return Doing::Holding(How::Cpu),
                    AttemptOutcome::Again => {}
                    AttemptOutcome::Held(state) => {
                        wait = Some(Wait::new(Word::Cpu, found, Some(state), target));
                    }
                    AttemptOutcome::Corrupt(found) => panic!("no member writes {found:#x}"),
                }
            }
            Machine::Queue(mcs) => {
                let McsStep::Access(word, op) = mcs.step() else { unreachable!("{mcs:?}") };
                let word = Word::Queue(word);
                let found = target.access(word, op);
                mcs.handle(found, |other| target.is_gone(other));
                match mcs.step() {
                    McsStep::Done => return Doing::Holding(How::Queue(mcs.is_queued())),
                    McsStep::Held(state) => {
                        wait = Some(Wait::new(word, found, Some(state), target));
                    }
                    McsStep::Wait(_) => wait = Some(Wait::new(word, found, None, target)),
                    McsStep::Access(..) => {}
                    McsStep::Corrupt(found) => panic!("no member writes {found:#x}"),
                }
            }
            Machine::Hybrid(hybrid) => {
                let HybridStep::Access(word, op) = hybrid.step() else { return Doing::Told };
                let word = match word {
                    HybridWord::Cpu => Word::Cpu,
                    HybridWord::Network => Word::Network,
                };
                let found = target.access(word, op);
                let mut none = strait_core::lock::FixedMode(LockMode::Cpu);
                let policy = self.policy.as_mut().map(|policy| policy as &mut dyn Policy);
                hybrid.handle(found, policy.unwrap_or(&mut none));
                match hybrid.step() {
                    HybridStep::Taken(LockMode::Cpu) => return Doing::Holding(How::Cpu),
                    HybridStep::Taken(LockMode::Network) => return Doing::Holding(How::Network),
                    HybridStep::Wait(state) => {
                        wait = Some(Wait::new(word, found, Some(state), target));
                    }
                    HybridStep::Ask => {
                        target.request(place, ask_for(lock_type, place));
                        return Doing::Wanting { machine, wait, asked: true };
                    }
                    HybridStep::Access(..) => {}
                    HybridStep::Corrupt(found) => panic!("no member writes {found:#x}"),
                }
            }
        }
        Doing::Wanting { machine, wait, asked: false }
    }

    fn give_back(
        &mut self,
        place: u32,
        target: &mut Target,
        lock_type: LockType,
        how: How,
    ) -> Doing {
        match how {
            How::Managed => target.request(place, LockRequest::Unlock),
            How::Cpu => {
                target.access(Word::Cpu, Coding::Signed.release(lock_type, place));
            }
            How::Network => {
                let coding = Coding::Ranks { size: target.size() };
                target.access(Word::Network, coding.release(lock_type, place));
            }
            How::Queue(queued) => {
                let native_swap = target.design == Design::Queue(true);
                let release = McsRelease::new(lock_type, place, target.size(), native_swap, queued);
                return Doing::Leaving { release, wait: None };
            }
        }
        self.over(place, target)
    }

    fn leave(
        &mut self,
        place: u32,
        target: &mut Target,
        mut release: McsRelease,
        wait: Option<Wait>,
    ) -> Doing {
        if wait.is_some() {
            release.again(target.deaths > 0);
        }
        let mut wait = None;
        if let McsStep::Access(word, op) = release.step() {
            let word = Word::Queue(word);
            let found = target.access(word, op);
            release.handle(found, |other| target.is_gone(other));
            if let McsStep::Wait(_) = release.step() {
                wait = Some(Wait::new(word, found, None, target));
            }
        }
        match release.step() {
            McsStep::Done => self.over(place, target),
            _ => Doing::Leaving { release, wait },
        }
    }

    fn over(&mut self, place: u32, target: &mut Target) -> Doing {
        target.shares[place as usize] = false;
        self.at += 1;
        Doing::Nothing
    }
}

/// Continues after a wait.
fn go_on(machine: &mut Machine, wait: Wait, target: &Target) {
    let dead = matches!(wait.state, Some(LockState::One(place)) if target.is_gone(place));
    match machine {
        Machine::Managed => {}
        Machine::Word(attempt) => {
            if let Some(state) = wait.state.filter(|_| dead) {
                attempt.take_over(state);
            }
        }
        Machine::Hybrid(hybrid) if dead => hybrid.inherit(),
        Machine::Hybrid(hybrid) => hybrid.again(),
        Machine::Queue(mcs) => match wait.state {
            Some(state) if dead => mcs.take_over(state),
            state => {
                let lost = (target.deaths > 0).then(|| match (mcs.step(), state) {
                    (McsStep::Wait(Some(before)), _) => target.is_gone(before),
                    (_, Some(LockState::Sharers(_))) => target.lost_sharer(),
                    _ => false,
                });
                mcs.again(lost);
            }
        },
    }
}
