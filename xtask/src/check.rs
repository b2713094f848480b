//! Checks that run no code of Strait: formatting, lints, documentation, and the rules of `tidy`.

use crate::setup::{self, BARE_TARGET, Tool};
use crate::shell::Shell;
use crate::stop::{self, Stop};
use crate::tidy;

/// Runs `cargo xtask check`. Goes on after a failure, so that one run shows everything.
pub(crate) fn run(shell: &Shell, quick: bool) -> Result<(), Stop> {
    let quick_part = vec![
        ("formatting", formatting(shell)),
        ("tidy", tidy::run(shell)),
        ("lints", lints(shell)),
    ];
    let rest = || {
        vec![
            ("lints of the feature verbs", verbs(shell)),
            ("lints of the image", image(shell)),
            ("documentation", documentation(shell)),
            ("dependencies", dependencies(shell)),
        ]
    };
    let rest = if quick { Vec::new() } else { rest() };
    stop::all([quick_part, rest].concat())
}

fn formatting(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Rustfmt)?;
    shell.cargo("fmt --all --check").run()?;
    shell.cargo("fmt --manifest-path fuzz/Cargo.toml --check").run()
}

fn lints(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Clippy)?;
    shell.cargo("clippy --workspace --all-targets --quiet -- -D warnings").run()
}

/// Lints the code that only the feature `verbs` compiles. Its bindings need more than a Rust
/// toolchain.
fn verbs(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Clippy)?;
    let features = setup::features(shell, true)?;
    let packages =
        "-p strait-hca -p strait -p strait-cli -p strait-ffi -p strait-ofi -p strait-tests";
    // The other suites of strait-tests are the same without the feature.
    let targets = "--lib --bins --test verbs --test ring_verbs";
    let clippy =
        |what: &str| shell.cargo(&format!("clippy {what} {features} --quiet -- -D warnings")).run();
    clippy(&format!("{packages} {targets}"))?;
    clippy("-p strait-hca --all-targets")
}

/// Lints the code that only a target without an operating system compiles.
fn image(shell: &Shell) -> Result<(), Stop> {
    for tool in [Tool::Clippy, Tool::BareTarget] {
        setup::need(shell, tool)?;
    }
    let arguments = format!("-p strait-bare --features image --target {BARE_TARGET} --quiet");
    shell.cargo(&format!("clippy {arguments} -- -D warnings")).run()
}

fn documentation(shell: &Shell) -> Result<(), Stop> {
    shell.cargo("doc --workspace --no-deps --quiet").env("RUSTDOCFLAGS", "-Dwarnings").run()
}

/// Checks the licences, sources and bans of `deny.toml`. cargo-deny takes minutes to build, so the
/// check uses it only where it is installed. `tidy` always checks the direction of our own
/// dependencies.
fn dependencies(shell: &Shell) -> Result<(), Stop> {
    if !shell.answers("cargo", "deny --version") {
        return Ok(());
    }
    shell.cargo("deny --log-level warn check bans licenses sources").run()
}
