//! Counts instructions per operation with callgrind (`docs/instruction-count.md` has the method).
//!
//! Counts repeat to the instruction on any x86-64 machine with the same compiler; times do not.
//! This is therefore the only performance figure that can fail a run.

mod forwarding;
mod gate;
mod profile;

use core::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::install;
use crate::mpi;
use crate::release;
use crate::setup::{self, Tool};
use crate::shell::{self, Shell};
use crate::stop::{Absence, Stop};
use gate::{Program, Row};
use profile::Calls;

/// A row with its measured figure.
#[derive(Debug, PartialEq, Serialize)]
struct Counted {
    #[serde(flatten)]
    row: Row,
    /// Mean number of instructions over all counted calls.
    instructions: f64,
}

/// Runs `cargo xtask icount`.
pub(crate) fn run(shell: &Shell, json: bool) -> Result<(), Stop> {
    if cfg!(not(target_arch = "x86_64")) {
        let what = "the limits are for x86-64 and this is another processor".into();
        return Err(Stop::NotRun(Absence { what, remedy: None }));
    }
    setup::need(shell, Tool::Valgrind)?;
    let gate = gate::parse(&shell.read("benches/icount.toml")?)?;
    let providers = mpi::built(shell, "")?;
    let rust = profile(shell, &build(shell)?, &providers)?;
    let c = profile(shell, &build_c(shell)?, &providers)?;
    let libfabric = profile(shell, &build_libfabric(shell)?, &providers)?;
    // What can be counted without an MPI is counted, and then the rung says what it lacks.
    let (mpi, absence) = match profile_mpi(shell) {
        Err(stop @ Stop::NotRun(_)) => (None, Err(stop)),
        profile => (Some(profile?), Ok(())),
    };
    let counted = gate.rows.into_iter().filter_map(|row| {
        let profile = match row.program {
            Program::Rust => &rust,
            Program::C => &c,
            Program::Libfabric => &libfabric,
            Program::Mpi => mpi.as_ref()?,
        };
        Some(count(profile, row))
    });
    let counted = counted.collect::<Result<Vec<_>, _>>()?;
    if json {
        println!("{}", serde_json::json!({ "rows": counted }));
    } else {
        print!("{}", table(&counted));
    }
    verdict(&counted)?;
    forwarding::check(shell, &shell.target().join("icount"))?;
    absence
}

fn build(shell: &Shell) -> Result<PathBuf, Stop> {
    let messages = release::build(shell, "--bin icount --message-format json", "").stdout()?;
    let mut made = shell::artifacts(&messages).into_iter();
    let program = made.find(|(name, _)| name == "icount").map(|(_, path)| path);
    program.ok_or_else(|| Stop::Failed("cargo made no program called icount".into()))
}

/// Installs the shared library, and builds the counted calls in C against it.
fn build_c(shell: &Shell) -> Result<PathBuf, Stop> {
    let prefix = shell.target().join("icount");
    install::without_fronts(shell, &prefix, false)?;
    link_c(shell, &prefix, "icount", "")
}

/// Builds `benches/NAME.c` against the shared library below `prefix`.
fn link_c(shell: &Shell, prefix: &Path, name: &str, flags: &str) -> Result<PathBuf, Stop> {
    setup::need(shell, Tool::Cpp)?;
    let (program, library) = (prefix.join(name), prefix.join("lib"));
    let arguments = format!(
        "-std=c99 -O2 -Wall -Wextra -Werror {flags} -Iffi/c/include benches/{name}.c -lstrait -L"
    );
    let step = shell.step("cc", &arguments).arg(&library).arg("-o").arg(&program);
    // `-z now` resolves the functions of the library when the program starts, as a library linked
    // for speed does. The runpath makes sure that this library is used, although cargo puts its own
    // folders first.
    step.arg(format!("-Wl,-z,now,--disable-new-dtags,-rpath,{}", library.display())).output()?;
    Ok(program)
}

/// Builds the counted calls in C through libfabric.
fn build_libfabric(shell: &Shell) -> Result<PathBuf, Stop> {
    setup::need(shell, Tool::Libfabric)?;
    let program = shell.target().join("icount/libfabric");
    let arguments = "-std=c99 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror ffi/ofi/bench/icount.c -o";
    shell.step("cc", arguments).arg(&program).arg("-lfabric").output()?;
    Ok(program)
}

/// Returns the text of the profile of one run of `program`. libfabric finds its provider in
/// `provider`.
fn profile(shell: &Shell, program: &Path, provider: &Path) -> Result<String, Stop> {
    let file = shell.target().join("callgrind.out.icount");
    shell
        .step("valgrind", "--tool=callgrind --quiet")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .env("FI_PROVIDER", "strait")
        .env("FI_PROVIDER_PATH", provider.parent().unwrap_or(provider))
        .output()?;
    std::fs::read_to_string(&file).map_err(|error| Stop::io(&file, &error))
}

