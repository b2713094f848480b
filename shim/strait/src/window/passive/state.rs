//! The locks of a window, as one member sees them.

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use strait_core::lock::{LockMode, LockWord, LockWords, Policy};

use super::standing::LockStanding;
use super::steps::Pursuit;
use crate::LockDesign;

/// The lock of one target, as this member sees it.
#[derive(Debug)]
pub(super) struct LockTarget {
    pub(super) standing: Cell<LockStanding>,
    /// The CPU word, if this member takes the lock there.
    pub(super) cpu: Option<NonNull<LockWord>>,
    /// The word that says whether this member shares the lock, if all members take the lock at the
    /// CPU word.
    pub(super) share: Option<NonNull<LockWord>>,
}

/// The method by which locks are taken in a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LockMethod {
    /// Requests to lock managers.
    Managers,
    /// Test-and-set at CPU words: the members are on one node.
    Cpu,
    /// Test-and-set at network words.
    Network,
    /// Test-and-set at words for processors of the node and for devices: their atomics agree.
    Coherent,
    /// Queues, by processors or by devices.
    Queue(LockMode),
    /// The two words of hybrid locks.
    Hybrid,
}

impl LockMethod {
    /// Returns whether members take the lock of a part on their node by the processor.
    pub(super) const fn has_word_for_processors(self) -> bool {
        matches!(self, Self::Cpu | Self::Hybrid | Self::Coherent)
    }

    /// Returns the offset of the word that processors access.
    pub(super) const fn word_for_processors(self) -> usize {
        match self {
            Self::Coherent => LockWords::COHERENT,
            _ => LockWords::CPU,
        }
    }
}

/// Counters of a member for the locks of a window, and the mode of its own lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LockCounters {
    /// The mode of the lock of this member's part.
    pub mode: LockMode,
    /// Number of times that this member's lock manager has moved that lock to network mode.
    pub to_network: u64,
    /// Number of times that this member has moved a lock to CPU mode.
    pub to_cpu: u64,
    /// Number of accesses of this member to words of locks by the device.
    pub accesses: u64,
    /// Number of requests of this member to lock managers.
    pub requests: u64,
}

/// The counters of one member.
#[derive(Debug, Default)]
pub(super) struct LockCounts {
    pub(super) to_cpu: Cell<u64>,
    pub(super) accesses: Cell<u64>,
    pub(super) requests: Cell<u64>,
}

pub(super) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// The locks of a window, as one member sees them.
pub(in crate::window) struct Passive {
    pub(super) asked: LockDesign,
    pub(super) design: LockDesign,
    pub(super) way: LockMethod,
    pub(super) targets: Box<[LockTarget]>,
    pub(super) pursuits: RefCell<Vec<(u32, Pursuit)>>,
    /// True between `lock_all` and `unlock_all`.
    pub(super) all: Cell<bool>,
    pub(super) policy: RefCell<Box<dyn Policy + Send>>,
    /// Largest number of units of a back-off.
    pub(super) backoff: u32,
    pub(super) manager: Option<u64>,
    pub(super) counts: LockCounts,
}

impl Passive {
    /// Returns the mode of a lock if its CPU word does not say that the lock is elsewhere.
    pub(super) const fn mode_without_mark(&self) -> LockMode {
        match self.way {
            LockMethod::Network | LockMethod::Queue(LockMode::Network) => LockMode::Network,
            LockMethod::Managers
            | LockMethod::Cpu
            | LockMethod::Coherent
            | LockMethod::Queue(LockMode::Cpu)
            | LockMethod::Hybrid => LockMode::Cpu,
        }
    }
}
