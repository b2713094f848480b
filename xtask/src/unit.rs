//! Runs every native test of the workspace, and the examples in its documentation.

use crate::shell::Shell;
use crate::stop::{self, Stop};

/// Runs `cargo xtask unit`. The loom tests are included: without loom they run on real threads.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    if !shell.answers("cargo", "nextest --version") {
        return shell.cargo("test --workspace --no-fail-fast").run();
    }
    // nextest gives each test its own process, and cannot run documentation.
    stop::all(vec![
        ("tests", shell.cargo("nextest run --workspace --no-fail-fast").run()),
        ("documentation", shell.cargo("test --workspace --doc --no-fail-fast").run()),
    ])
}