/// Returns the text of the profile of rank 0 of the calls of MPI, behind the front as it is
/// installed. The prefix has everything else already.
fn profile_mpi(shell: &Shell) -> Result<String, Stop> {
    let prefix = shell.target().join("icount");
    install::fronts(shell, &prefix, &["mpich"], false)?;
    let of_rank = |rank: &str| prefix.join(format!("callgrind.out.mpi.{rank}"));
    // MPICH's launcher sets the variable for each rank.
    let file = format!("--callgrind-out-file={}", of_rank("%q{PMI_RANK}").display());
    let words = ["valgrind", "--tool=callgrind", "--quiet", &file];
    mpi::front::run_installed(shell, &prefix, "ffi/mpi/bench/icount.c", &words)?;
    let counted = of_rank("0");
    std::fs::read_to_string(&counted).map_err(|error| Stop::io(&counted, &error))
}

fn count(profile: &str, row: Row) -> Result<Counted, Stop> {
    let failed = |what: &str| Err(Stop::Failed(format!("{}: {what}", row.symbol)));
    match profile::calls(profile, &row.symbol, row.caller.as_deref()) {
        None => failed("callgrind's file cannot be read: has its format changed?"),
        Some(Calls { count: 0, .. }) => {
            failed("never called: is it exported, never inlined, and called by the program?")
        }
        Some(Calls { count, instructions }) => {
            Ok(Counted { row, instructions: instructions as f64 / count as f64 })
        }
    }
}

fn table(counted: &[Counted]) -> String {
    let mut text = String::new();
    let head = ["operation", "instructions", "paper, 2007", "best MPI", "limit"];
    let _ = writeln!(
        text,
        "{:<36} {:>12} {:>12} {:>9} {:>6}",
        head[0], head[1], head[2], head[3], head[4]
    );
    for Counted { row, instructions } in counted {
        let known = |figure: Option<u64>| figure.map_or_else(|| "-".into(), |n| n.to_string());
        let (paper, best) = (known(row.paper), known(row.best_mpi));
        let _ = writeln!(
            text,
            "{:<36} {instructions:>12.1} {paper:>12} {best:>9} {:>6}",
            row.label, row.limit
        );
    }
    text
}

fn verdict(counted: &[Counted]) -> Result<(), Stop> {
    let over = |counted: &&Counted| counted.instructions > counted.row.limit as f64;
    let complaint = |Counted { row, instructions }: &Counted| {
        format!("{} takes {instructions:.1} instructions, its limit is {}", row.label, row.limit)
    };
    let complaints: Vec<String> = counted.iter().filter(over).map(complaint).collect();
    if complaints.is_empty() { Ok(()) } else { Err(Stop::Failed(complaints.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(instructions: f64) -> Counted {
        let row = Row {
            symbol: "strait_icount_send".into(),
            caller: None,
            program: Program::Rust,
            label: "send, 8 bytes".into(),
            paper: Some(241),
            best_mpi: None,
            limit: 100,
        };
        Counted { row, instructions }
    }

    #[test]
    fn above_the_limit_is_a_failure() {
        assert_eq!(verdict(&[counted(100.0)]), Ok(()));
        let Err(Stop::Failed(why)) = verdict(&[counted(100.0), counted(100.5)]) else {
            panic!("it passed")
        };
        assert_eq!(why, "send, 8 bytes takes 100.5 instructions, its limit is 100");
    }

    #[test]
    fn the_figure_is_the_mean_of_the_calls() {
        let row = counted(0.0).row;
        let profile = "fn=(1) main\ncfn=(2) strait_icount_send\ncalls=2 +1\n3 175\n";
        assert_eq!(count(profile, row.clone()).map(|counted| counted.instructions), Ok(87.5));
        assert!(count("fn=(1) main\n", row).is_err(), "what was never called costs nothing");
    }

    #[test]
    fn a_missing_count_is_a_dash() {
        let table = table(&[counted(87.0)]);
        let row: Vec<&str> = table.lines().nth(1).unwrap_or("").split_whitespace().collect();
        assert_eq!(row, ["send,", "8", "bytes", "87.0", "241", "-", "100"]);
    }

    #[test]
    fn the_json_is_flat() {
        let json = serde_json::to_value(counted(87.0)).unwrap();
        assert_eq!((&json["limit"], &json["instructions"]), (&100.into(), &87.0.into()));
    }
}
