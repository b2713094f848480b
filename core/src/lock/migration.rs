//! What the lock manager does for a member on another node that finds the lock in CPU mode (`[HybridLock09]` §4.1, figures 4 and 5).
//!
//! It takes the CPU word on the member's behalf; or it takes both words, gives the member the network word, and says in the CPU word
//! that the lock is in network mode: in this order, so that at no moment a third finds either of them free.
//!
//! Both words say *elsewhere* after a rank of the node has moved the lock to CPU mode, until a rank
//! of the node takes the CPU word. The rank that moved the lock may have died, and no other rank of
//! the node may want the lock. So a manager that finds *elsewhere* in the CPU word looks at the
//! network word. If that says CPU mode, the manager takes the CPU word, as any rank of the node may.

use super::{Attempt, Coding, HybridWord, LockType, Mode, Op, Outcome, State};

/// What the manager does next.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MigrationStep {
    /// It accesses a word, and says what it found ([`Migration::handle`]).
    Access(HybridWord, Op),
    /// The CPU word is held; it looks again later ([`Migration::again`]).
    Blocked(State),
    /// The member has the lock: in CPU mode the manager holds it for the member, in network mode the member itself does.
    Granted(Mode),
    /// The lock is in network mode already: the member is to look there.
    Elsewhere,
    /// No member can have left the CPU word that the manager has found: the member does not get the lock.
    Corrupt(u64),
}

/// One request under way.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Migration {
    cpu: Attempt,
    origin: u32,
    lock_type: LockType,
    size: u32,
    moves: bool,
    /// What the words say before and after.
    cpu_mode: u64,
    theirs: u64,
    ours: u64,
    left: u64,
    /// Whether the member has died.
    abandoned: bool,
    step: At,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum At {
    TakingCpu,
    /// The CPU word says this, and the network word is read.
    ReadingNetwork(State),
    TakingNetwork,
    Marking,
    GivingBack,
    Blocked(State),
    Granted(Mode),
    Elsewhere,
    Corrupt(u64),
}

impl Migration {
    /// The member in place `origin` wants the lock of the one in place `home`, of `size`. `moves`: by a migration, which is the
    /// `time`th of this lock. No other has this number.
    #[must_use]
    pub const fn new(
        origin: u32,
        lock_type: LockType,
        home: u32,
        size: u32,
        moves: Option<u64>,
    ) -> Self {
        let network = Coding::Ranks { size };
        let (cpu_type, place) = match moves {
            Some(_) => (LockType::Exclusive, home),
            None => (lock_type, origin),
        };
        let time = match moves {
            Some(time) => time,
            None => 0,
        };
        let theirs = match lock_type {
            LockType::Exclusive => State::One(origin),
            LockType::Shared => State::Sharers(1),
        };
        Self {
            cpu: Attempt::new(Coding::Signed, cpu_type, place, size).of_two_words(true),
            origin,
            lock_type,
            size,
            moves: moves.is_some(),
            cpu_mode: network.word(State::Elsewhere(0)),
            theirs: network.word(theirs),
            ours: Coding::Signed.word(State::One(home)),
            left: Coding::Signed.word(State::Elsewhere(time)),
            abandoned: false,
            step: At::TakingCpu,
        }
    }

    /// What to do next.
    #[must_use]
    pub const fn step(&self) -> MigrationStep {
        match self.step {
            At::TakingCpu => MigrationStep::Access(HybridWord::Cpu, self.cpu.op()),
            // A device reads by a compare-and-swap that changes nothing.
            At::ReadingNetwork(_) => {
                let (expected, desired) = (self.cpu_mode, self.cpu_mode);
                MigrationStep::Access(HybridWord::Network, Op::CompareAndSwap { expected, desired })
            }
            At::TakingNetwork => {
                let (expected, desired) = (self.cpu_mode, self.theirs);
                MigrationStep::Access(HybridWord::Network, Op::CompareAndSwap { expected, desired })
            }
            At::Marking => {
                let (expected, desired) = (self.ours, self.left);
                MigrationStep::Access(HybridWord::Cpu, Op::CompareAndSwap { expected, desired })
            }
            At::GivingBack => {
                let op = Op::FetchAdd(self.ours.wrapping_neg());
                MigrationStep::Access(HybridWord::Cpu, op)
            }
            At::Blocked(state) => MigrationStep::Blocked(state),
            At::Granted(mode) => MigrationStep::Granted(mode),
            At::Elsewhere => MigrationStep::Elsewhere,
            At::Corrupt(found) => MigrationStep::Corrupt(found),
        }
    }

    /// Notes that the member has died. Returns whether the manager goes on all the same: it has the
    /// CPU word, or the device accesses the network word. Otherwise the request is dropped.
    #[must_use]
    pub const fn abandon(&mut self) -> bool {
        self.abandoned = true;
        matches!(
            self.step,
            At::ReadingNetwork(_) | At::TakingNetwork | At::Marking | At::GivingBack
        )
    }

    /// Whether the member has died since the request was begun.
    #[must_use]
    pub const fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Takes in what the access found.
    pub fn handle(&mut self, found: u64) {
        self.step = match self.step {
            At::TakingCpu => match self.cpu.handle(found) {
                Outcome::Taken if self.moves => At::TakingNetwork,
                Outcome::Taken => At::Granted(Mode::Cpu),
                Outcome::Again => At::TakingCpu,
                Outcome::Held(state @ State::Elsewhere(_)) => At::ReadingNetwork(state),
                // Others share the lock, and so does the member: they may be waiting for it before they give theirs back.
                Outcome::Held(State::Sharers(_))
                    if self.moves && self.lock_type == LockType::Shared =>
                {
                    self.moves = false;
                    let (shared, place) = (LockType::Shared, self.origin);
                    self.cpu =
                        Attempt::new(Coding::Signed, shared, place, self.size).of_two_words(true);
                    At::TakingCpu
                }
                Outcome::Held(state) => At::Blocked(state),
                Outcome::Corrupt(found) => At::Corrupt(found),
            },
            At::ReadingNetwork(state) if found == self.cpu_mode && !self.abandoned => {
                self.cpu.take_over(state);
                At::TakingCpu
            }
            At::ReadingNetwork(_) => At::Elsewhere,
            At::TakingNetwork if found == self.cpu_mode => At::Marking,
            // Nobody writes the network word in CPU mode; whoever did has the lock.
            At::TakingNetwork => At::GivingBack,
            At::Marking => At::Granted(Mode::Network),
            At::GivingBack => At::Elsewhere,
            at => at,
        };
    }

    /// Looks again.
    pub const fn again(&mut self) {
        if let At::Blocked(_) = self.step {
            self.step = At::TakingCpu;
        }
    }

    /// Looks again, and takes the CPU word over from the member that it names, which has died.
    pub const fn inherit(&mut self) {
        if let At::Blocked(state) = self.step {
            self.cpu.take_over(state);
            self.step = At::TakingCpu;
        }
    }
}
