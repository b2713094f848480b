//! The processes that a rung has started, directly or not.
//!
//! Programs under test start sessions of their own, and outlive their parents. So a process belongs
//! to a rung if its parent does, or if its environment has the mark of the rung.

use core::time::Duration;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

/// A variable that the processes of one rung inherit, and no other process has.
pub(super) struct Mark<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a OsStr,
}

/// A process that has not ended.
struct Process {
    parent: u32,
    is_marked: bool,
    command: String,
}

/// Number of searches for processes that are alive, a millisecond apart. One that is in the kernel
/// dies late.
const SEARCHES: u32 = 5000;

/// Kills the process `root` and all that belong to it, and waits until the latter have ended.
/// Returns their commands.
///
/// Repeats the search, since a process may start others before it dies. The root is stopped first,
/// so that it begins nothing new, and killed last.
pub(super) fn kill(root: u32, mark: &Mark<'_>) -> Vec<String> {
    signal(root, Signal::STOP);
    let killed = kill_members(Some(root), mark);
    signal(root, Signal::KILL);
    killed
}

/// Number of searches, a millisecond apart, before what a rung has left is killed. Launchers end a
/// little later than their jobs.
const PATIENCE: u32 = 2000;

/// Kills what a rung that has ended has left, and returns the commands. A process that spins would
/// slow down all further rungs.
pub(super) fn kill_left(mark: &Mark<'_>) -> Vec<String> {
    for _ in 0..PATIENCE {
        if members(None, &processes(mark)).is_empty() {
            return Vec::new();
        }
        thread::sleep(Duration::from_millis(1));
    }
    kill_members(None, mark)
}

fn kill_members(root: Option<u32>, mark: &Mark<'_>) -> Vec<String> {
    let mut killed = BTreeMap::new();
    for _ in 0..SEARCHES {
        let processes = processes(mark);
        let found = members(root, &processes);
        if found.is_empty() {
            break;
        }
        for pid in found {
            signal(pid, Signal::KILL);
            killed.entry(pid).or_insert_with(|| processes[&pid].command.clone());
        }
        thread::sleep(Duration::from_millis(1));
    }
    killed.into_values().collect()
}

/// Returns those of `processes` that have the mark or belong to `root`, without `root` itself.
fn members(root: Option<u32>, processes: &BTreeMap<u32, Process>) -> Vec<u32> {
    let belongs = |pid: u32| {
        let mut at = pid;
        // A parent that ends during the search may be missing in the list.
        while let Some(process) = processes.get(&at) {
            if Some(at) == root || process.is_marked {
                return true;
            }
            at = process.parent;
        }
        false
    };
    processes.keys().copied().filter(|pid| Some(*pid) != root && belongs(*pid)).collect()
}

/// Returns all processes of the machine by their numbers.
fn processes(mark: &Mark<'_>) -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter_map(|pid| Some((pid, process(pid, mark)?))).collect()
}

/// Reads what the kernel says of a process. `None` if it has ended, or is one of the kernel's own.
fn process(pid: u32, mark: &Mark<'_>) -> Option<Process> {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}"));
    let stat = read("stat").ok()?;
    // The name of the program, in parentheses, may contain blanks.
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    let wanted = [mark.name.as_bytes(), b"=", mark.value.as_bytes()].concat();
    let environment = read("environ").unwrap_or_default();
    let is_marked = environment.split(|byte| *byte == 0).any(|variable| variable == wanted);
    let command = read("cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    Some(Process { parent, is_marked, command: format!("{pid} {command}") })
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // A process that has ended meanwhile needs no signal.
    let _ = pid.map(|pid| kill_process(pid, signal));
}
