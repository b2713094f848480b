//! Runs the core's own tests, and the models of its algorithms on real threads, under Miri. Miri
//! finds undefined behaviour on raw memory, which loom does not see.

use crate::parallel;
use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::{self, Stop};

/// Sets of tests that run in parallel, because Miri uses only one processor. The tests of `rndv`
/// take as long as all other tests of the core.
const TESTS: [&str; 3] = [
    "-p strait-core --lib --tests -- --skip rndv::",
    "-p strait-core --lib --tests -- rndv::",
    "-p strait-loom-tests --lib --tests",
];

/// Runs `cargo xtask miri`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Miri)?;
    stop::all(parallel::each(&TESTS, |tests| (*tests, interpret(shell, tests))))
}

fn interpret(shell: &Shell, tests: &str) -> Result<(), Stop> {
    // Isolation is off, because property tests read the working directory. Miri is a hundred times
    // slower than the processor, so property tests draw fewer cases than natively.
    shell
        .step("rustup", &format!("run nightly cargo miri test --quiet --no-fail-fast {tests}"))
        .env_default("MIRIFLAGS", "-Zmiri-strict-provenance -Zmiri-disable-isolation")
        .env_default("PROPTEST_CASES", "4")
        // The default generator is a cipher, on which Miri would spend most of its time.
        .env_default("PROPTEST_RNG_ALGORITHM", "xs")
        .env("CARGO_TARGET_DIR", shell.target().join("miri"))
        .run()
}
