//! When a lock of two modes migrates (`[HybridLock09]` §4.2).

/// Where a lock is had.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Mode {
    /// At its CPU word: by atomics of the processor on the target's node, through the target's lock manager from elsewhere.
    Cpu,
    /// At its network word: by atomics of the device, for everybody.
    Network,
}

/// Says whether a request moves the lock to the mode that suits it. Each member asks its own; that of the target's lock manager
/// decides for requests from other nodes.
pub trait Policy {
    /// The mode in which a lock begins.
    fn preset(&self) -> Mode {
        Mode::Cpu
    }

    /// A request found the lock in the mode that does not suit it. True: it migrates.
    fn migrates(&mut self, from: Mode) -> bool;
}

/// The paper's: each request that finds the lock in the wrong mode moves it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Follow;

impl Policy for Follow {
    fn migrates(&mut self, _from: Mode) -> bool {
        true
    }
}

/// By history: a lock moves when so many requests have found it in the wrong mode since this member last moved it. So a request
/// that comes once among many of the other kind pays for itself alone, and a migration is shared by so many.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Hysteresis {
    after: u32,
    found: u32,
}

impl Hysteresis {
    /// Moves after `after` such requests.
    #[must_use]
    pub const fn new(after: u32) -> Self {
        Self { after, found: 0 }
    }
}

impl Policy for Hysteresis {
    fn migrates(&mut self, _from: Mode) -> bool {
        self.found += 1;
        let due = self.found >= self.after;
        if due {
            self.found = 0;
        }
        due
    }
}

/// Never: the lock stays in one mode.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Pinned(pub Mode);

impl Policy for Pinned {
    fn preset(&self) -> Mode {
        self.0
    }

    fn migrates(&mut self, _from: Mode) -> bool {
        false
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn policies_move_at_once_after_some_and_never() {
        let asked = |policy: &mut dyn Policy| [(); 5].map(|()| policy.migrates(Mode::Cpu));
        assert_eq!(asked(&mut Follow), [true; 5]);
        assert_eq!(asked(&mut Hysteresis::new(2)), [false, true, false, true, false]);
        assert_eq!(asked(&mut Pinned(Mode::Network)), [false; 5]);
        assert_eq!(Pinned(Mode::Network).preset(), Mode::Network);
        assert_eq!(Follow.preset(), Mode::Cpu);
    }
}
