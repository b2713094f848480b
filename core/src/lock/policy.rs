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
}

/// The paper's policy: each request that finds the lock in the wrong mode moves it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Follow;

impl Policy for Follow {
    fn migrates(&mut self, _from: LockMode) -> bool {
        true
    }
}

/// A policy based on history. A lock moves when a given number of requests have found it in the
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
}
