//! Policies that decide when a lock of two modes migrates (`[HybridLock09]` §4.2).

/// The word at which a lock is taken.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LockMode {
    /// The CPU word: atomics of the processor on the target's node. Members on other nodes go
    /// through the target's lock manager.
    Cpu,
    /// The network word: atomics of the device, for all members.
    Network,
}

/// Decides whether a request moves the lock to the mode that suits it.
///
/// Each member consults its own policy. The policy of the target's lock manager decides for
/// requests from other nodes.
pub trait Policy {
    /// Returns the initial mode of a lock.
    fn preset(&self) -> LockMode {
        LockMode::Cpu
    }

    /// Decides about a request that found the lock in `from`, the mode that does not suit it.
    /// Returns true if the lock migrates.
    fn migrates(&mut self, from: LockMode) -> bool;

    /// Learns of a request that found the lock in `mode`, which suits it.
    fn suits(&mut self, mode: LockMode) {
        let _ = mode;
    }
}

/// The paper's policy: each request that finds the lock in the wrong mode moves it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Follow;

impl Policy for Follow {
    fn migrates(&mut self, _from: LockMode) -> bool {
        true
    }
}

/// A policy of hysteresis. A lock moves when a given number of requests have found it in the
/// wrong mode since this member last moved it.
///
/// An occasional request among many of the other kind pays its own cost, and the requests that
/// cause a migration share the cost of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Hysteresis {
    after: u32,
    found: u32,
}

impl Hysteresis {
    /// Creates a policy that migrates at every `after`th such request.
    #[must_use]
    pub const fn new(after: u32) -> Self {
        Self { after, found: 0 }
    }
}

impl Policy for Hysteresis {
    fn migrates(&mut self, _from: LockMode) -> bool {
        self.found += 1;
        let due = self.found >= self.after;
        if due {
            self.found = 0;
        }
        due
    }
}

/// A policy of history. A lock moves when enough of this member's last requests found it in the
/// wrong mode.
///
/// Unlike [`Hysteresis`] it forgets: requests in the wrong mode that are far apart do not add up.
///
/// ```
/// use strait_core::lock::{History, LockMode, Policy};
///
/// // Two of the last four requests.
/// let mut policy = History::new(2, 4);
/// assert!(!policy.migrates(LockMode::Network));
/// (0..4).for_each(|_| policy.suits(LockMode::Cpu));
/// assert!(!policy.migrates(LockMode::Network), "the first is forgotten");
/// assert!(policy.migrates(LockMode::Network));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct History {
    least: u32,
    /// One bit for each remembered request; set for those that found the wrong mode. The lowest bit
    /// is the last request.
    found: u64,
    remembered: u64,
}

impl History {
    /// Creates a policy that migrates when `least` of the last `of` requests found the wrong mode.
    /// It remembers 64 requests at most.
    #[must_use]
    pub const fn new(least: u32, of: u32) -> Self {
        let remembered = if of >= u64::BITS { u64::MAX } else { (1 << of) - 1 };
        Self { least, found: 0, remembered }
    }

    const fn learn(&mut self, wrong: bool) {
        self.found = (self.found << 1 | wrong as u64) & self.remembered;
    }
}

impl Policy for History {
    fn migrates(&mut self, _from: LockMode) -> bool {
        self.learn(true);
        let due = self.found.count_ones() >= self.least;
        if due {
            self.found = 0;
        }
        due
    }

    fn suits(&mut self, _mode: LockMode) {
        self.learn(false);
    }
}

/// What a request for a lock costs, in any unit: `strait bench lock` measures nanoseconds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LockCosts {
    /// A request that finds the lock in the mode that suits it.
    pub suiting: u64,
    /// A request that finds it in the other mode, and takes it there.
    pub other: u64,
    /// A request that moves the lock.
    pub migration: u64,
}

/// A policy of measured cost. A lock moves when the requests that found it in the wrong mode have
/// lost as much as a migration costs.
///
/// So it never costs more than twice as much as the best moment to migrate, which only a look ahead
/// would tell.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct MeasuredCost {
    costs: LockCosts,
    lost: u64,
}

impl MeasuredCost {
    /// Creates a policy for these costs.
    #[must_use]
    pub const fn new(costs: LockCosts) -> Self {
        Self { costs, lost: 0 }
    }
}

impl Policy for MeasuredCost {
    fn migrates(&mut self, _from: LockMode) -> bool {
        let LockCosts { suiting, other, migration } = self.costs;
        self.lost = self.lost.saturating_add(other.saturating_sub(suiting));
        // A migration takes the lock, too, so that what it costs above that counts.
        let due = self.lost >= migration.saturating_sub(suiting);
        if due {
            self.lost = 0;
        }
        due
    }
}

/// A policy that never migrates: the lock stays in one mode.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FixedMode(pub LockMode);

impl Policy for FixedMode {
    fn preset(&self) -> LockMode {
        self.0
    }

    fn migrates(&mut self, _from: LockMode) -> bool {
        false
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn policies_move_at_once_after_some_and_never() {
        let asked = |policy: &mut dyn Policy| [(); 5].map(|()| policy.migrates(LockMode::Cpu));
        assert_eq!(asked(&mut Follow), [true; 5]);
        assert_eq!(asked(&mut Hysteresis::new(2)), [false, true, false, true, false]);
        assert_eq!(asked(&mut FixedMode(LockMode::Network)), [false; 5]);
        assert_eq!(FixedMode(LockMode::Network).preset(), LockMode::Network);
        assert_eq!(Follow.preset(), LockMode::Cpu);
    }

    #[test]
    fn history_forgets() {
        let mut policy = History::new(2, 3);
        assert!(!policy.migrates(LockMode::Network));
        policy.suits(LockMode::Cpu);
        assert!(policy.migrates(LockMode::Network), "two of three");
        assert!(!policy.migrates(LockMode::Network), "it begins again after a migration");
        policy.suits(LockMode::Cpu);
        policy.suits(LockMode::Cpu);
        assert!(!policy.migrates(LockMode::Network), "one of three");
        let mut all = History::new(64, 1000);
        assert_eq!(
            [(); 64].map(|()| all.migrates(LockMode::Cpu)).iter().position(|due| *due),
            Some(63)
        );
    }

    #[test]
    fn a_migration_is_paid_by_what_was_lost_without_it() {
        let costs = LockCosts { suiting: 10, other: 40, migration: 100 };
        let mut policy = MeasuredCost::new(costs);
        let asked = [(); 6].map(|()| policy.migrates(LockMode::Cpu));
        assert_eq!(asked, [false, false, true, false, false, true], "30 lost each, 90 to move");
        let free = LockCosts { suiting: 10, other: 10, migration: 100 };
        let mut policy = MeasuredCost::new(free);
        assert_eq!([(); 5].map(|()| policy.migrates(LockMode::Cpu)), [false; 5]);
    }
}
