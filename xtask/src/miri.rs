//! The core's own tests, and the models of its algorithms on real threads, under Miri: undefined behaviour on raw memory,
//! which loom does not see.

use crate::parallel;
use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::{self, Stop};

/// What is run side by side, for Miri itself keeps to one processor. The rendezvous takes as long as all the rest of the core.
const TESTS: [&str; 3] = [
    "-p strait-core --lib --tests -- --skip rndv::",
    "-p strait-core --lib --tests -- rndv::",
    "-p strait-loom-tests --lib --tests",
];

/// `cargo xtask miri`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Miri)?;
    stop::all(parallel::each(&TESTS, |tests| (*tests, interpret(shell, tests))))
}

fn interpret(shell: &Shell, tests: &str) -> Result<(), Stop> {
    // Property tests ask for the working directory, which isolation hides; Miri is a hundred times slower than the
    // processor, so they draw fewer cases than they do natively.
    shell
        .step("rustup", &format!("run nightly cargo miri test --quiet --no-fail-fast {tests}"))
        .env_default("MIRIFLAGS", "-Zmiri-strict-provenance -Zmiri-disable-isolation")
        .env_default("PROPTEST_CASES", "4")
        .env("CARGO_TARGET_DIR", shell.target().join("miri"))
        .run()
}
