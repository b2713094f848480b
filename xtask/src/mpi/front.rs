//! Runs programs of each MPI through the front: `strait mpi`.

mod alone;
mod debian;
mod fortran;
mod loading;
mod nodes;

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use super::{LIMIT, MPI4PY, MPICH, OPEN_MPI, home, python_source};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// The folder of the programs.
const SOURCE: &str = "ffi/mpi/tests";

/// The programs, with the number of ranks.
const PROGRAMS: [(&str, &str); 16] = [
    ("messages", "2"),
    ("probes", "2"),
    ("bound", "2"),
    ("types", "2"),
    ("communicators", "3"),
    ("collectives", "2"),
    ("collective_results", "3"),
    ("neighbours", "3"),
    ("host_waits", "3"),
    ("errors", "2"),
    ("aliases", "3"),
    ("threads", "2"),
    ("windows", "3"),
    ("atomics", "3"),
    ("window_errors", "2"),
    ("window_waits", "2"),
];

/// The tests of mpi4py on messages, requests, communicators and windows.
const PYTHON_TESTS: [&str; 6] =
    ["-itest_p2p", "-itest_request", "-itest_msgzero", "-itest_status", "-itest_rma", "-itest_win"];

/// One MPI, as a host of the front.
pub(super) struct Host {
    pub(super) home: PathBuf,
    launcher: PathBuf,
    /// What the compiler is called with.
    compile: Vec<String>,
    options: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

/// A part of the tests.
type Part = (&'static str, fn(&Shell) -> Result<(), Stop>);

/// All parts, in the order in which they run.
const PARTS: [Part; 15] = [
    ("mpich", |shell| mpich(shell).and_then(|host| programs(shell, &host, "mpich"))),
    ("standard", |shell| standard(shell).and_then(|host| programs(shell, &host, "standard"))),
    ("openmpi", |shell| open_mpi(shell).and_then(|host| programs(shell, &host, "openmpi"))),
    ("intel", |shell| intel(shell).and_then(|host| programs(shell, &host, "intel"))),
    ("debian-mpich", |shell| debian::mpich(shell).and_then(|host| programs(shell, &host, "mpich"))),
    ("debian-openmpi", |shell| {
        debian::open_mpi(shell).and_then(|host| programs(shell, &host, "openmpi"))
    }),
    ("constants", all_constants),
    ("free-in-epoch", alone::free_in_epoch),
    ("death", |shell| mpich(shell).and_then(|host| death(shell, &host))),
    ("window-deaths", window_deaths),
    ("nodes", nodes::run),
    ("fortran", fortran::run),
    ("loaded", loading::mpi),
    ("gpu", loading::gpu),
    ("mpi4py", mpi4py),
];

/// Runs all programs with each host, or the part of this name.
pub(crate) fn run(shell: &Shell, only: Option<&str>) -> Result<(), Stop> {
    let asked = |part: &&Part| only.is_none_or(|name| part.0 == name);
    if PARTS.iter().find(asked).is_none() {
        let names = PARTS.map(|(name, _)| name).join(", ");
        return Err(Stop::Failed(format!("the parts are: {names}")));
    }
    build(shell)?;
    let before = super::shared_memory()?;
    let run = |(name, part): &Part| (*name, part(shell));
    let mut parts: Vec<_> = PARTS.iter().filter(asked).map(run).collect();
    parts.push(("/dev/shm", super::remove_mpichs(&before)));
    stop::all(parts)
}

/// Builds the fronts and the program `strait`.
pub(super) fn build(shell: &Shell) -> Result<(), Stop> {
    let fronts = "build --quiet -p strait-cli -p strait-mpi-mpich -p strait-mpi-standard \
                  -p strait-mpi-openmpi";
    shell.cargo(fronts).run()
}

fn all_constants(shell: &Shell) -> Result<(), Stop> {
    stop::all(vec![
        ("MPICH", mpich(shell).and_then(|host| constants(shell, &host, "mpich"))),
        ("Intel MPI", intel(shell).and_then(|host| constants(shell, &host, "mpich"))),
        ("MPI-5 ABI", standard(shell).and_then(|host| constants(shell, &host, "standard"))),
        ("Open MPI", open_mpi(shell).and_then(|host| constants(shell, &host, "openmpi"))),
    ])
}

/// Returns the launcher of an MPI that is installed in this folder.
fn launcher_of(home: &Path) -> PathBuf {
    home.join("bin/mpiexec")
}

pub(super) fn mpich(shell: &Shell) -> Result<Host, Stop> {
    let home = home(shell, MPICH.name, MPICH.packages)?;
    let compile = vec![home.join("bin/mpicc").display().to_string()];
    Ok(Host { launcher: launcher_of(&home), home, compile, options: "", environment: &[] })
}

/// MPICH's library with the interface of MPI-5.0.
pub(super) fn standard(shell: &Shell) -> Result<Host, Stop> {
    let host = mpich(shell)?;
    let folder = shell.target().join("mpi/standard-include");
    let failed = |error| Stop::io(&folder, &error);
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::copy(host.home.join("include/mpi_abi.h"), folder.join("mpi.h")).map_err(failed)?;
    let library = host.home.join("lib");
    let compile = vec![
        "cc".to_owned(),
        format!("-I{}", folder.display()),
        format!("-Wl,-rpath,{}", library.display()),
        format!("-L{}", library.display()),
        "-l:libmpi_abi.so".to_owned(),
    ];
    Ok(Host { compile, ..host })
}

pub(super) fn open_mpi(shell: &Shell) -> Result<Host, Stop> {
    let home = home(shell, "openmpi", OPEN_MPI)?;
    let compile = vec![home.join("bin/mpicc").display().to_string()];
    let environment = &[
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_pml", "ob1"),
    ];
    let launcher = launcher_of(&home);
    Ok(Host { home, launcher, compile, options: "--oversubscribe --bind-to none", environment })
}

pub(super) fn intel(shell: &Shell) -> Result<Host, Stop> {
    let home = home(shell, "intel-devel", &["impi-rt", "impi-devel"])?;
    let (include, library) = (home.join("include"), home.join("lib"));
    let compile = vec![
        "cc".to_owned(),
        format!("-I{}", include.display()),
        format!("-L{}", library.display()),
        "-lmpi".to_owned(),
    ];
    let environment = &[("I_MPI_FABRICS", "shm"), ("I_MPI_PIN", "0")];
    Ok(Host { launcher: launcher_of(&home), home, compile, options: "", environment })
}

/// Returns `strait mpi` with the launcher of a host and its options.
pub(super) fn launch<'a>(shell: &'a Shell, host: &Host, options: &str) -> Step<'a> {
    launch_by(shell, host, &[], options)
}

