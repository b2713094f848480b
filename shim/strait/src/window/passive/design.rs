//! The designs of window locks, and the options of a window.

use core::fmt;
use core::str::FromStr;

use strait_core::lock::{FixedMode, Follow, Hysteresis, LockMode, Policy};

use crate::window::{Accumulates, WindowDesign};
use crate::{Error, env};

/// The designs of a window's locks. Each is faster than the others in some situation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockDesign {
    /// The target's lock manager queues requests, and serves them in the target's calls
    /// (`[HybridLock09]` §3).
    TwoSided,
    /// The lock manager of `TwoSided`, served by a thread of the target that never sleeps
    /// (`[OneSided04]` §4.2.1).
    Thread,
    /// The lock manager of `TwoSided`, served by a thread that sleeps until a request arrives
    /// (`[OneSided04]` §4.2.2).
    Event,
    /// Compare-and-swap on one word, with exponential back-off (`[OneSided04]` §4.3.1).
    TestAndSet,
    /// A queue in the memory of the waiting members (`[OneSided04]` §4.3.2).
    Mcs,
    /// A word for processors and a word for devices, between which the lock migrates
    /// (`[HybridLock09]` §4).
    #[default]
    Hybrid,
}

impl LockDesign {
    /// All designs.
    pub const ALL: [Self; 6] =
        [Self::TwoSided, Self::Thread, Self::Event, Self::TestAndSet, Self::Mcs, Self::Hybrid];

    /// Returns the name of the design in `STRAIT_WINDOW_LOCK`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoSided => "two_sided",
            Self::Thread => "thread",
            Self::Event => "event",
            Self::TestAndSet => "test_and_set",
            Self::Mcs => "mcs",
            Self::Hybrid => "hybrid",
        }
    }

    /// Returns whether a lock manager grants every lock.
    pub(super) const fn is_managed(self) -> bool {
        matches!(self, Self::TwoSided | Self::Thread | Self::Event)
    }
}

impl fmt::Display for LockDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LockDesign {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|design| design.name() == name).ok_or(())
    }
}

/// The rule for the migration of a hybrid lock ([`Policy`]). Each member has its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockPolicy {
    /// [`Follow`], the policy of the paper.
    #[default]
    Follow,
    /// [`Hysteresis`], after this number of requests.
    Hysteresis(u32),
    /// [`FixedMode`] in this mode.
    Pinned(LockMode),
}

impl LockPolicy {
    pub(super) fn policy(self) -> Box<dyn Policy + Send> {
        match self {
            Self::Follow => Box::new(Follow),
            Self::Hysteresis(after) => Box::new(Hysteresis::new(after)),
            Self::Pinned(mode) => Box::new(FixedMode(mode)),
        }
    }
}

/// The options that the members of a window give when they make it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowOptions {
    /// The way in which operations are carried out, equal at all members. `None`: `STRAIT_WINDOW`
    /// decides. Shared and dynamic windows always use [`WindowDesign::Rdma`].
    pub design: Option<WindowDesign>,
    /// The promise of this member about its accumulates.
    pub accumulates: Accumulates,
    /// The design of the window's locks, equal at all members. `None`: `STRAIT_WINDOW_LOCK`
    /// decides.
    pub lock: Option<LockDesign>,
    /// The policy of this member for the migration of a hybrid lock.
    pub policy: LockPolicy,
    /// Largest pause between two looks at a held lock's word, as a multiple of the first pause.
    /// Pauses double until then; with 1 they do not (`[OneSided04]` §4.3.1).
    pub backoff: u32,
}

impl Default for WindowOptions {
    fn default() -> Self {
        let (accumulates, policy) = (Accumulates::default(), LockPolicy::default());
        Self { design: None, accumulates, lock: None, policy, backoff: 64 }
    }
}

impl WindowOptions {
    /// Returns the requested design of the window.
    pub(in crate::window) fn design(&self) -> Result<WindowDesign, Error> {
        Ok(self.design.map_or_else(env::window, Ok)?)
    }

    /// Returns the options with the design [`WindowDesign::Rdma`].
    pub(in crate::window) fn by_rdma(self) -> Self {
        Self { design: Some(WindowDesign::Rdma), ..self }
    }

    /// Returns the requested design of the locks.
    pub(in crate::window) fn lock_design(&self) -> Result<LockDesign, Error> {
        match self.lock {
            Some(design) => Ok(design),
            None => Ok(env::window_lock()?),
        }
    }
}

impl From<Accumulates> for WindowOptions {
    fn from(accumulates: Accumulates) -> Self {
        Self { accumulates, ..Self::default() }
    }
}

impl From<WindowDesign> for WindowOptions {
    fn from(design: WindowDesign) -> Self {
        Self { design: Some(design), ..Self::default() }
    }
}

impl From<LockDesign> for WindowOptions {
    fn from(lock: LockDesign) -> Self {
        Self { lock: Some(lock), ..Self::default() }
    }
}
