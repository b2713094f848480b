//! Probes of this machine. Each probe performs the operation that it reports, instead of asking for
//! a version.

use core::sync::atomic::AtomicU32;
use std::fs;
use std::io;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::PidfdFlags;
use rustix::thread::futex;
use strait::topology;
use strait_core::layout::HUGE_PAGE;

use super::Fact;

/// Probes the needs of the transport.
pub(super) fn transport() -> Vec<Fact> {
    let fact = |name, value: String, note: String| Fact::new("shared memory", name, value, note);
    vec![
        usable(
            "memfd, sealed",
            sealed_memfd(),
            "the segment: without a name, and cannot be shortened",
        ),
        usable("pidfd", pidfd(), "tells when a rank dies"),
        usable("futex", wake(), "wait queue of a sleeping rank"),
        processors(),
        usable("binding", binding(), "`strait run --bind`"),
        fact("memory", memory(), "of the machine, or of the control group if that is less".into()),
    ]
}

/// Probes further hardware features.
pub(super) fn hardware() -> Vec<Fact> {
    let read = match read_own_memory() {
        Ok(()) => Fact::new(
            "hardware",
            "process_vm_readv",
            "available",
            "large messages are copied once; tried for each peer before its first use",
        ),
        Err(error) => Fact::new(
            "hardware",
            "process_vm_readv",
            "blocked",
            format!("{error}; see seccomp of the container, kernel.yama.ptrace_scope"),
        ),
    };
    let pages = "/sys/kernel/mm/transparent_hugepage";
    let fact = |name, value, note: &str| Fact::new("hardware", name, value, note);
    vec![
        read,
        fact("huge pages", chosen(&format!("{pages}/enabled")), "for private memory"),
        fact(
            "huge pages, shared",
            chosen(&format!("{pages}/shmem_enabled")),
            "for shared segments",
        ),
        match collapse() {
            Ok(()) => {
                fact("huge pages, allocated", "usable".into(), "`World::alloc` from 2 MiB on")
            }
            Err(error) => Fact::new(
                "hardware",
                "huge pages, allocated",
                "not usable",
                format!("{error}; `World::alloc` has small pages"),
            ),
        },
    ]
}

/// Returns whether a feature that the transport needs is available.
fn usable(name: &'static str, outcome: io::Result<()>, purpose: &str) -> Fact {
    match outcome {
        Ok(()) => Fact::new("shared memory", name, "usable", purpose),
        Err(error) => Fact::new("shared memory", name, "not usable", format!("{error}; {purpose}")),
    }
}

fn sealed_memfd() -> io::Result<()> {
    let file =
        rustix::fs::memfd_create("strait-info", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    Ok(rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?)
}

/// Asks for a huge page where memory is allocated in the segment, as the library does.
fn collapse() -> io::Result<()> {
    let world = strait::World::in_process(1).map_err(io::Error::other)?.remove(0);
    let memory = world.alloc::<u8>(HUGE_PAGE).map_err(io::Error::other)?;
    let start = memory.as_ptr().cast_mut().cast();
    // SAFETY: the range lies within the allocation, and the advice changes no byte.
    match unsafe { libc::madvise(start, memory.len(), libc::MADV_COLLAPSE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn pidfd() -> io::Result<()> {
    rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    Ok(())
}

/// Wakes a futex without waiters.
fn wake() -> io::Result<()> {
    let word = AtomicU32::new(0);
    futex::wake(&word, futex::Flags::empty(), 1)?;
    Ok(())
}

fn processors() -> Fact {
    let (value, note) = match topology::allowed_cpus() {
        Ok(cpus) if cpus.len() == 1 => {
            (numbers(&cpus), "only 1: ranks take turns, and a message costs a switch between them")
        }
        Ok(cpus) => (
            numbers(&cpus),
            "processors that this process may use; more ranks than these take turns",
        ),
        Err(error) => (format!("not known: {error}"), "taken for 1: ranks take turns"),
    };
    Fact::new("shared memory", "processors", value, note)
}

/// Binds this thread to a processor, and undoes the binding.
fn binding() -> io::Result<()> {
    let before = rustix::thread::sched_getaffinity(None)?;
    let first = topology::allowed_cpus()?.first().copied().unwrap_or(0);
    topology::pin_to(first)?;
    Ok(rustix::thread::sched_setaffinity(None, &before)?)
}

/// Formats ascending numbers, with runs as ranges.
fn numbers(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let texts = runs.map(|run| match run {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
    });
    format!("{} ({})", numbers.len(), texts.collect::<Vec<_>>().join(","))
}

fn memory() -> String {
    let machine = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?.to_owned();
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let group = read("/proc/self/cgroup").and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned();
        read(&format!("/sys/fs/cgroup{path}/memory.max"))?.trim().parse().ok()
    });
    let least = machine.into_iter().chain(group).min();
    least.map_or_else(|| "not known".into(), |bytes: u64| format!("{} MiB", bytes >> 20))
}

/// Returns the choice in brackets of a kernel switch such as `always [madvise] never`.
fn chosen(path: &str) -> String {
    let Some(text) = read(path) else { return "not known".into() };
    let choice = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    choice.map_or_else(|| text.trim().to_owned(), |(choice, _)| choice.to_owned())
}

/// Returns whether `process_vm_readv` works here.
pub(super) fn reads_memory() -> bool {
    read_own_memory().is_ok()
}

/// Reads 8 bytes of this process in the way that reads a peer's memory.
fn read_own_memory() -> io::Result<()> {
    let (source, mut copy) = ([0x5a_u8; 8], [0_u8; 8]);
    let to = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: copy.len() };
    let from = libc::iovec { iov_base: source.as_ptr().cast_mut().cast(), iov_len: source.len() };
    // SAFETY: both vectors describe live buffers of this process. Only `copy` is written.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    match read {
        8 if copy == source => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        short => Err(io::Error::other(format!("{short} of 8 bytes were read"))),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_processors_are_short() {
        assert_eq!(numbers(&[0, 1, 2, 5, 7, 8]), "6 (0-2,5,7-8)");
        assert_eq!(numbers(&[3]), "1 (3)");
    }
}