/// Returns `strait mpi` with these options, with the launcher of a host and the launcher's options.
fn launch_by<'a>(shell: &'a Shell, host: &Host, own: &[&str], options: &str) -> Step<'a> {
    launch_with(shell, &shell.target().join("debug/strait"), host, own, options)
}

/// Does the same with this program `strait`.
fn launch_with<'a>(
    shell: &'a Shell,
    strait: &Path,
    host: &Host,
    own: &[&str],
    options: &str,
) -> Step<'a> {
    let step = shell.step("timeout", &format!("-k 5 {LIMIT}")).arg(strait).arg("mpi");
    let step = own.iter().fold(step, Step::arg).arg(&host.launcher);
    let words = host.options.split_whitespace().chain(options.split_whitespace());
    let step = words.fold(step, Step::arg);
    let step = host.environment.iter().fold(step, |step, (name, value)| step.env(name, value));
    let cache = shell.target().join("mpi/cache");
    let step = step.env("XDG_CACHE_HOME", cache).env("I_MPI_ROOT", &host.home);
    step.env("LD_LIBRARY_PATH", host.home.join("lib"))
}

/// Compares the constants of a binary interface with those of a host's header.
fn constants(shell: &Shell, host: &Host, interface: &str) -> Result<(), Stop> {
    let mut table = shell.read(&format!("ffi/mpi/abi/{interface}.rs"))?;
    table.push_str(&shell.read(&format!("ffi/mpi/abi/{interface}_windows.rs"))?);
    let tests: String = expectations(&table)
        .into_iter()
        .map(|(name, value)| format!("    TEST({name}, {value})\n"))
        .collect();
    let source = host.home.join(format!("front-constants-{interface}.c"));
    let program = source.with_extension("");
    let text = format!(
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdint.h>\n#define TEST(a, b) if \
         ((int)(intptr_t)(a) != (int)(b)) puts(#a);\nint main(void) {{\n{tests}    return 0;\n}}\n"
    );
    fs::write(&source, text).map_err(|error| Stop::io(&source, &error))?;
    let (compiler, options) = host.compile.split_first().expect("a compiler");
    let step = shell.step(compiler, "-w -o").arg(&program).arg(&source);
    options.iter().fold(step, Step::arg).output()?;
    let library = host.home.join("lib");
    let said = shell.step(&program, "").env("LD_LIBRARY_PATH", library).stdout()?;
    if said.is_empty() {
        return Ok(());
    }
    Err(Stop::Failed(format!("other values in ffi/mpi/abi/{interface}.rs:\n{said}")))
}

/// Returns the constants of a table, by their names in C, with their values.
fn expectations(table: &str) -> Vec<(String, String)> {
    // No header has the first, and only some have the second.
    const NOT_IN_HEADERS: [&str; 2] = ["FORTRAN_BASE", "ERR_PROC_FAILED"];
    let mut found = Vec::new();
    let mut lines = table.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("pub(crate) const fn ")
            && let Some(name) = rest.strip_suffix("() -> Handle {")
            && let Some(value) = lines.next()
        {
            let name = match name {
                "int64" => "int64_t".to_owned(),
                "op_null" => name.to_owned(),
                name => name.replace("op_", ""),
            };
            found.push((format!("MPI_{}", name.to_uppercase()), value.trim().replace('_', "")));
        } else if let Some(rest) = line.strip_prefix("pub(crate) const ")
            && let Some((name, value)) = rest.split_once(": c_int = ")
            && !NOT_IN_HEADERS.contains(&name)
        {
            found.push((format!("MPI_{name}"), value.trim_end_matches(';').to_owned()));
        } else if let Some(value) = line.strip_prefix("pub(crate) const IN_PLACE: isize = ") {
            found.push(("MPI_IN_PLACE".to_owned(), value.trim_end_matches(';').to_owned()));
        } else if let Some(value) = line.strip_prefix("pub(crate) const STATUS_BYTES: usize = ") {
            found.push(("sizeof(MPI_Status)".to_owned(), value.trim_end_matches(';').to_owned()));
        }
    }
    found
}

