//! Packages the crates that are published, and builds the packages with the oldest Rust that they
//! promise.

use std::path::PathBuf;

use toml::{Table, Value};

use crate::setup;
use crate::shell::Shell;
use crate::stop::Stop;

/// The published crates: the library, and those that it needs.
const CRATES: [&str; 4] = ["strait-core", "strait-platform", "strait-hca", "strait"];

/// Runs `cargo xtask package`.
///
/// `cargo package` builds each package outside the repository, from the files in it alone. The
/// compiler of that build is the oldest, so one build shows both that no file is missing and that
/// no later feature of the language is used. cargo itself is the present one: the oldest cannot
/// package crates that need each other.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    let compiler = oldest(shell)?;
    let crates = CRATES.map(|name| format!("-p {name}")).join(" ");
    let arguments = format!("package --quiet --allow-dirty {crates}");
    shell
        .cargo(&arguments)
        .env("RUSTC", compiler)
        .env("CARGO_TARGET_DIR", shell.target().join("package"))
        // Only errors count: warnings are those of other versions of the lints.
        .env("RUSTFLAGS", "--cap-lints allow")
        .run()
}

/// Returns the compiler of the version in `rust-version`, which it installs if need be.
fn oldest(shell: &Shell) -> Result<PathBuf, Stop> {
    let manifest = shell.read("Cargo.toml")?;
    let version = rust_version(&manifest)
        .ok_or_else(|| Stop::Failed("Cargo.toml has no rust-version".into()))?;
    setup::toolchain(shell, &version)?;
    let path = shell.step("rustup", &format!("which --toolchain {version} rustc")).stdout()?;
    Ok(PathBuf::from(path.trim_end()))
}

/// Returns the `rust-version` of the workspace.
fn rust_version(manifest: &str) -> Option<String> {
    let manifest: Table = manifest.parse().ok()?;
    let package = manifest.get("workspace")?.get("package")?;
    package.get("rust-version").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_manifest_promise_the_same_version() {
        let shell = Shell::new(false);
        let version = rust_version(&shell.read("Cargo.toml").unwrap()).unwrap();
        assert!(shell.read("README.md").unwrap().contains(&format!("Rust {version}")));
        assert!(shell.read("CHANGELOG.md").unwrap().contains(&format!("MSRV: {version}.")));
    }
}
