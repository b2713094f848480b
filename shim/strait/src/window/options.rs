//! The options of a window, and what follows from those of all members.

use strait_core::lock::{
    FixedMode, Follow, History, Hysteresis, LockCosts, LockMode, MeasuredCost, Policy,
};

use crate::{Error, LockDesign, WindowDesign, env};

/// The mechanism that makes the accumulates of a window atomic. All accumulates of a window are
/// atomic with respect to each other, from every origin, and to nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AtomicityDomain {
    /// Atomic instructions of the processor on the numbers themselves, and plain arithmetic under
    /// locks for long accumulates. Every part lies in the segment, or only its owner reaches it
    /// ([`WindowDesign::SendRecv`]). The owner reads each number whole ([`crate::Local`]). Its
    /// stores and its own atomic instructions are atomic with accumulates only until a member
    /// accumulates 32 or more consecutive numbers to the same 16 KiB. From then on the owner, too,
    /// changes those numbers atomically only by accumulates.
    Processor,
    /// Locks, each for a stripe of a part's bytes: some part is private memory, or the window spans
    /// nodes. The owner reaches its part atomically only by accumulates. Devices take the locks
    /// where all devices have atomics. Where one device has none, the processors of the part's node
    /// take them.
    Locks,
    /// Atomics of the device on numbers of 8 bytes, and locks for shorter numbers. The window spans
    /// nodes, its members promised [`Accumulates::Single`], and their devices have atomics. The
    /// owner, too, reaches its part atomically only by accumulates.
    Device,
}

/// The promise of a member about the accumulates of a window. It takes effect when all members make
/// it, the window spans nodes, and the devices have atomics.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Accumulates {
    /// No promise.
    #[default]
    Any,
    /// Most accumulates change one number of 8 bytes, such as a counter. Each takes one or a few
    /// atomics of the device. Longer accumulates go number by number.
    Single,
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
    /// [`History`]: when this number of requests found the wrong mode, of the last ones.
    History {
        /// Number of requests that found the wrong mode.
        least: u32,
        /// Number of requests that are remembered, at most 64.
        of: u32,
    },
    /// [`MeasuredCost`] with these costs.
    Cost(LockCosts),
}

impl LockPolicy {
    pub(in crate::window) fn policy(self) -> Box<dyn Policy + Send> {
        match self {
            Self::Follow => Box::new(Follow),
            Self::Hysteresis(after) => Box::new(Hysteresis::new(after)),
            Self::Pinned(mode) => Box::new(FixedMode(mode)),
            Self::History { least, of } => Box::new(History::new(least, of)),
            Self::Cost(costs) => Box::new(MeasuredCost::new(costs)),
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
