//! Links the C library as it is installed, and checks the result (`docs/decisions/link-layout.md`).

mod header;
mod layout;
mod link;
mod profile;
mod shared;

use std::path::PathBuf;

pub(crate) use link::{Order, SONAME, archive, shared_library};

use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::{self, Absence, Stop};
use shared::Shared;

/// Runs `cargo xtask library`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        let what = "the limits are for x86-64 and Linux".to_owned();
        return Err(Stop::NotRun(Absence { what, remedy: None }));
    }
    setup::need(shell, Tool::Valgrind)?;
    let archive = archive(shell, "")?;
    let hot = shared_library(shell, &archive, Order::HotTogether)?;
    let plain = shared_library(shell, &archive, Order::AsItComes)?;
    let shared = Shared::read(&hot)?;
    stop::all(vec![
        ("exported symbols", exports(shell, &shared)),
        ("start-up", failures(shared.start_up())),
        ("patterns of hot.ld", patterns(shell, &shared)),
        ("layout of the fast path", layout::compare(shell, &hot, &plain)),
    ])
}

/// Checks that the library exports exactly the functions that the header declares, all under the
/// first version.
fn exports(shell: &Shell, shared: &Shared) -> Result<(), Stop> {
    let declared = header::functions(&shell.read("ffi/c/include/strait.h")?);
    failures(header::differences(&declared, &shared.exported))
}

/// Checks that every pattern of `hot.ld` matches a function.
fn patterns(shell: &Shell, shared: &Shared) -> Result<(), Stop> {
    let script = shell.read("linker/hot.ld")?;
    let stale = layout::stale(&script, &shared.hot);
    let complaint = |pattern: &String| {
        format!("hot.ld: no function is called {pattern}: has it been renamed, or inlined?")
    };
    failures(stale.iter().map(complaint).collect())
}

fn failures(complaints: Vec<String>) -> Result<(), Stop> {
    if complaints.is_empty() { Ok(()) } else { Err(Stop::Failed(complaints.join("; "))) }
}

/// Returns the folder of the linked libraries, which it creates if need be.
fn folder(shell: &Shell) -> Result<PathBuf, Stop> {
    let folder = shell.target().join("library");
    std::fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    Ok(folder)
}
