//! A lock that migrates between atomics of the processor and of the device (`[HybridLock09]` §4).
//!
//! It has two words beside the target's part. In CPU mode the CPU word says who has the lock, and the network word that it is in
//! CPU mode; in network mode it is the other way round. So each word is also the mode, the CPU word is changed by processors of
//! the node alone and the network word by devices alone, and who takes a word has the lock, with one swap.
//!
//! To network mode the lock goes by the target's lock manager ([`super::Migration`]), which takes both words. To CPU mode it goes by
//! whoever on the node finds it in network mode and takes both: no manager has to be asked, because every rank of the node reaches
//! both. It takes the network word, then says there that the lock is in CPU mode. Now neither word has a holder, and whoever of
//! the node comes first takes the CPU word: a member, or the manager for a member on another node.
//! The CPU word says how often the lock has left it, so a member that comes late takes nothing.

use super::{Attempt, Coding, LockType, Mode, Op, Outcome, Policy, State};

/// One of the two words.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum HybridWord {
    /// Changed by processors.
    Cpu,
    /// Changed by devices.
    Network,
}

/// What a member that wants the lock does next.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum HybridStep {
    /// It accesses a word, and says what it found ([`Hybrid::handle`]).
    Access(HybridWord, Op),
    /// It asks the target's lock manager. When told to look elsewhere it goes on ([`Hybrid::again`]).
    Ask,
    /// It waits, and goes on ([`Hybrid::again`]).
    Wait(State),
    /// It has the lock, in this mode.
    Taken(Mode),
    /// It gives up: no member can have left the word that it has found.
    Corrupt(u64),
}

/// One member that wants the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Hybrid {
    cpu: Attempt,
    network: Attempt,
    /// The network word for this member alone, to move the lock.
    both: Attempt,
    lock_type: LockType,
    signs: Signs,
    on_node: bool,
    /// Whether it moves the lock, if it found it in the wrong mode.
    moves: Option<bool>,
    /// When it saw the lock leave the CPU word.
    left: u64,
    moved: bool,
    at: At,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum At {
    Cpu,
    Network,
    Moving,
    Leaving,
    Asking,
    Waiting(Place, State),
    Done(Mode),
    Corrupt(u64),
}

/// Where a member waits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Place {
    Cpu,
    Network,
    Moving,
}

/// What this member's accesses to the network word look like.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Signs {
    ours: u64,
    cpu_mode: u64,
}

impl Hybrid {
    /// The member in `place` of `size` wants the lock. `on_node`: it reaches the CPU word.
    #[must_use]
    pub const fn new(lock_type: LockType, place: u32, size: u32, on_node: bool) -> Self {
        let coding = Coding::Ranks { size };
        Self {
            cpu: Attempt::new(Coding::Signed, lock_type, place, size).of_two_words(true),
            network: Attempt::new(coding, lock_type, place, size).of_two_words(false),
            both: Attempt::new(coding, LockType::Exclusive, place, size).of_two_words(false),
            lock_type,
            signs: Signs {
                ours: coding.word(State::One(place)),
                cpu_mode: coding.word(State::Elsewhere(0)),
            },
            on_node,
            moves: None,
            left: 0,
            moved: false,
            at: if on_node { At::Cpu } else { At::Network },
        }
    }

    /// What to do next.
    #[must_use]
    pub const fn step(&self) -> HybridStep {
        match self.at {
            At::Cpu => HybridStep::Access(HybridWord::Cpu, self.cpu.op()),
            At::Network => HybridStep::Access(HybridWord::Network, self.network.op()),
            At::Moving => HybridStep::Access(HybridWord::Network, self.both.op()),
            At::Leaving => {
                let Signs { ours: expected, cpu_mode: desired } = self.signs;
                HybridStep::Access(HybridWord::Network, Op::CompareAndSwap { expected, desired })
            }
            At::Asking => HybridStep::Ask,
            At::Waiting(_, state) => HybridStep::Wait(state),
            At::Done(mode) => HybridStep::Taken(mode),
            At::Corrupt(found) => HybridStep::Corrupt(found),
        }
    }

    /// Takes in what the access found.
    pub fn handle(&mut self, found: u64, policy: &mut dyn Policy) {
        self.moved = self.at == At::Leaving && found == self.signs.ours;
        self.at = match self.at {
            At::Cpu => match self.cpu.handle(found) {
                Outcome::Taken => At::Done(Mode::Cpu),
                Outcome::Again => At::Cpu,
                Outcome::Held(State::Elsewhere(left)) => {
                    self.left = left;
                    match *self.moves.get_or_insert_with(|| policy.migrates(Mode::Network)) {
                        true => At::Moving,
                        false => At::Network,
                    }
                }
                Outcome::Held(state) => At::Waiting(Place::Cpu, state),
                Outcome::Corrupt(found) => At::Corrupt(found),
            },
            At::Network => match self.network.handle(found) {
                Outcome::Taken => At::Done(Mode::Network),
                Outcome::Again => At::Network,
                Outcome::Held(State::Elsewhere(_)) => self.in_cpu_mode(),
                Outcome::Held(state) => At::Waiting(Place::Network, state),
                Outcome::Corrupt(found) => At::Corrupt(found),
            },
            At::Moving => match self.both.handle(found) {
                Outcome::Taken => At::Leaving,
                Outcome::Again => At::Moving,
                Outcome::Held(State::Elsewhere(_)) => self.in_cpu_mode(),
                // Others share the lock, and so does this member: they may be waiting for it before they give theirs back.
                Outcome::Held(State::Sharers(_)) if self.lock_type == LockType::Shared => {
                    self.moves = Some(false);
                    At::Network
                }
                Outcome::Held(state) => At::Waiting(Place::Moving, state),
                Outcome::Corrupt(found) => At::Corrupt(found),
            },
            At::Leaving if self.moved => self.in_cpu_mode(),
            // Somebody took this member for dead.
            At::Leaving => At::Cpu,
            at => at,
        };
    }

    /// Whether this member has just moved the lock to CPU mode, where it is anybody's of the node.
    #[must_use]
    pub const fn has_moved(&self) -> bool {
        self.moved
    }

    /// The network word says that the lock is in CPU mode.
    const fn in_cpu_mode(&mut self) -> At {
        if self.on_node {
            self.cpu.take_over(State::Elsewhere(self.left));
            At::Cpu
        } else {
            At::Asking
        }
    }

    /// Goes on after a wait, or after the lock manager said that it does not have the lock.
    pub const fn again(&mut self) {
        self.at = if self.on_node { At::Cpu } else { At::Network };
    }

    /// Goes on after a wait for a member that has died: takes the lock over from it.
    pub const fn inherit(&mut self) {
        let At::Waiting(place, state) = self.at else { return };
        self.at = match place {
            Place::Cpu => {
                self.cpu.take_over(state);
                At::Cpu
            }
            Place::Network => {
                self.network.take_over(state);
                At::Network
            }
            Place::Moving => {
                self.both.take_over(state);
                At::Moving
            }
        };
    }
}
