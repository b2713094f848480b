//! The release builds that are installed, counted or checked.

use crate::shell::{Shell, Step};

/// All packages of these builds. Every command names all of them, whatever it needs: then cargo
/// builds what they depend on once, with one set of features.
const PACKAGES: &str = "-p strait-ffi -p strait-ofi -p strait-cli -p strait-benches";

/// Returns the command that builds the targets `what` of these packages with these features.
pub(crate) fn build<'a>(shell: &'a Shell, what: &str, features: &str) -> Step<'a> {
    shell.cargo(&format!("build --quiet --release {PACKAGES} {what} {features}"))
}
