//! The core's own tests, and the models of its algorithms on real threads, under Miri: undefined behaviour on raw memory,
//! which loom does not see.

use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::Stop;

/// `cargo xtask miri`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Miri)?;
    // Property tests ask for the working directory, which isolation hides; Miri is a hundred times slower than the
    // processor, so they draw fewer cases than they do natively.
    shell
        .step(
            "rustup",
            "run nightly cargo miri test -p strait-core -p strait-loom-tests --lib --tests",
        )
        .env_default("MIRIFLAGS", "-Zmiri-strict-provenance -Zmiri-disable-isolation")
        .env_default("PROPTEST_CASES", "4")
        .env("CARGO_TARGET_DIR", shell.target().join("miri"))
        .run()
}
