//! Runs the atomic algorithms under loom, which explores their interleavings.

use crate::shell::{Shell, Step};
use crate::stop::Stop;

/// The most preemptions in one execution. Two find every planted fault; three take ten times as
/// long.
const PREEMPTIONS: &str = "2";

/// Runs `cargo xtask loom`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    // The tests print how many executions they explored: a model that explores only one proves
    // nothing.
    cargo(shell, "test --release -p strait-loom-tests --tests --no-fail-fast -- --nocapture").run()
}

/// Returns a cargo command for code in which loom replaces the processor's atomics.
///
/// The build has its own target directory, so that it and the native build do not evict each other.
/// Debug assertions are on, because they cost little and name the cause of a failure. Link-time
/// optimization is off, because it costs more time than it saves.
pub(crate) fn cargo<'a>(shell: &'a Shell, arguments: &str) -> Step<'a> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    environment(shell.cargo(arguments))
        .env("RUSTFLAGS", format!("{flags} --cfg strait_loom").trim_start())
        .env("CARGO_TARGET_DIR", shell.target().join("loom"))
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
}

/// Sets the variables that a loom test reads while it runs.
pub(crate) fn environment(step: Step<'_>) -> Step<'_> {
    step.env_default("LOOM_MAX_PREEMPTIONS", PREEMPTIONS)
}
