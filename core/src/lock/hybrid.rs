//! A lock that migrates between atomics of the processor and of the device (`[HybridLock09]` §4).
//!
//! The lock has two words beside the target's part. In CPU mode the CPU word names the holder, and
//! the network word says that the lock is in CPU mode. In network mode the roles are reversed. So
//! each word also tells the mode. Only processors of the node change the CPU word, and only devices
//! change the network word. A member that takes a word has the lock, with one swap.
//!
//! The target's lock manager ([`super::Migration`]) moves the lock to network mode: it takes both
//! words. A member on the node that finds the lock in network mode may move it to CPU mode. This
//! member needs no manager, because every rank of the node reaches both words. It takes the network
//! word and then stores there that the lock is in CPU mode.
//!
//! Now neither word has a holder. The first rank of the node takes the CPU word: a member, or the
//! manager on behalf of a member on another node. The CPU word counts how often the lock has left
//! it, so a member that comes late takes nothing.

use super::{Attempt, AttemptOutcome, Coding, LockMode, LockState, LockType, Policy, WordAccess};

/// One of the two words of the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum HybridWord {
    /// The CPU word, which processors change.
    Cpu,
    /// The network word, which devices change.
    Network,
}

/// The next step of a member that wants the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum HybridStep {
    /// Access a word and pass the value found to [`Hybrid::handle`].
    Access(HybridWord, WordAccess),
    /// Ask the target's lock manager. If it answers that the lock is elsewhere, continue with
    /// [`Hybrid::again`].
    Ask,
    /// Wait, then continue with [`Hybrid::again`].
    Wait(LockState),
    /// The member has the lock, in this mode.
    Taken(LockMode),
    /// Give up: the word found has a value that no member can have written.
    Corrupt(u64),
}

/// The state of one member that wants the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Hybrid {
    cpu: Attempt,
    network: Attempt,
    /// An exclusive attempt at the network word, which moves the lock.
    both: Attempt,
    lock_type: LockType,
    signs: ModeMarks,
    on_node: bool,
    /// Decision whether to move the lock, made when it is first found in the wrong mode.
    moves: Option<bool>,
    /// Number of departures that the CPU word stated when this member last found the lock
    /// elsewhere.
    left: u64,
    moved: bool,
    at: HybridState,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum HybridState {
    Cpu,
    Network,
    Moving,
    Leaving,
    Asking,
    Waiting(WaitSide, LockState),
    Done(LockMode),
    Corrupt(u64),
}

/// The word at which a member waits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum WaitSide {
    Cpu,
    Network,
    Moving,
}

/// Values that this member writes to the network word.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct ModeMarks {
    ours: u64,
    cpu_mode: u64,
}

impl Hybrid {
    /// Creates the state of member `place`, of `size`, which wants the lock. `on_node` says whether
    /// it reaches the CPU word.
    #[must_use]
    pub const fn new(lock_type: LockType, place: u32, size: u32, on_node: bool) -> Self {
        let coding = Coding::Ranks { size };
        Self {
            cpu: Attempt::new(Coding::Signed, lock_type, place, size).of_two_words(true),
            network: Attempt::new(coding, lock_type, place, size).of_two_words(false),
            both: Attempt::new(coding, LockType::Exclusive, place, size).of_two_words(false),
            lock_type,
            signs: ModeMarks {
                ours: coding.word(LockState::One(place)),
                cpu_mode: coding.word(LockState::Elsewhere(0)),
            },
            on_node,
            moves: None,
            left: 0,
            moved: false,
            at: if on_node { HybridState::Cpu } else { HybridState::Network },
        }
    }

    /// Returns the next step.
    #[must_use]
    pub const fn step(&self) -> HybridStep {
        match self.at {
            HybridState::Cpu => HybridStep::Access(HybridWord::Cpu, self.cpu.op()),
            HybridState::Network => HybridStep::Access(HybridWord::Network, self.network.op()),
            HybridState::Moving => HybridStep::Access(HybridWord::Network, self.both.op()),
            HybridState::Leaving => {
                let ModeMarks { ours: expected, cpu_mode: desired } = self.signs;
                HybridStep::Access(
                    HybridWord::Network,
                    WordAccess::CompareAndSwap { expected, desired },
                )
            }
            HybridState::Asking => HybridStep::Ask,
            HybridState::Waiting(_, state) => HybridStep::Wait(state),
            HybridState::Done(mode) => HybridStep::Taken(mode),
            HybridState::Corrupt(found) => HybridStep::Corrupt(found),
        }
    }

