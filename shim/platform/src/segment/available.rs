//! The available memory, checked before a large reservation.
//!
//! `fallocate` on an anonymous file has no limit of its own: it takes page after page until the
//! kernel kills a process. So a segment that obviously does not fit is refused first.

use std::fs;

use strait_core::layout::SegmentConfig;

use super::SegmentError;

/// Refuses a segment that needs more memory than is available. Where the system does not say how
/// much is available, it refuses nothing.
pub(super) fn check(config: SegmentConfig, need: u64) -> Result<(), SegmentError> {
    match bytes() {
        Some(available) if need > available => {
            Err(SegmentError::NoMemory { config, need, available: Some(available), error: None })
        }
        _ => Ok(()),
    }
}

/// Returns the bytes that could be reserved now: the available memory of the machine, or the limit
/// of this process's control group if that is lower.
pub(super) fn bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_available(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_limit(&text));
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

/// Returns the value of the line `MemAvailable:   12345 kB` of `/proc/meminfo`, in bytes.
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the memory limit of the version 2 control group that `/proc/self/cgroup` names; `None`
/// when it has none.
fn group_limit(cgroup: &str) -> Option<u64> {
    let path = group_path(cgroup)?;
    fs::read_to_string(format!("/sys/fs/cgroup{path}/memory.max")).ok()?.trim().parse().ok()
}

fn group_path(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_files_are_understood() {
        let meminfo = "MemTotal:       24684312 kB\nMemAvailable:   24352112 kB\nBuffers: 1 kB\n";
        assert_eq!(mem_available(meminfo), Some(24_352_112 * 1024));
        assert_eq!(mem_available("MemTotal: 5 kB\n"), None);
        assert_eq!(mem_available("MemAvailable: many kB\n"), None);
        assert_eq!(group_path("1:cpu:/x\n0::/user.slice\n"), Some("/user.slice"));
        assert_eq!(group_path("4:memory:/docker/1\n"), None);
    }
}
