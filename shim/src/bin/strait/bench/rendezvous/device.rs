//! Where the thread of a software device runs, so that it takes nothing of a rank that computes: a card would not.

use std::fs;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use strait::hca::soft;

use super::super::stage::Stage;

/// Has the threads of the pair's devices share the processor of the follower, who waits in the library, unless there is one for
/// each of them.
pub(super) fn leave_to_computation(stage: &Stage<'_>) -> io::Result<()> {
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
