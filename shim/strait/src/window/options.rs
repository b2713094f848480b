//! The options of a window, and what follows from those of all members.

use crate::{Error, LockDesign, LockPolicy, WindowDesign, env};

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
    /// The policy of this member for the migration of a hybrid lock. `None`: that of
    /// `STRAIT_WINDOW_LOCK`, or [`LockPolicy::Follow`].
    pub policy: Option<LockPolicy>,
    /// Largest pause between two looks at a held lock's word, as a multiple of the first pause.
    /// Pauses double until then; with 1 they do not (`[OneSided04]` §4.3.1).
    pub backoff: u32,
}

impl Default for WindowOptions {
    fn default() -> Self {
        let accumulates = Accumulates::default();
        Self { design: None, accumulates, lock: None, policy: None, backoff: 64 }
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
            None => Ok(env::window_lock()?.design),
        }
    }

    /// Returns the policy for the migration of hybrid locks.
    pub(in crate::window) fn lock_policy(&self) -> Result<LockPolicy, Error> {
        match self.policy {
            Some(policy) => Ok(policy),
            None => Ok(env::window_lock()?.policy),
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
