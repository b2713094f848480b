//! A rank that locks and unlocks: the state machines of the library, with accesses and waits in
//! virtual time.

use strait::LockDesign;
use strait_core::lock::{
    Attempt, AttemptOutcome, Coding, Hybrid, HybridStep, HybridWord, LockBackoff, LockMode,
    LockRequest, LockType, Mcs, McsRelease, McsStep, McsWord, WordAccess,
};

use super::cluster::ClusterRank;
use super::state::{Answer, Lock, Word};

use LockType::Exclusive;

/// The state in which a lock is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Had {
    Managed,
    Cpu,
    Network,
    Queue,
}

impl ClusterRank<'_> {
    /// Acquires an exclusive lock of the target.
    pub(crate) fn lock(&self, lock: Lock) -> Had {
        let design = self.state().design;
        match design {
            LockDesign::TestAndSet => self.swap(lock),
            LockDesign::Mcs => self.queue(lock),
            LockDesign::Hybrid => self.either(lock),
            _ => {
                self.say(lock, LockRequest::Lock(Exclusive), true);
                Had::Managed
            }
        }
    }

    /// Releases the lock. Returns when this rank can go on.
    pub(crate) fn unlock(&self, lock: Lock, had: Had) {
        let hybrid = self.state().design == LockDesign::Hybrid;
        match had {
            Had::Managed => drop(self.say(lock, LockRequest::Unlock, false)),
            Had::Cpu => {
                self.touch(lock, Word::Cpu, Coding::Signed.release(Exclusive, self.rank));
            }
            Had::Network => {
                let coding = if hybrid { self.ranks() } else { Coding::Signed };
                let release = coding.release(Exclusive, self.rank);
                self.post(lock, (Word::Network, lock.target), release, false);
            }
            Had::Queue => self.leave_queue(lock),
        }
    }

    /// Locks and unlocks `times` times. Returns the nanoseconds of one round.
    pub(crate) fn lock_unlock(&self, lock: Lock, times: u64) -> f64 {
        let start = self.now();
        for _ in 0..times {
            let had = self.lock(lock);
            self.unlock(lock, had);
        }
        (self.now() - start) as f64 / times as f64
    }

    fn ranks(&self) -> Coding {
        Coding::Ranks { size: self.members() }
    }

    fn members(&self) -> u32 {
        self.state().messages.len() as u32
    }

    fn pause(&self, backoff: &mut LockBackoff, mode: LockMode) {
        let unit = self.costs().units[usize::from(mode == LockMode::Network)];
        self.spend(u64::from(backoff.pause()) * unit);
    }

    fn backoff(&self) -> LockBackoff {
        LockBackoff::new(self.costs().backoff)
    }

    fn swap(&self, lock: Lock) -> Had {
        let mut attempt = Attempt::new(Coding::Signed, Exclusive, self.rank, self.members());
        let mut backoff = self.backoff();
        loop {
            let found = self.post(lock, (Word::Network, lock.target), attempt.op(), true);
            match attempt.handle(found) {
                AttemptOutcome::Taken => return Had::Network,
                AttemptOutcome::Again => {}
                AttemptOutcome::Held(_) => self.pause(&mut backoff, LockMode::Network),
                AttemptOutcome::Corrupt(found) => panic!("no member writes {found:#x}"),
            }
        }
    }

    fn either(&self, lock: Lock) -> Had {
        let size = self.members();
        let near = self.is_near(lock.target);
        let mut hybrid = Hybrid::new(Exclusive, self.rank, size, near);
        let (mut backoff, mut mode) = (self.backoff(), LockMode::Cpu);
        loop {
            match hybrid.step() {
                HybridStep::Access(HybridWord::Cpu, op) => {
                    mode = LockMode::Cpu;
                    let found = self.touch(lock, Word::Cpu, op);
                    hybrid.handle(found, &mut *self.state().policies[self.rank as usize]);
                }
                HybridStep::Access(HybridWord::Network, op) => {
                    mode = LockMode::Network;
                    let found = self.post(lock, (Word::Network, lock.target), op, true);
                    hybrid.handle(found, &mut *self.state().policies[self.rank as usize]);
                }
                HybridStep::Ask => match self.say(lock, LockRequest::Lock(Exclusive), true) {
                    Some(Answer::Granted(true)) => return Had::Network,
                    Some(Answer::Granted(false)) => return Had::Managed,
                    Some(Answer::Elsewhere) | None => hybrid.again(),
                },
                HybridStep::Wait(_) => {
                    self.pause(&mut backoff, mode);
                    hybrid.again();
                }
                HybridStep::Taken(LockMode::Cpu) => return Had::Cpu,
                HybridStep::Taken(LockMode::Network) => return Had::Network,
                HybridStep::Corrupt(found) => panic!("no member writes {found:#x}"),
            }
        }
    }

    fn queue(&self, lock: Lock) -> Had {
        let mut mcs = Mcs::new(Exclusive, self.rank, self.members(), false);
        let mut backoff = self.backoff();
        loop {
            match mcs.step() {
                McsStep::Access(word, op) => mcs.handle(self.reach(lock, word, op), |_| false),
                McsStep::Wait(_) => {
                    self.park();
                    mcs.again(None);
                }
                McsStep::Held(_) => {
                    self.pause(&mut backoff, LockMode::Network);
                    mcs.again(None);
                }
                McsStep::Done => return Had::Queue,
                closed => panic!("no member has died: {closed:?}"),
            }
        }
    }

    fn leave_queue(&self, lock: Lock) {
        let mut release = McsRelease::new(Exclusive, self.rank, self.members(), false, true);
        loop {
            match release.step() {
                McsStep::Access(word, op) => release.handle(self.reach(lock, word, op), |_| false),
                McsStep::Wait(_) => {
                    self.park();
                    release.again(false);
                }
                McsStep::Done => return,
                closed => panic!("no member has died: {closed:?}"),
            }
        }
    }

    /// Accesses a word of the queue. A rank reads and writes its own words with its processor.
    fn reach(&self, lock: Lock, word: McsWord, op: WordAccess) -> u64 {
        let (own, at) = match word {
            McsWord::Flag(place) | McsWord::Next(place) => (place == self.rank, place),
            McsWord::Lock | McsWord::Holders => (false, lock.target),
        };
        let known = Word::from(word);
        match op {
            WordAccess::Read if own => self.state().look(lock, known),
            WordAccess::Write(_) if own => {
                self.state().set(lock, known, op);
                0
            }
            // No wait for the device is needed after a release.
            WordAccess::Write(_) | WordAccess::FetchAdd(_) => {
                self.post(lock, (known, at), op, false)
            }
            _ => self.post(lock, (known, at), op, true),
        }
    }
}
