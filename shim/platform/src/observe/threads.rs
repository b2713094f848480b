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

/// What the kernel shows of a thread of another process of this user.
#[derive(Clone, Debug)]
pub struct ThreadView {
    /// The thread's number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// State letter, as in `/proc/PID/stat`: `R` runs, `S` and `D` sleep, `T` and `t` are stopped.
    pub state: char,
    /// The kernel function in which it sleeps, if the kernel tells it.
    pub place: Option<String>,
    /// Number of the system call in which it is, if it is in one and the kernel tells it.
    pub system_call: Option<u64>,
    /// Functions of its kernel stack, the innermost first. Empty unless the kernel lets this
    /// user read it.
    pub stack: Vec<String>,
    /// Processor time that it has used, in clock ticks.
    pub ticks: u64,
}

/// Returns what the kernel shows of the threads of a process.
#[must_use]
pub fn look_at_threads(pid: u32) -> Vec<ThreadView> {
    threads_of(pid).into_iter().map(|thread| view(pid, thread)).collect()
}

fn view(pid: u32, thread: Thread) -> ThreadView {
    let Thread { number, name, state, place, ticks, .. } = thread;
    let read = |file| fs::read_to_string(format!("/proc/{pid}/task/{number}/{file}"));
    // The first word is the number of the call, "running", or -1 outside of calls.
    let call = read("syscall").unwrap_or_default();
    let system_call = call.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
    // Each line is "[<0>] function+0x12/0x34".
    let stack = read("stack").unwrap_or_default();
    let function = |line: &str| {
        let place = line.split_ascii_whitespace().nth(1)?;
        place.split('+').next().map(str::to_owned)
    };
    let place = Some(place).filter(|place| !place.is_empty() && place != "0");
    let stack = stack.lines().filter_map(function).collect();
    ThreadView { number, name, state, place, system_call, stack, ticks }
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