/// Compiles a program and returns its path.
pub(super) fn compile(shell: &Shell, host: &Host, name: &str, with: &str) -> Result<PathBuf, Stop> {
    let program = host.home.join(format!("front-{with}-{name}"));
    compile_to(shell, host, &format!("{SOURCE}/{name}.c"), &program)?;
    Ok(program)
}

fn compile_to(shell: &Shell, host: &Host, source: &str, program: &Path) -> Result<(), Stop> {
    let (compiler, options) = host.compile.split_first().expect("a compiler");
    // The header of Open MPI makes the compiler warn.
    let step = shell.step(compiler, "-std=gnu11 -O1 -w -o").arg(program);
    let step = step.arg(shell.root().join(source));
    options.iter().fold(step, Step::arg).arg("-lpthread").arg("-ldl").output().map(drop)
}

/// Runs a program of two ranks with MPICH, behind the front and by the launcher below a prefix.
/// `words` go before the program.
pub(crate) fn run_installed(
    shell: &Shell,
    prefix: &Path,
    source: &str,
    words: &[&str],
) -> Result<(), Stop> {
    let (host, program) = (mpich(shell)?, prefix.join("mpi"));
    compile_to(shell, &host, source, &program)?;
    let step = launch_with(shell, &prefix.join("bin/strait"), &host, &[], "-n 2");
    words.iter().fold(step, Step::arg).arg(&program).output().map(drop)
}

/// Compiles a program with MPICH and returns its path.
pub(crate) fn of_mpich(shell: &Shell, name: &str) -> Result<PathBuf, Stop> {
    compile(shell, &mpich(shell)?, name, "mpich")
}

