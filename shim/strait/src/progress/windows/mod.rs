//! What a rank serves for its windows while it makes progress: locks, and operations by messages.
//!
//! The call or thread that makes progress for the rank does this. Nothing here waits.

pub(crate) mod baseline;
pub(crate) mod lock_manager;
pub(crate) mod lock_managers;
pub(crate) mod lock_message;
mod started;
mod target;

use baseline::Baselines;
use lock_managers::WindowLockManagers;

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
