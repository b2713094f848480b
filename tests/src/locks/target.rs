//! The words of a lock, and its manager.

use std::collections::VecDeque;

use strait_core::lock::{
    Coding, HybridWord, LockManager, LockMember, LockMode, LockRequest, LockState, LockType,
    LockWord, McsWord, Migration, MigrationStep, Policy, WordAccess,
};

use super::Design;

/// An answer of the manager.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Answer {
    /// The lock is granted.
    Granted(LockMode),
    /// The lock is at the network word.
    Elsewhere,
    /// A member that shares the lock has died.
    Denied,
}

/// One of the words.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Word {
    /// The word of test-and-set, and the CPU word of the hybrid lock.
    Cpu,
    /// The network word of the hybrid lock.
    Network,
    /// A word of the queue.
    Queue(McsWord),
}

/// The state at the target, and the messages between it and the members.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Target {
    pub(super) design: Design,
    pub(super) on_node: u32,
    cpu: u64,
    network: u64,
    lock: u64,
    sharers: u64,
    flags: Vec<u64>,
    nexts: Vec<u64>,
    /// The members that record that they share the lock, or are about to.
    pub(super) shares: Vec<bool>,
    gone: Vec<bool>,
    pub(super) deaths: u32,
    learnt: Vec<bool>,
    requests: Vec<VecDeque<LockRequest>>,
    pub(super) answers: Vec<Option<Answer>>,
    manager: LockManager<Vec<LockMember>>,
    current: Option<(u32, LockType, Migration)>,
    blocked: Option<(u64, u32)>,
    moved: u64,
    confused: bool,
}

impl Target {
    pub(super) fn new(design: Design, size: u32, on_node: u32) -> Self {
        let members = size as usize;
        let coding = Coding::Ranks { size };
        let mode = match design {
            Design::Hybrid(policy) => policy.preset(),
            _ => LockMode::Cpu,
        };
        let (cpu, network) = match mode {
            LockMode::Cpu => (LockState::Free, LockState::Elsewhere(0)),
            LockMode::Network => (LockState::Elsewhere(0), LockState::Free),
        };
        Self {
            design,
            on_node,
            cpu: Coding::Signed.word(cpu),
            network: coding.word(network),
            lock: 0,
            sharers: 0,
            flags: vec![0; members],
            nexts: vec![0; members],
            shares: vec![false; members],
            gone: vec![false; members],
            deaths: 0,
            learnt: vec![false; members],
            requests: vec![VecDeque::new(); members],
            answers: vec![None; members],
            manager: LockManager::new(vec![LockMember::default(); members]),
            current: None,
            blocked: None,
            moved: 0,
            confused: false,
        }
    }

    pub(super) const fn size(&self) -> u32 {
        self.gone.len() as u32
    }

    fn place(&mut self, word: Word) -> &mut u64 {
        match word {
            Word::Cpu => &mut self.cpu,
            Word::Network => &mut self.network,
            Word::Queue(McsWord::Lock) => &mut self.lock,
            Word::Queue(McsWord::Holders) => &mut self.sharers,
            Word::Queue(McsWord::Flag(place)) => &mut self.flags[place as usize],
            Word::Queue(McsWord::Next(place)) => &mut self.nexts[place as usize],
        }
    }

    pub(super) fn access(&mut self, word: Word, op: WordAccess) -> u64 {
        let place = self.place(word);
        let atomic = LockWord::new(*place);
        let found = atomic.access(op);
        *place = atomic.access(WordAccess::Read);
        found
    }

    pub(super) fn read(&self, word: Word) -> u64 {
        match word {
            Word::Cpu => self.cpu,
            Word::Network => self.network,
            Word::Queue(McsWord::Lock) => self.lock,
            Word::Queue(McsWord::Holders) => self.sharers,
            Word::Queue(McsWord::Flag(place)) => self.flags[place as usize],
            Word::Queue(McsWord::Next(place)) => self.nexts[place as usize],
        }
    }

    /// Returns the word of the queue, which names its last member.
    pub(super) const fn last(&self) -> u64 {
        self.lock
    }

    /// Returns the place of the last member in the queue. If the word names none, returns the place
    /// of the target, which does not die.
    pub(super) fn last_place(&self) -> u32 {
        self.lock.checked_sub(1).and_then(|place| u32::try_from(place).ok()).unwrap_or(0)
    }

    pub(super) fn is_gone(&self, place: u32) -> bool {
        self.gone.get(place as usize).is_none_or(|gone| *gone)
    }

    pub(super) fn lost_sharer(&self) -> bool {
        self.shares.iter().zip(&self.gone).any(|(shares, gone)| *shares && *gone)
    }

    pub(super) fn kill(&mut self, place: u32) {
        self.gone[place as usize] = true;
        self.deaths += 1;
    }

    pub(super) fn request(&mut self, origin: u32, request: LockRequest) {
        self.requests[origin as usize].push_back(request);
    }

    pub(super) fn has_message(&self, origin: u32) -> bool {
        !self.requests[origin as usize].is_empty()
    }

    pub(super) const fn is_confused(&self) -> bool {
        self.confused
    }

