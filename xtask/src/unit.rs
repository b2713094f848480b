//! Runs every native test of the workspace, and the examples in its documentation.

use crate::shell::Shell;
use crate::stop::{self, Stop};

/// The tests in the crates, and of the suites those that notice most faults in the least time:
/// messages, collective operations and windows, between threads and between processes.
const QUICK: &str = "--lib --bins --test messages --test matched --test large --test collectives \
                     --test window --test startup";

/// Runs `cargo xtask unit`. The loom tests are included: without loom they run on real threads.
pub(crate) fn run(shell: &Shell, quick: bool) -> Result<(), Stop> {
    let selected = if quick { QUICK } else { "" };
    let nextest = shell.answers("cargo", "nextest --version");
    if !nextest {
        return shell.cargo(&format!("test --workspace --no-fail-fast {selected}")).run();
    }
    // nextest gives each test its own process, and cannot run documentation.
    let tests = shell.cargo(&format!("nextest run --workspace --no-fail-fast {selected}")).run();
    let documentation = || shell.cargo("test --workspace --doc --no-fail-fast").run();
    let documentation = if quick { Ok(()) } else { documentation() };
    stop::all(vec![("tests", tests), ("documentation", documentation)])
}
