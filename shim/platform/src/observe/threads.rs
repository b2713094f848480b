//! The threads of a process, as the kernel shows them.

use std::fs;

/// The state of a thread in the kernel.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) number: u32,
    pub(super) name: String,
    /// State letter, as in `/proc/PID/stat`.
    pub(super) state: char,
    /// The kernel function in which it sleeps.
    pub(super) place: String,
    /// Clock ticks for which it has run.
    pub(super) ticks: u64,
    /// Whether it ran between two samples.
    pub(super) ran: bool,
}

/// Returns the threads of a process; none when it is gone, or is hidden from this user.
pub(super) fn threads_of(pid: u32) -> Vec<Thread> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let thread = |task: fs::DirEntry| {
        let number = task.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let place = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
        parse_stat(number, &stat, place)
    };
    tasks.filter_map(thread).collect()
}

/// Parses a `stat` line. The 2nd field, in parentheses, is the name, and may hold anything.
pub(super) fn parse_stat(number: u32, stat: &str, place: String) -> Option<Thread> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The 14th and 15th fields: clock ticks in the program, and in the kernel.
    let mut times = fields.skip(14 - 4).map(|field| field.parse().unwrap_or(0));
    let ticks = times.next()? + times.next()?;
    Some(Thread { number, name: name.to_owned(), state, place, ticks, ran: false })
}