/// Runs the programs.
fn programs(shell: &Shell, host: &Host, with: &str) -> Result<(), Stop> {
    let parts =
        PROGRAMS.iter().map(|(name, ranks)| (*name, program(shell, host, with, name, ranks)));
    stop::all(parts.collect())
}

fn program(shell: &Shell, host: &Host, with: &str, name: &str, ranks: &str) -> Result<(), Stop> {
    let program = compile(shell, host, name, with)?;
    let said = launch(shell, host, &format!("-n {ranks}")).arg(program).output()?;
    let left_out = String::from_utf8_lossy(&said.stderr);
    for line in left_out.lines().filter(|line| line.starts_with("NOT RUN: ")) {
        println!("{name} with {}: {line}", host.home.display());
    }
    let said = String::from_utf8_lossy(&said.stdout);
    if said.trim() == "well" {
        return Ok(());
    }
    Err(Stop::Failed(format!("the program printed {:?}, not \"well\"", said.trim())))
}

/// Kills a rank while the others wait for it. Each of them must get an error.
fn death(shell: &Shell, host: &Host) -> Result<(), Stop> {
    let program = compile(shell, host, "death", "mpich")?;
    let known = host.home.join("front-deaths");
    let _ = fs::remove_file(&known);
    let job = launch(shell, host, "-disable-auto-cleanup -n 3 setsid -w").arg(program).arg(&known);
    // The launcher reports the death.
    let _ = job.output();
    let count = count_of_two(&known);
    if count == 2 {
        return Ok(());
    }
    Err(Stop::Failed(format!("{count} of 2 ranks got an error after the death of a third")))
}

/// Returns how many of two ranks have written a byte to this file. A launcher may end before the
/// ranks that it does not end, so it waits for both.
fn count_of_two(file: &Path) -> u64 {
    let count = || fs::metadata(file).map_or(0, |found| found.len());
    for _ in 0..200 {
        if count() == 2 {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    count()
}

/// The calls of windows in which others wait when a rank is killed, as `window_death.c` numbers
/// them.
const WINDOW_CALLS: u32 = 11;

/// Kills a rank in calls of windows, with each host.
fn window_deaths(shell: &Shell) -> Result<(), Stop> {
    const HYDRA: &str = "-disable-auto-cleanup";
    let calls = |host: Result<Host, Stop>, with: &str, options: &str| {
        let host = host?;
        let program = compile(shell, &host, "window_death", with)?;
        (0..WINDOW_CALLS).try_for_each(|call| window_death(shell, &host, (&program, call), options))
    };
    stop::all(vec![
        ("MPICH", calls(mpich(shell), "mpich", HYDRA)),
        ("Open MPI", calls(open_mpi(shell), "openmpi", "--with-ft ulfm")),
        ("Intel MPI", calls(intel(shell), "intel", HYDRA)),
    ])
}

/// Kills a rank while two others are in this call, or before it. Both must get through.
fn window_death(
    shell: &Shell,
    host: &Host,
    (program, call): (&Path, u32),
    options: &str,
) -> Result<(), Stop> {
    let known = host.home.join(format!("front-window-deaths-{call}"));
    let _ = fs::remove_file(&known);
    let job = launch(shell, host, &format!("{options} -n 3 setsid -w")).arg(program);
    // The launcher reports the death.
    let _ = job.arg(call.to_string()).arg(&known).output();
    let count = count_of_two(&known);
    if count == 2 {
        return Ok(());
    }
    Err(Stop::Failed(format!("{count} of 2 ranks got through call {call} after a death")))
}

/// Runs mpi4py's own tests.
fn mpi4py(shell: &Shell) -> Result<(), Stop> {
    let (home, source) = python_source(shell)?;
    let python = home.join("bin/python");
    let launcher = launcher_of(&home);
    let host = Host { home, launcher, compile: Vec::new(), options: "", environment: &[] };
    let tests = launch(shell, &host, "-n 2").arg(python).arg(tests_of(&source)).arg("-qf");
    PYTHON_TESTS.into_iter().fold(tests, Step::arg).output().map(drop)
}

fn tests_of(source: &Path) -> PathBuf {
    debug_assert!(source.ends_with(MPI4PY.replace("==", "-")), "the source of mpi4py");
    source.join("test/main.py")
}
