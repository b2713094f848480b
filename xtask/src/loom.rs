//! The atomic algorithms under loom, which explores their interleavings.

use crate::shell::{Shell, Step};
use crate::stop::Stop;

/// Forced switches of thread that one execution may contain. Two find every fault that was ever planted; three take
/// ten times as long.
const PREEMPTIONS: &str = "2";

/// `cargo xtask loom`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    // The tests say how many executions they explored: a model that explores one proves nothing.
    cargo(shell, "test --release -p strait-loom-tests --tests --no-fail-fast -- --nocapture").run()
}

/// A cargo command on code in which loom has taken the place of the processor.
///
/// It has its own target directory, so that neither build throws the other away. Debug assertions are on (they cost
/// little here and say more than a lost message), link-time optimisation is off (it costs more than it gains).
pub(crate) fn cargo<'a>(shell: &'a Shell, arguments: &str) -> Step<'a> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    environment(shell.cargo(arguments))
        .env("RUSTFLAGS", format!("{flags} --cfg strait_loom").trim_start())
        .env("CARGO_TARGET_DIR", shell.target().join("loom"))
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
}

/// What a loom test reads while it runs.
pub(crate) fn environment(step: Step<'_>) -> Step<'_> {
    step.env_default("LOOM_MAX_PREEMPTIONS", PREEMPTIONS)
}
