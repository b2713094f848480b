//! Packages the crates that are published, and builds the packages with the oldest Rust that they
//! promise.

use core::fmt::Write as _;
use std::fs;
use std::path::Path;

use toml::{Table, Value};

use crate::setup;
use crate::shell::Shell;
use crate::stop::Stop;

/// The published crates: the library, and those that it needs.
const CRATES: [&str; 4] = ["strait-core", "strait-platform", "strait-hca", "strait"];

/// Runs `cargo xtask package`.
///
/// The packages are unpacked into a workspace of their own, and built there by the oldest
/// toolchain. So one build shows that no file is missing and that no later feature is used. The
/// build with which `cargo package` ends by itself would take the crates that a package needs from
/// cargo's cache, where those of an earlier run may be.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    let version = rust_version(&shell.read("Cargo.toml")?)
        .ok_or_else(|| Stop::Failed("Cargo.toml has no rust-version".into()))?;
    setup::toolchain(shell, &version)?;
    let folder = shell.target().join("package");
    let crates = CRATES.map(|name| format!("-p {name}")).join(" ");
    let package = shell.cargo(&format!("package --quiet --no-verify --allow-dirty {crates}"));
    package.env("CARGO_TARGET_DIR", &folder).output()?;
    let workspace = folder.join("unpacked");
    unpack(shell, &folder.join("package"), &workspace)?;
    shell
        .step("rustup", &format!("run {version} cargo check --quiet --workspace --manifest-path"))
        .arg(workspace.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", folder.join("built"))
        // Only errors count: warnings are those of other versions of the lints.
        .env("RUSTFLAGS", "--cap-lints allow")
        .run()
}

/// Unpacks the packages of `from` into a workspace, in which they need each other and the versions
/// of other crates that the repository has.
fn unpack(shell: &Shell, from: &Path, workspace: &Path) -> Result<(), Stop> {
    let io = |error| Stop::io(workspace, &error);
    let _ = fs::remove_dir_all(workspace);
    fs::create_dir_all(workspace).map_err(io)?;
    let (mut members, mut patches) = (String::new(), String::new());
    for name in CRATES {
        let package = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let archive = from.join(format!("{package}.crate"));
        shell.step("tar", "-xf").arg(archive).arg("-C").arg(workspace).output()?;
        let _ = write!(members, "{package:?}, ");
        let _ = writeln!(patches, "{name} = {{ path = {package:?} }}");
    }
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patches}"
    );
    fs::write(workspace.join("Cargo.toml"), manifest).map_err(io)?;
    fs::copy(shell.root().join("Cargo.lock"), workspace.join("Cargo.lock")).map_err(io)?;
    Ok(())
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
