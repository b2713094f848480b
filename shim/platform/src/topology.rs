//! The processors that this process may use, and the identity of the host.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, getppid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the processors that the calling thread may run on, in ascending order of their numbers.
///
/// This is the set that `taskset`, a batch system or a container allows, not all processors of the
/// machine.
///
/// # Errors
///
/// The kernel's error. It refuses on machines with more processors than the set can name (1024).
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Returns the number of processors that the calling thread may run on: at least 1, and 1 when the
/// kernel does not say.
///
/// It decides whether a waiting rank may spin: spinning on a processor that the awaited rank needs
/// stops both.
#[must_use]
pub fn allowed_cpu_count() -> usize {
    sched_getaffinity(None).map_or(1, |set| set.count().max(1) as usize)
}

/// Returns the number of processors that the calling thread or any of these processes may run on.
///
/// When each rank is bound to a processor of its own, no rank has to yield to another. A process
/// that has ended adds nothing.
pub fn allowed_together(processes: impl Iterator<Item = u32>) -> usize {
    let Ok(mut all) = sched_getaffinity(None) else { return 1 };
    for process in processes {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        let Some(theirs) = pid.and_then(|pid| sched_getaffinity(Some(pid)).ok()) else { continue };
        (0..CpuSet::MAX_CPU).filter(|&cpu| theirs.is_set(cpu)).for_each(|cpu| all.set(cpu));
    }
    all.count().max(1) as usize
}

/// Returns the number of processors of the machine, also those that this process may not use; 1
/// when the system does not say.
pub(crate) fn processors() -> u32 {
    // SAFETY: `sysconf` takes no pointer and changes nothing.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(count).unwrap_or(1).max(1)
}

/// Returns a name for the host. Two processes have the same name if they can pass each other a
/// descriptor: they have one kernel and one network namespace.
pub fn host() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = fs::metadata("/proc/self/ns/net").map_or(0, |network| network.ino());
    format!("{}-{network}", boot.trim())
}

/// Binds the calling thread to processor `cpu`. Threads that it starts from now on inherit the
/// binding.
///
/// Allocates nothing, so that it may run between `fork` and `exec`.
///
/// # Errors
///
/// `InvalidInput` when there is no such processor or this process may not use it.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread also run on every processor that its parent process may use. Where each
/// rank is bound to a processor of its own, the launcher is not bound.
///
/// # Errors
///
/// The kernel's error; the thread's binding is then unchanged.
pub fn unbind() -> io::Result<()> {
    let mut set = sched_getaffinity(None)?;
    let parent = sched_getaffinity(getppid())?;
    (0..CpuSet::MAX_CPU).filter(|&cpu| parent.is_set(cpu)).for_each(|cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_adds_its_processors_and_one_that_ended_adds_none() {
        let own = allowed_cpu_count();
        let ended = 0x3fff_ffff;
        assert_eq!(allowed_together([std::process::id(), ended].into_iter()), own);
    }

    /// Runs on a thread of its own, so that the binding does not affect the test runner.
    #[test]
    fn a_bound_thread_has_one_processor() {
        std::thread::spawn(|| {
            let all = allowed_cpus().unwrap();
            assert_eq!(all.len(), allowed_cpu_count());
            let last = *all.last().unwrap();
            pin_to(last).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
            assert_eq!(allowed_cpu_count(), 1);
            unbind().unwrap();
            let unbound = allowed_cpus().unwrap();
            assert!(all.iter().all(|cpu| unbound.contains(cpu)), "{unbound:?} without {all:?}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn no_such_processor_is_an_error() {
        let refused = pin_to(usize::MAX).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
