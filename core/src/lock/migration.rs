//! The lock manager's work for a member on another node that finds the lock in CPU mode
//! (`[HybridLock09]` §4.1, figures 4 and 5).
//!
//! The manager takes the CPU word on the member's behalf. Or it migrates the lock: it takes the CPU
//! word, gives the member the network word, and stores in the CPU word that the lock is in network
//! mode. In this order, no third member finds either word free at any moment.
//!
//! After a rank of the node has moved the lock to CPU mode, both words say *elsewhere* until a rank
//! of the node takes the CPU word. The rank that moved the lock may have died, and no other rank of
//! the node may want the lock. So a manager that finds *elsewhere* in the CPU word looks at the
//! network word. If that says CPU mode, the manager takes the CPU word, as any rank of the node
//! may.

use super::{
    Attempt, AttemptOutcome, Coding, HybridWord, LockMode, LockState, LockType, WordAccess,
};

/// The next step of the manager.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MigrationStep {
    /// Access a word and pass the value found to [`Migration::handle`].
    Access(HybridWord, WordAccess),
    /// The CPU word is held. The manager looks again later ([`Migration::again`]).
    Blocked(LockState),
    /// The member has the lock. In CPU mode the manager holds it for the member; in network mode
    /// the member itself does.
    Granted(LockMode),
    /// The lock is in network mode already. The member must look there.
    Elsewhere,
    /// The CPU word has a value that no member can have written. The member does not get the lock.
    Corrupt(u64),
}

/// The state of one request in progress.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Migration {
    cpu: Attempt,
    origin: u32,
    lock_type: LockType,
    size: u32,
    moves: bool,
    /// Values of the words before and after the migration.
    cpu_mode: u64,
    theirs: u64,
    ours: u64,
    left: u64,
    /// True if the member has died.
    abandoned: bool,
    step: MigrationState,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum MigrationState {
    TakingCpu,
    /// The CPU word has this state, and the network word is being read.
    ReadingNetwork(LockState),
    TakingNetwork,
    Marking,
    GivingBack,
    Blocked(LockState),
    Granted(LockMode),
    Elsewhere,
    Corrupt(u64),
}

impl Migration {
    /// Creates the request of member `origin` for the lock of member `home`, of `size` members.
    ///
    /// A `moves` of `Some(time)` asks for a migration, number `time` of this lock. No other
    /// migration has this number.
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
            LockType::Exclusive => LockState::One(origin),
            LockType::Shared => LockState::Sharers(1),
        };
        Self {
            cpu: Attempt::new(Coding::Signed, cpu_type, place, size).of_two_words(true),
            origin,
            lock_type,
            size,
            moves: moves.is_some(),
            cpu_mode: network.word(LockState::Elsewhere(0)),
            theirs: network.word(theirs),
            ours: Coding::Signed.word(LockState::One(home)),
            left: Coding::Signed.word(LockState::Elsewhere(time)),
            abandoned: false,
            step: MigrationState::TakingCpu,
        }
    }

    /// Returns the next step.
    #[must_use]
    pub const fn step(&self) -> MigrationStep {
        match self.step {
            MigrationState::TakingCpu => MigrationStep::Access(HybridWord::Cpu, self.cpu.op()),
            // A device reads by a compare-and-swap that changes nothing.
            MigrationState::ReadingNetwork(_) => {
                let (expected, desired) = (self.cpu_mode, self.cpu_mode);
                MigrationStep::Access(
                    HybridWord::Network,
                    WordAccess::CompareAndSwap { expected, desired },
                )
            }
            MigrationState::TakingNetwork => {
                let (expected, desired) = (self.cpu_mode, self.theirs);
                MigrationStep::Access(
                    HybridWord::Network,
                    WordAccess::CompareAndSwap { expected, desired },
                )
            }
            MigrationState::Marking => {
                let (expected, desired) = (self.ours, self.left);
                MigrationStep::Access(
                    HybridWord::Cpu,
                    WordAccess::CompareAndSwap { expected, desired },
                )
            }
            MigrationState::GivingBack => {
                let op = WordAccess::FetchAdd(self.ours.wrapping_neg());
                MigrationStep::Access(HybridWord::Cpu, op)
            }
            MigrationState::Blocked(state) => MigrationStep::Blocked(state),
            MigrationState::Granted(mode) => MigrationStep::Granted(mode),
            MigrationState::Elsewhere => MigrationStep::Elsewhere,
            MigrationState::Corrupt(found) => MigrationStep::Corrupt(found),
        }
    }

    /// Records that the member has died. Returns true if the manager continues nevertheless,
    /// because it has the CPU word or the device accesses the network word. Else the request is
    /// dropped.
    #[must_use]
    pub const fn abandon(&mut self) -> bool {
        self.abandoned = true;
        matches!(
            self.step,
            MigrationState::ReadingNetwork(_)
                | MigrationState::TakingNetwork
                | MigrationState::Marking
                | MigrationState::GivingBack
        )
    }

    /// Returns true if the request may be dropped and begun anew: it has taken no word, and no
    /// device accesses one for it.
    #[must_use]
    pub const fn is_at_start(&self) -> bool {
        matches!(self.step, MigrationState::TakingCpu | MigrationState::Blocked(_))
    }

    /// Returns true if the member has died since the request began.
    #[must_use]
    pub const fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Processes the value that the access found.
    pub fn handle(&mut self, found: u64) {
        self.step = match self.step {
            MigrationState::TakingCpu => match self.cpu.handle(found) {
                AttemptOutcome::Taken if self.moves => MigrationState::TakingNetwork,
                AttemptOutcome::Taken => MigrationState::Granted(LockMode::Cpu),
                AttemptOutcome::Again => MigrationState::TakingCpu,
                AttemptOutcome::Held(state @ LockState::Elsewhere(_)) => {
                    MigrationState::ReadingNetwork(state)
                }
                // Other members share the lock, and this member wants to share it too. They may be
                // waiting for it before they release the lock, so it must not wait for them.
                AttemptOutcome::Held(LockState::Sharers(_))
                    if self.moves && self.lock_type == LockType::Shared =>
                {
                    self.moves = false;
                    let (shared, place) = (LockType::Shared, self.origin);
                    self.cpu =
                        Attempt::new(Coding::Signed, shared, place, self.size).of_two_words(true);
                    MigrationState::TakingCpu
                }
                AttemptOutcome::Held(state) => MigrationState::Blocked(state),
                AttemptOutcome::Corrupt(found) => MigrationState::Corrupt(found),
            },
            MigrationState::ReadingNetwork(state) if found == self.cpu_mode && !self.abandoned => {
                self.cpu.take_over(state);
                MigrationState::TakingCpu
            }
            MigrationState::ReadingNetwork(_) => MigrationState::Elsewhere,
            MigrationState::TakingNetwork if found == self.cpu_mode => MigrationState::Marking,
            // In CPU mode only this manager writes the network word. Any other member that changed
            // the word has the lock.
            MigrationState::TakingNetwork => MigrationState::GivingBack,
            MigrationState::Marking => MigrationState::Granted(LockMode::Network),
            MigrationState::GivingBack => MigrationState::Elsewhere,
            at => at,
        };
    }

    /// Looks again.
    pub const fn again(&mut self) {
        if let MigrationState::Blocked(_) = self.step {
            self.step = MigrationState::TakingCpu;
        }
    }

    /// Looks again, and takes the CPU word over from the member that it names, which has died.
    pub const fn inherit(&mut self) {
        if let MigrationState::Blocked(state) = self.step {
            self.cpu.take_over(state);
            self.step = MigrationState::TakingCpu;
        }
    }
}
