//! The processors of a software device's thread: it must take no time of a rank that computes, as a
//! card would not.

use std::fs;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use strait::hca::soft;

use crate::measure::stage::BenchStage;

/// Makes the threads of the pair's devices share the processor of the follower, which waits in the
/// library. With enough processors, each thread has its own instead.
pub(super) fn leave_to_computation(stage: &BenchStage<'_>) -> io::Result<()> {
    let Some(cpu) = stage.followers.filter(|_| stage.crosses()) else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu);
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?;
        if fs::read_to_string(thread.path().join("comm"))?.trim_end() != soft::THREAD {
            continue;
        }
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(thread) = number.and_then(Pid::from_raw) {
            sched_setaffinity(Some(thread), &set)?;
        }
    }
    Ok(())
}
