//! The native tests under the sanitizers of the nightly compiler: memory errors, and races between threads.

use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::{self, Stop};

/// The target of both. A target that is named keeps the flags away from build scripts and procedural macros.
pub(crate) const HOST: &str = "x86_64-unknown-linux-gnu";

/// One sanitizer, and what it watches.
struct Sanitizer {
    name: &'static str,
    /// The arguments of `cargo test` that choose the tests.
    tests: &'static [&'static str],
    /// What is not among them, and why.
    left_out: &'static [(&'static str, &'static str)],
    /// The variable that takes its options, and the options.
    options: (&'static str, &'static str),
    /// Whether the standard library must be built with it, too.
    with_std: bool,
}

const ADDRESS: Sanitizer = Sanitizer {
    name: "address",
    tests: &["-p strait-core -p strait -p strait-tests"],
    left_out: &[
        (
            "leaks",
            "ranks that end in the middle leave everything; the tests keep books of their own",
        ),
        ("loom-tests", "cells and lines in vectors; miri and the thread sanitizer run them"),
    ],
    options: ("ASAN_OPTIONS", "detect_leaks=0"),
    with_std: false,
};

const THREAD: Sanitizer = Sanitizer {
    name: "thread",
    tests: &[
        "-p strait-loom-tests --lib --tests",
        "-p strait-core -p strait --lib",
        "-p strait-tests --test messages --test collectives --test large --test traffic",
    ],
    left_out: &[
        (
            "corruption, faults, recovery, startup, waiting, progress_thread",
            "it is blind across processes",
        ),
        ("the tests of the program strait", "likewise"),
    ],
    options: ("TSAN_OPTIONS", ""),
    with_std: true,
};

/// `cargo xtask sanitize`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Nightly)?;
    stop::all(vec![("address", ADDRESS.watch(shell)), ("thread", THREAD.watch(shell))])
}

impl Sanitizer {
    fn watch(&self, shell: &Shell) -> Result<(), Stop> {
        for (what, why) in self.left_out {
            eprintln!("{} sanitizer: LEFT OUT: {what}: {why}", self.name);
        }
        self.tests.iter().try_for_each(|tests| self.test(shell, tests))
    }

    fn test(&self, shell: &Shell, tests: &str) -> Result<(), Stop> {
        let Self { name, options: (variable, options), .. } = *self;
        let std = if self.with_std { "-Zbuild-std" } else { "" };
        let arguments =
            format!("run nightly cargo test --quiet --no-fail-fast --target {HOST} {std} {tests}");
        // Through the C library, so that the sanitizer sees memory come and go.
        let flags = format!("-Zsanitizer={name} --cfg rustix_use_libc");
        shell
            .step("rustup", &arguments)
            .env("RUSTFLAGS", &flags)
            .env("RUSTDOCFLAGS", &flags)
            .env("CARGO_TARGET_DIR", shell.target().join(name))
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env_default(variable, options)
            .env_default("PROPTEST_CASES", "16")
            .run()
    }
}
