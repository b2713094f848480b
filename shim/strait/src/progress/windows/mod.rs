//! What a rank serves for its windows while it makes progress: locks, and operations by messages.
//!
//! The call or thread that makes progress for the rank does this. Nothing here waits.

pub(crate) mod baseline;
pub(crate) mod lock_manager;
pub(crate) mod lock_managers;
pub(crate) mod lock_message;
mod started;
mod target;

use strait_core::rma::WindowNumber;

use baseline::Baselines;
use lock_managers::WindowLockManagers;

/// The windows that a round of progress serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServedWindows {
    /// All windows: this is a round of a call or of the progress thread.
    All,
    /// One window: this is a round of the window's own thread.
    One(ServedWindow),
}

/// A window that has its own thread, by the numbers of its servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedWindow {
    pub(crate) lock_manager: u64,
    /// The number of the window among those that use messages, if it does.
    pub(crate) baseline: Option<WindowNumber>,
}

impl ServedWindows {
    /// Returns whether the lock manager of this number grants locks in this round.
    pub(crate) fn has_lock_manager(self, number: u64) -> bool {
        match self {
            Self::All => true,
            Self::One(window) => window.lock_manager == number,
        }
    }

    /// Returns whether this window's operations by messages are carried out in this round.
    pub(crate) fn has_baseline(self, number: WindowNumber) -> bool {
        match self {
            Self::All => true,
            Self::One(window) => window.baseline == Some(number),
        }
    }
}

/// The servers of a rank's windows.
#[derive(Default)]
pub(crate) struct WindowServers {
    /// The lock managers of windows.
    pub(crate) lock_managers: WindowLockManagers,
    /// The windows by messages.
    pub(crate) baselines: Baselines,
}

impl WindowServers {
    /// Returns whether messages may come that only a round of progress serves.
    #[inline]
    pub(crate) const fn is_open(&self) -> bool {
        self.lock_managers.is_open() || self.baselines.is_open()
    }
}