    /// Processes the value that the access found.
    pub fn handle(&mut self, found: u64, policy: &mut dyn Policy) {
        self.moved = self.at == HybridState::Leaving && found == self.signs.ours;
        self.at = match self.at {
            HybridState::Cpu => match self.cpu.handle(found) {
                AttemptOutcome::Taken => {
                    if self.moves.is_none() {
                        policy.suits(LockMode::Cpu);
                    }
                    HybridState::Done(LockMode::Cpu)
                }
                AttemptOutcome::Again => HybridState::Cpu,
                AttemptOutcome::Held(LockState::Elsewhere(left)) => {
                    self.left = left;
                    match *self.moves.get_or_insert_with(|| policy.migrates(LockMode::Network)) {
                        true => HybridState::Moving,
                        false => HybridState::Network,
                    }
                }
                AttemptOutcome::Held(state) => HybridState::Waiting(WaitSide::Cpu, state),
                AttemptOutcome::Corrupt(found) => HybridState::Corrupt(found),
            },
            HybridState::Network => match self.network.handle(found) {
                AttemptOutcome::Taken => HybridState::Done(LockMode::Network),
                AttemptOutcome::Again => HybridState::Network,
                AttemptOutcome::Held(LockState::Elsewhere(_)) => self.in_cpu_mode(),
                AttemptOutcome::Held(state) => HybridState::Waiting(WaitSide::Network, state),
                AttemptOutcome::Corrupt(found) => HybridState::Corrupt(found),
            },
            HybridState::Moving => match self.both.handle(found) {
                AttemptOutcome::Taken => HybridState::Leaving,
                AttemptOutcome::Again => HybridState::Moving,
                AttemptOutcome::Held(LockState::Elsewhere(_)) => self.in_cpu_mode(),
                // Other members share the lock, and this member wants to share it too. They may be
                // waiting for it before they release the lock, so it must not wait for them.
                AttemptOutcome::Held(LockState::Sharers(_))
                    if self.lock_type == LockType::Shared =>
                {
                    self.moves = Some(false);
                    HybridState::Network
                }
                AttemptOutcome::Held(state) => HybridState::Waiting(WaitSide::Moving, state),
                AttemptOutcome::Corrupt(found) => HybridState::Corrupt(found),
            },
            HybridState::Leaving if self.moved => self.in_cpu_mode(),
            // Another member took this member for dead.
            HybridState::Leaving => HybridState::Cpu,
            at => at,
        };
    }

    /// Returns true if this member has just moved the lock to CPU mode, where any rank of the node
    /// may take it.
    #[must_use]
    pub const fn has_moved(&self) -> bool {
        self.moved
    }

    /// Returns the next state after the network word said that the lock is in CPU mode.
    const fn in_cpu_mode(&mut self) -> HybridState {
        if self.on_node {
            self.cpu.take_over(LockState::Elsewhere(self.left));
            HybridState::Cpu
        } else {
            HybridState::Asking
        }
    }

    /// Continues after a wait, or after the lock manager said that it does not have the lock.
    pub const fn again(&mut self) {
        self.at = if self.on_node { HybridState::Cpu } else { HybridState::Network };
    }

    /// Continues after a wait for a member that has died: takes the lock over from it.
    pub const fn inherit(&mut self) {
        let HybridState::Waiting(place, state) = self.at else { return };
        self.at = match place {
            WaitSide::Cpu => {
                self.cpu.take_over(state);
                HybridState::Cpu
            }
            WaitSide::Network => {
                self.network.take_over(state);
                HybridState::Network
            }
            WaitSide::Moving => {
                self.both.take_over(state);
                HybridState::Moving
            }
        };
    }
}
