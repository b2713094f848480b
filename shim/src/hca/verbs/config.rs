//! How a device is opened, and whether this process may.

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::OpenError;

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Config {
    /// The device's name, as `ibv_devices` has it. `None`: the first that can be used.
    pub device: Option<String>,
    /// The port, from 1. `None`: the first that can be used.
    pub port: Option<u8>,
    /// The entry of the port's table of global identifiers. `None`: the one that leads farthest. iWARP has no use for it.
    pub gid: Option<u8>,
    /// Connections at a time, at most. Room for their completions is taken at once.
    pub connections: u32,
    /// Requests under way on each.
    pub depth: u32,
    /// Receives that are posted, for all of them together.
    pub receives: u32,
    /// Bytes that will be registered: the system is asked at once whether it allows so much.
    pub memory: u64,
}

impl Default for Config {
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

/// May this process lock so much memory?
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
