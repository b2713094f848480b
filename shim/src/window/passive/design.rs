//! Which lock a window has.

use core::fmt;
use core::str::FromStr;

use strait_core::lock::{Follow, Hysteresis, Mode, Pinned, Policy};

use crate::window::{Accumulates, WindowDesign};
use crate::{Error, env};

/// How the locks of a window are made: each of them is faster than the others somewhere.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockDesign {
    /// The target's lock manager has a queue of requests, and serves it in the target's calls (`[HybridLock09]` §3).
    TwoSided,
    /// The same manager, served by a thread of the target's that never sleeps (`[OneSided04]` §4.2.1).
    Thread,
    /// The same, by a thread that sleeps until a request comes (`[OneSided04]` §4.2.2).
    Event,
    /// Compare-and-swap on one word, with exponential back-off (`[OneSided04]` §4.3.1).
    TestAndSet,
    /// A queue in the memory of those who wait (`[OneSided04]` §4.3.2).
    Mcs,
    /// A word for processors and one for devices, between which the lock migrates (`[HybridLock09]` §4).
    #[default]
    Hybrid,
}

impl LockDesign {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::TwoSided, Self::Thread, Self::Event, Self::TestAndSet, Self::Mcs, Self::Hybrid];

    /// Its name, as `STRAIT_WINDOW_LOCK` has it.
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

    /// Whether a lock manager does everything.
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

/// When a hybrid lock migrates ([`Policy`]). Each member has its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockPolicy {
    /// [`Follow`], the paper's.
    #[default]
    Follow,
    /// [`Hysteresis`], after so many requests.
    Hysteresis(u32),
    /// [`Pinned`].
    Pinned(Mode),
}

impl LockPolicy {
    pub(super) fn policy(self) -> Box<dyn Policy + Send> {
        match self {
            Self::Follow => Box::new(Follow),
            Self::Hysteresis(after) => Box::new(Hysteresis::new(after)),
            Self::Pinned(mode) => Box::new(Pinned(mode)),
        }
    }
}

/// What the members of a window choose when they make it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowOptions {
    /// How operations are carried out, the same for all members; `None`: as `STRAIT_WINDOW` says. Shared and dynamic windows are always
    /// of [`WindowDesign::Rdma`].
    pub design: Option<WindowDesign>,
    /// What this member promises of its accumulates.
    pub accumulates: Accumulates,
    /// How the window's locks are made, the same for all members; `None`: as `STRAIT_WINDOW_LOCK` says.
    pub lock: Option<LockDesign>,
    /// When a hybrid lock migrates: this member's policy.
    pub policy: LockPolicy,
    /// How much longer than at first this member waits at most, until it looks again at a lock's word that another holds: its pauses
    /// double until then. With 1 they do not (`[OneSided04]` §4.3.1).
    pub backoff: u32,
}

impl Default for WindowOptions {
    fn default() -> Self {
        let (accumulates, policy) = (Accumulates::default(), LockPolicy::default());
        Self { design: None, accumulates, lock: None, policy, backoff: 64 }
    }
}

impl WindowOptions {
    /// The design of the window that was asked for.
    pub(in crate::window) fn design(&self) -> Result<WindowDesign, Error> {
        Ok(self.design.map_or_else(env::window, Ok)?)
    }

    /// The same, at once and without the target.
    pub(in crate::window) fn by_rdma(self) -> Self {
        Self { design: Some(WindowDesign::Rdma), ..self }
    }

    /// The design of locks that was asked for.
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