    pub(super) fn deliver(&mut self, origin: u32) {
        let Some(request) = self.requests[origin as usize].pop_front() else { return };
        let held = self.manager.held(origin);
        self.confused |= self.manager.handle(origin, request).is_err();
        if request == LockRequest::Unlock {
            self.give_back(origin, held);
        }
    }

    /// Releases the lock that the manager held for a member. If that member has died, a rank of the
    /// node may have taken it already.
    fn give_back(&mut self, origin: u32, held: Option<LockType>) {
        let coding = Coding::Signed;
        let (Some(lock_type), Design::Hybrid(_)) = (held, self.design) else { return };
        let op = match lock_type {
            LockType::Shared => coding.release(lock_type, origin),
            LockType::Exclusive => {
                let expected = coding.word(LockState::One(origin));
                WordAccess::CompareAndSwap { expected, desired: coding.word(LockState::Free) }
            }
        };
        self.access(Word::Cpu, op);
    }

    /// Returns whether the manager can learn of a death: only after all messages of the dead
    /// member.
    pub(super) fn can_learn(&self, place: u32) -> bool {
        self.is_gone(place) && !self.learnt[place as usize] && !self.has_message(place)
    }

    pub(super) fn learn(&mut self, place: u32) {
        self.learnt[place as usize] = true;
        let held = self.manager.revoke(place);
        self.give_back(place, held);
        let dropped =
            self.current.take_if(|(origin, _, migration)| *origin == place && !migration.abandon());
        if dropped.is_some() {
            self.blocked = None;
        }
    }

    pub(super) fn can_manage(&self) -> bool {
        match (&self.current, self.blocked) {
            (Some((origin, ..)), Some((found, deaths))) => {
                self.cpu != found
                    || self.deaths != deaths
                    || self.is_held_by_the_lost()
                    || self.manager.first().is_some_and(|(first, _)| first != *origin)
            }
            (Some(_), None) => true,
            (None, _) => self.manager.first().is_some(),
        }
    }

    fn is_held_by_the_lost(&self) -> bool {
        match Coding::Signed.state(self.cpu) {
            LockState::One(place) => self.is_gone(place),
            LockState::Sharers(_) => self.lost_sharer(),
            LockState::Free | LockState::Elsewhere(_) => false,
        }
    }

    /// Takes one step of the manager.
    pub(super) fn manage(&mut self) {
        let first = self.manager.first();
        self.current.take_if(|(origin, _, migration)| {
            first.is_some_and(|(first, _)| first != *origin) && migration.is_at_start()
        });
        let current = self.current.map(|(origin, lock_type, _)| (origin, lock_type));
        let Some((origin, lock_type)) = current.or(first) else { return };
        let Design::Hybrid(policy) = &mut self.design else {
            self.manager.grant(origin);
            self.answers[origin as usize] = Some(Answer::Granted(LockMode::Cpu));
            return;
        };
        let (.., mut migration) = self.current.unwrap_or_else(|| {
            let moves = policy.migrates(LockMode::Cpu).then_some(self.moved + 1);
            let size = self.gone.len() as u32;
            (origin, lock_type, Migration::new(origin, lock_type, 0, size, moves))
        });
        self.blocked = None;
        let mut denied = false;
        match migration.step() {
            MigrationStep::Access(HybridWord::Cpu, op) => {
                let found = self.access(Word::Cpu, op);
                migration.handle(found);
                if let MigrationStep::Blocked(_) = migration.step() {
                    self.blocked = Some((found, self.deaths));
                }
            }
            MigrationStep::Access(HybridWord::Network, op) => {
                migration.handle(self.access(Word::Network, op));
            }
            MigrationStep::Blocked(LockState::One(holder)) if self.is_gone(holder) => {
                migration.inherit();
            }
            MigrationStep::Blocked(LockState::Sharers(_)) if self.lost_sharer() => denied = true,
            MigrationStep::Blocked(_) => migration.again(),
            MigrationStep::Granted(_) | MigrationStep::Elsewhere => {}
            MigrationStep::Corrupt(found) => panic!("no member writes {found:#x}"),
        }
        self.current = Some((origin, lock_type, migration));
        let answer = match migration.step() {
            MigrationStep::Granted(mode) => Answer::Granted(mode),
            MigrationStep::Elsewhere => Answer::Elsewhere,
            _ if denied => Answer::Denied,
            _ => return,
        };
        self.current = None;
        self.moved += u64::from(answer == Answer::Granted(LockMode::Network));
        if self.learnt[origin as usize] {
            // The request was revoked when it was half done. The next member takes the lock from an
            // exclusive holder.
            if answer == Answer::Granted(LockMode::Network) && lock_type == LockType::Shared {
                let coding = Coding::Ranks { size: self.size() };
                self.access(Word::Network, coding.release(lock_type, origin));
            }
            return;
        }
        match answer {
            Answer::Granted(LockMode::Cpu) => self.manager.grant(origin),
            Answer::Granted(LockMode::Network) | Answer::Elsewhere | Answer::Denied => {
                self.manager.dismiss(origin);
            }
        }
        self.answers[origin as usize] = Some(answer);
    }
}
