//! Links the archive into the shared library.
//!
//! rustc cannot do this: it gives a `cdylib` a version script of its own, which takes precedence
//! and leaves the symbols without a version.

use std::path::{Path, PathBuf};

use crate::release;
use crate::shell::{self, Shell, Step};
use crate::stop::Stop;

/// The name of the shared library in the programs that are linked with it.
pub(crate) const SONAME: &str = "libstrait.so.1";

/// The system libraries that Rust's standard library needs (`rustc --print native-static-libs`) and
/// that the C library does not contain.
const SYSTEM: [&str; 8] =
    ["-Wl,--as-needed", "-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// The order of the functions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// The order of `linker/hot.ld`, which the installed library has.
    HotTogether,
    /// The compiler's order, for comparison.
    AsItComes,
}

/// Builds `libstrait.a` with these features.
pub(crate) fn archive(shell: &Shell, features: &str) -> Result<PathBuf, Stop> {
    let messages = release::build(shell, "--lib --message-format json", features).stdout()?;
    let mut made = shell::artifacts(&messages).into_iter();
    let is_archive = |path: &Path| path.extension().is_some_and(|extension| extension == "a");
    let archive = made.find(|(name, path)| name == "strait" && is_archive(path));
    archive.map(|(_, path)| path).ok_or_else(|| Stop::Failed("cargo made no libstrait.a".into()))
}

/// Links `libstrait.so.1` from `archive`.
pub(crate) fn shared_library(shell: &Shell, archive: &Path, order: Order) -> Result<PathBuf, Stop> {
    let folder = super::folder(shell)?.join(match order {
        Order::HotTogether => "hot",
        Order::AsItComes => "plain",
    });
    std::fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    let library = folder.join(SONAME);
    // Keeps all symbols that the version script exports, and the code that they need.
    let step = shell.step("cc", "-shared -Wl,--gc-sections -Wl,-O1 -Wl,--hash-style=gnu");
    // The dynamic linker does all relocations before the first call, then makes the relocated
    // memory read-only.
    let step = step.arg("-Wl,-z,now,-z,relro,-z,noexecstack,-z,defs");
    let step = step.arg(format!("-Wl,-soname,{SONAME}"));
    let step = step.arg("-Wl,--version-script=linker/strait.map");
    let step = match order {
        Order::HotTogether => step.arg("-Wl,-T,linker/hot.ld"),
        Order::AsItComes => step,
    };
    let step = step.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
    let step = SYSTEM.iter().fold(step, Step::arg);
    step.arg("-o").arg(&library).output()?;
    Ok(library)
}
