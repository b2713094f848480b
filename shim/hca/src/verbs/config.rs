//! The configuration of a device, and the check of this process's right to lock memory.

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::OpenError;

/// The configuration with which a device is opened.
#[derive(Clone, Debug)]
pub struct VerbsConfig {
    /// The device's name, as `ibv_devices` prints it. `None` means the first usable device.
    pub device: Option<String>,
    /// The port, from 1. `None` means the first usable port.
    pub port: Option<u8>,
    /// The index in the port's table of global identifiers. `None` means the entry with the widest
    /// reach. iWARP ignores it.
    pub gid: Option<u8>,
    /// Largest number of connections at a time. Room for their completions is taken at once.
    pub connections: u32,
    /// Number of requests in flight on each connection.
    pub depth: u32,
    /// Number of posted receives, for all connections together.
    pub receives: u32,
    /// Number of bytes that will be registered. The limit of the system is checked at once.
    pub memory: u64,
}

impl Default for VerbsConfig {
    fn default() -> Self {
        Self {
            device: None,
            port: None,
            gid: None,
            connections: 64,
            depth: 128,
            receives: 512,
            memory: 0,
        }
    }
}

/// Checks whether this process may lock `needed` bytes of memory.
pub(super) fn may_lock(needed: u64) -> Result<(), OpenError> {
    let privileged =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    allows(getrlimit(Resource::Memlock).current.filter(|_| !privileged), needed)
}

fn allows(limit: Option<u64>, needed: u64) -> Result<(), OpenError> {
    match limit {
        Some(limit) if limit < needed => Err(OpenError::LockedMemory { limit, needed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_less_is_named() {
        assert!(allows(None, u64::MAX).is_ok());
        assert!(allows(Some(8 << 20), 8 << 20).is_ok());
        let error = allows(Some(65536), 1 << 20).unwrap_err().to_string();
        assert!(error.contains("65536") && error.contains("1048576"), "{error}");
        assert!(error.contains("ulimit -l"), "{error}");
    }
}
