//! Runs the native tests under the sanitizers of the nightly compiler, which find memory errors and
//! data races.

use std::fs;
use std::path::Path;

use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::{self, Stop};

/// The target of both. An explicit target keeps the flags away from build scripts and procedural
/// macros.
pub(crate) const HOST: &str = "x86_64-unknown-linux-gnu";

/// A sanitizer and its settings.
struct Sanitizer {
    name: &'static str,
    /// Tests that are left out, each with the reason.
    left_out: &'static [(&'static str, &'static str)],
    /// The variable that holds its options, and the options.
    options: (&'static str, &'static str),
    /// Whether the standard library must be built with the sanitizer, too.
    with_std: bool,
    /// The optimization of all packages; otherwise that of the profile `dev`.
    optimization: Option<&'static str>,
}

/// Tests in which the thread sanitizer can see races, as arguments of `cargo test`: threads of one
/// process.
const THREADS: [&str; 2] = [
    "-p strait-loom-tests --lib --tests",
    // Together, so that what they depend on is built once.
    "-p strait-core -p strait -p strait-tests --lib \
     --test messages --test collectives --test large --test traffic",
];

/// The suites that only step state machines, and use no memory of a segment, a user or a device.
const MACHINES: [&str; 7] = [
    "barrier_time",
    "epoch_models",
    "lock_models",
    "lock_sim",
    "lock_time",
    "rendezvous_models",
    "ring_time",
];

/// The suites of the feature `verbs`, which need real devices.
const ELSEWHERE: [&str; 2] = ["ring_verbs", "verbs"];

const ADDRESS: Sanitizer = Sanitizer {
    name: "address",
    left_out: &[
        ("leaks", "ranks that die leave all memory; the tests have accounts of their own"),
        ("models, and simulations in virtual time", "they share no memory"),
        ("real devices", "`cargo xtask vm` has them, in a machine of their own"),
        ("the program strait", "its measurements do what the suites do, for seconds"),
        ("faults that the chaos driver finds", "one suite plays jobs without a planted fault"),
        ("examples", "they are safe code, and the tests cover it"),
        ("loom-tests", "cells and lines in vectors; miri and the thread sanitizer run them"),
    ],
    options: ("ASAN_OPTIONS", "detect_leaks=0"),
    with_std: false,
    // It has all suites, and most of its time is that of the compiler.
    optimization: None,
};

const THREAD: Sanitizer = Sanitizer {
    name: "thread",
    left_out: &[
        (
            "corruption, faults, recovery, startup, waiting, progress_thread",
            "the thread sanitizer does not see across processes",
        ),
        ("the tests of the program strait", "it does not see across processes, either"),
    ],
    options: ("TSAN_OPTIONS", ""),
    with_std: true,
    optimization: Some("1"),
};

/// Runs `cargo xtask sanitize`: the native tests under the address sanitizer.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Nightly)?;
    let memory = format!(
        "-p strait-core -p strait-platform -p strait-hca -p strait -p strait-tests \
         -p strait-simulations --lib --bins {} -- --skip planted::",
        suites(shell)?
    );
    ADDRESS.watch(shell, &[&memory])
}

/// Runs `cargo xtask races`: the tests with threads under the thread sanitizer.
pub(crate) fn races(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Nightly)?;
    THREAD.watch(shell, &THREADS)
}

impl Sanitizer {
    /// Runs the tests that each of `tests` (arguments of `cargo test`) selects.
    fn watch(&self, shell: &Shell, tests: &[&str]) -> Result<(), Stop> {
        for (what, why) in self.left_out {
            eprintln!("{} sanitizer: LEFT OUT: {what}: {why}", self.name);
        }
        stop::all(tests.iter().map(|tests| (*tests, self.test(shell, tests))).collect())
    }

    fn test(&self, shell: &Shell, tests: &str) -> Result<(), Stop> {
        let Self { name, options: (variable, options), .. } = *self;
        let std = if self.with_std { "-Zbuild-std" } else { "" };
        let arguments =
            format!("run nightly cargo test --quiet --no-fail-fast --target {HOST} {std} {tests}");
        // System calls go through the C library, so that the sanitizer sees memory mapped and
        // unmapped.
        let flags = format!("-Zsanitizer={name} --cfg rustix_use_libc --cfg strait_sanitized");
        let step = shell.step("rustup", &arguments);
        let step = match self.optimization {
            Some(level) => step.env("CARGO_PROFILE_DEV_OPT_LEVEL", level),
            None => step,
        };
        step.env("RUSTFLAGS", &flags)
            .env("RUSTDOCFLAGS", &flags)
            .env("CARGO_TARGET_DIR", shell.target().join(name))
            // A report names functions and lines. Full debug information would take minutes to
            // write, and gigabytes.
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env_default(variable, options)
            .env_default("PROPTEST_CASES", "16")
            .run()
    }
}

/// Returns `--test` for each suite of processes, files and memory: all except [`MACHINES`] and
/// [`ELSEWHERE`].
fn suites(shell: &Shell) -> Result<String, Stop> {
    let mut suites = in_folder(&shell.root().join("tests/tests"))?;
    suites.extend(in_folder(&shell.root().join("tests/simulations/tests"))?);
    for left_out in MACHINES.iter().chain(&ELSEWHERE) {
        let place = suites.iter().position(|suite| suite == left_out);
        let gone = || Stop::Failed(format!("there is no suite {left_out} to leave out"));
        suites.swap_remove(place.ok_or_else(gone)?);
    }
    suites.sort();
    Ok(suites.iter().map(|suite| format!("--test {suite} ")).collect())
}

/// Returns the names of the suites in a folder of tests. A suite is a file, or a folder with a file
/// for its root. Other folders are modules.
fn in_folder(folder: &Path) -> Result<Vec<String>, Stop> {
    let unreadable = |error| Stop::io(folder, &error);
    let mut suites = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() || path.join("main.rs").is_file() {
            suites.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    Ok(suites)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_are_files_and_folders_with_a_root() {
        let suites = suites(&Shell::new(false)).expect("folders of suites");
        let names: Vec<&str> = suites.split("--test ").skip(1).map(str::trim_end).collect();
        for suite in ["messages", "launchers", "cluster"] {
            assert!(names.contains(&suite), "{suite} is missing in {suites}");
        }
        for other in ["verbs", "lock_models"] {
            assert!(!names.contains(&other), "{other}");
        }
    }
}
