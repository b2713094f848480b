//! Checks that the core needs no operating system: it builds for a bare target, and nothing in it
//! allocates.
//!
//! The target has no `std`, so a dependency that needs `std` does not compile. The target does have
//! `alloc`, and a linker would accept any C function. Therefore the check also looks at the symbols
//! that the library leaves undefined.

use std::collections::HashSet;
use std::path::Path;

use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSymbol};

use crate::setup::{self, BARE_TARGET, Tool};
use crate::shell::{self, Shell};
use crate::stop::{self, Stop};

/// Functions that the compiler itself may call. Every freestanding environment has them.
const ALLOWED: [&str; 6] = ["memcpy", "memmove", "memset", "memcmp", "bcmp", "rust_eh_personality"];

/// Functions that the compiler calls for floating-point numbers on a target without such
/// instructions. Rust's own `compiler_builtins`, which is linked into every program, has them.
const FLOATS: [&str; 8] =
    ["__adddf3", "__addsf3", "__muldf3", "__mulsf3", "fmax", "fmaxf", "fmin", "fminf"];

/// Runs `cargo xtask no-std`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::BareTarget)?;
    stop::all(vec![("dev", build(shell, "dev")), ("release", build(shell, "release"))])
}

fn build(shell: &Shell, profile: &str) -> Result<(), Stop> {
    let arguments = format!(
        "build --quiet -p strait-core --target {BARE_TARGET} --profile {profile} \
         --message-format json"
    );
    // With link-time optimization the library would hold bitcode instead of symbols.
    let messages = shell.cargo(&arguments).env("CARGO_PROFILE_RELEASE_LTO", "off").stdout()?;
    let library = shell::artifacts(&messages)
        .into_iter()
        .find(|(name, path)| name == "strait_core" && path.extension().is_some_and(|e| e == "rlib"))
        .map(|(_, path)| path)
        .ok_or_else(|| Stop::Failed("cargo made no libstrait_core.rlib".into()))?;
    let foreign: Vec<String> =
        undefined(&library)?.into_iter().filter(|symbol| is_foreign(symbol)).collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let foreign = foreign.join(", ");
    Err(Stop::Failed(format!(
        "{} needs {foreign}: the core may call neither an allocator nor an operating system",
        library.display()
    )))
}

/// Returns the symbols that some member of `library` uses and no member defines, sorted.
fn undefined(library: &Path) -> Result<Vec<String>, Stop> {
    let unreadable = |error: object::Error| Stop::Failed(format!("{}: {error}", library.display()));
    let bytes = std::fs::read(library).map_err(|error| Stop::io(library, &error))?;
    let archive = ArchiveFile::parse(&*bytes).map_err(unreadable)?;
    let (mut found, mut defined) = (Vec::new(), HashSet::new());
    let mut objects = 0;
    for member in archive.members() {
        let member = member.map_err(unreadable)?;
        if !member.name().ends_with(b".o") {
            continue;
        }
        objects += 1;
        let data = member.data(&*bytes).map_err(unreadable)?;
        let object = object::File::parse(data).map_err(unreadable)?;
        for symbol in object.symbols() {
            let Ok(name) = symbol.name() else { continue };
            if symbol.is_undefined() {
                found.push(name.to_owned());
            } else {
                defined.insert(name.to_owned());
            }
        }
    }
    if objects == 0 {
        return Err(Stop::Failed(format!("{} holds no object file", library.display())));
    }
    // Optimized code units of a crate share constants, each under a name that one of them defines.
    found.retain(|symbol| !symbol.is_empty() && !defined.contains(symbol));
    found.sort();
    found.dedup();
    Ok(found)
}

/// Returns whether this symbol comes from outside the core, its dependencies and Rust's own `core`.
fn is_foreign(symbol: &str) -> bool {
    // `__rust_alloc` and related symbols are the entry points of the allocator. Newer compilers
    // mangle their names.
    if symbol.contains("__rust_") || symbol.contains("__rg_") {
        return true;
    }
    // Mangled names are Rust's. The target has no `std`, so only the crate `alloc` needs a check.
    // Its name follows the prefix (legacy mangling) or a crate's disambiguator (v0 mangling).
    if symbol.starts_with("_ZN") {
        return symbol.starts_with("_ZN5alloc");
    }
    if symbol.starts_with("_R") {
        return symbol.contains("_5alloc");
    }
    !ALLOWED.contains(&symbol) && !FLOATS.contains(&symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_and_the_system_are_foreign() {
        let foreign = [
            "__rust_alloc",
            "_RNvCs1234_7___rustc12___rust_alloc",
            "_ZN5alloc7raw_vec17capacity_overflow17h0123456789abcdefE",
            "_RNvNtCs1234_5alloc7raw_vec17capacity_overflow",
            "malloc",
            "clock_gettime",
        ];
        for symbol in foreign {
            assert!(is_foreign(symbol), "{symbol}");
        }
    }

    #[test]
    fn the_language_is_not() {
        let own = [
            "memcpy",
            "_ZN4core9panicking5panic17h0123456789abcdefE",
            "_ZN4core5alloc6layout6Layout17h0123456789abcdefE",
            "_RNvNtCs1234_4core9panicking5panic",
        ];
        for symbol in own {
            assert!(!is_foreign(symbol), "{symbol}");
        }
    }
}
