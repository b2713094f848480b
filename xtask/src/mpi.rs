//! Runs unmodified MPIs over Strait: the libfabric provider under MPICH, Open MPI and Intel MPI,
//! from Python's packages and from Debian.
//!
//! Each of Python's packages is installed once, into an environment of its own below the target
//! directory.

mod debian;
pub(crate) mod front;
pub(crate) mod hangs;
mod libfabric;
mod nodes;
mod one_sided;

use core::time::Duration;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, thread};

use crate::release;
use crate::setup::{self, Tool, is_offline};
use crate::shell::{Shell, Step};
use crate::stop::{self, Absence, Stop};

/// The provider's file name as cargo writes it, and as libfabric expects it.
const BUILT: &str = "libstrait_fi.so";
pub(crate) const PROVIDER: &str = "libstrait-fi.so";

/// The limit for one program, in seconds. Alone a program needs a few seconds. MPICH gives up its
/// processor at every poll when several threads may call it, as Python's may, and beside other work
/// gets it back a time slice later: with two busy processes on two processors, mpi4py's tests
/// between nodes take 135 s instead of one.
const LIMIT: u32 = 600;

/// The Python packages of one MPI.
pub(crate) struct Mpi {
    /// The name in `strait mpi-env`.
    name: &'static str,
    pub(crate) packages: &'static [&'static str],
    /// Arguments of its `mpiexec`.
    options: &'static str,
    /// The MPI with the compiler that builds its programs. The two have one binary interface.
    compiler: &'static str,
}

pub(crate) const MPICH: Mpi =
    Mpi { name: "mpich", packages: &["mpich==5.0.2"], options: "", compiler: "mpich" };

/// The packages of Open MPI.
pub(crate) const OPEN_MPI: &[&str] = &["openmpi>=5,<6"];

const MPIS: [Mpi; 3] = [
    MPICH,
    Mpi { name: "openmpi", packages: OPEN_MPI, options: "--oversubscribe", compiler: "openmpi" },
    Mpi { name: "intel", packages: &["impi-rt"], options: "", compiler: "mpich" },
];

/// mpi4py, with its tests in the source package only, and the package that unpacks it.
const MPI4PY: &str = "mpi4py==4.1.2";

/// Runs `cargo xtask mpi`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Libfabric)?;
    // Both packages each time, so that both commands build what they depend on with one set of
    // features.
    shell.cargo("test --quiet -p strait-ofi -p strait-cli --lib -- --ignored").run()?;
    shell.cargo("build --quiet -p strait-ofi -p strait-cli").run()?;
    let provider = named(shell, "debug")?;
    let mut parts: Vec<_> =
        MPIS.iter().map(|mpi| (mpi.name, programs(shell, mpi, &provider))).collect();
    parts.push(("mpi4py", mpi4py(shell, &provider)));
    parts.push(("spawn", spawn(shell, &provider)));
    parts.push(("nodes", nodes::run(shell, &provider)));
    parts.push(("one-sided", one_sided::run(shell, &provider)));
    parts.push(("libfabric", libfabric::run(shell, &provider)));
    parts.push(("Debian", debian::run(shell, &provider)));
    parts.push(("front", front::run(shell, None)));
    parts.push(("hangs", hangs::run(shell)));
    parts.push(("/dev/shm", nothing_is_left()));
    stop::all(parts)
}

/// Runs `cargo xtask provider`: puts the provider beside the program that `cargo build --release`
/// makes, where `strait mpi-env` finds it.
pub(crate) fn provider(shell: &Shell, verbs: bool) -> Result<(), Stop> {
    println!("{}", built(shell, setup::features(shell, verbs)?)?.display());
    Ok(())
}

/// Builds the release provider with these features and returns its path.
pub(crate) fn built(shell: &Shell, features: &str) -> Result<PathBuf, Stop> {
    release::build(shell, "--lib", features).run()?;
    Ok(named(shell, "release")?.join(PROVIDER))
}

/// Gives the provider that cargo has built its name, and returns its directory.
fn named(shell: &Shell, profile: &str) -> Result<PathBuf, Stop> {
    let directory = shell.target().join(profile);
    let (built, named) = (directory.join(BUILT), directory.join(PROVIDER));
    // Removes the old file first: a program may have it mapped.
    let _ = fs::remove_file(&named);
    fs::copy(&built, &named).map_err(|error| Stop::io(&built, &error))?;
    Ok(directory)
}

/// Makes the environments that the rung needs.
pub(crate) fn fetch(shell: &Shell) -> Result<(), Stop> {
    let made = |mpi: &Mpi| (mpi.name, home(shell, mpi.name, mpi.packages).map(drop));
    let mut parts: Vec<_> = MPIS.iter().map(made).collect();
    parts.push(("mpi4py", python_source(shell).map(drop)));
    stop::all(parts)
}

/// Runs our test programs under one MPI.
fn programs(shell: &Shell, mpi: &Mpi, provider: &Path) -> Result<(), Stop> {
    let home = home(shell, mpi.name, mpi.packages)?;
    let program = compile(shell, mpi, &home, "messages")?;
    nodes::all_well(launch(shell, mpi, (&home, provider), "-n 3")?.arg(&program), 1)?;
    death(shell, mpi, (&home, provider), &[])
}

/// Number of processes that a process of MPICH spawns in turn: more than twice the 64 ranks that
/// its universe has room for. Each takes a tenth of a second of processor time, so the number is
/// not larger.
const SPAWNED: u32 = 140;

/// Runs a process of MPICH that spawns more processes, in turn, than its universe has ranks.
fn spawn(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    let (home, program) = mpich(shell, "spawn")?;
    let job = launch(shell, &MPICH, (&home, provider), "-n 1")?.arg(program);
    job.arg(SPAWNED.to_string()).output().map(drop)
}

/// Returns MPICH's environment, and a test program that is compiled with it.
pub(crate) fn mpich(shell: &Shell, program: &str) -> Result<(PathBuf, PathBuf), Stop> {
    let home = home(shell, MPICH.name, MPICH.packages)?;
    let program = compile(shell, &MPICH, &home, program)?;
    Ok((home, program))
}

/// Compiles a test program and returns its path.
fn compile(shell: &Shell, mpi: &Mpi, home: &Path, name: &str) -> Result<PathBuf, Stop> {
    compile_from(shell, mpi, home, &format!("ffi/ofi/tests/{name}.c"))
}

/// Compiles the test program in this file and returns its path.
fn compile_from(shell: &Shell, mpi: &Mpi, home: &Path, source: &str) -> Result<PathBuf, Stop> {
    let compiler = MPIS.iter().find(|other| other.name == mpi.compiler).unwrap_or(&MPICH);
    let tools = self::home(shell, compiler.name, compiler.packages)?;
    let source = shell.root().join(source);
    let program = home.join(source.file_stem().unwrap_or_default());
    let compile = shell.step(tools.join("bin/mpicc"), "-O1 -o").arg(&program);
    compile.arg(source).output()?;
    Ok(program)
}

/// Kills a rank. The job must end with an error. Under MPICH the surviving rank is kept from its
/// launcher, so it must detect the death itself.
fn death(
    shell: &Shell,
    mpi: &Mpi,
    (home, provider): (&Path, &Path),
    variables: &[(&str, &str)],
) -> Result<(), Stop> {
    let (program, known) = (home.join("messages"), home.join("death-is-known"));
    let _ = fs::remove_file(&known);
    let before = shared_memory()?;
    let apart = mpi.name == MPICH.name;
    let options = if apart { "-disable-auto-cleanup -n 2 setsid -w" } else { "-n 2" };
    let job = launch(shell, mpi, (home, provider), options)?.arg(program).arg(&known);
    let job = variables.iter().fold(job, |job, (name, value)| job.env(name, value));
    match job.output() {
        Ok(_) => return Err(Stop::Failed("a rank was killed, but the job succeeded".to_owned())),
        Err(Stop::Failed(why)) if why.contains("exit status: 124") => {
            return Err(Stop::Failed(why));
        }
        Err(_) => {}
    }
    let begin = Instant::now();
    remove_mpichs(&before)?;
    while apart && !known.is_file() {
        if begin.elapsed() > Duration::from_secs(u64::from(LIMIT)) {
            return Err(Stop::Failed(
                "a rank was killed, but the other did not detect it".to_owned(),
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Removes the shared memory that MPICH itself has left behind for killed ranks, except for names
/// from `before`. Another rung may run MPICH at the same time, so what a process uses stays.
fn remove_mpichs(before: &BTreeSet<String>) -> Result<(), Stop> {
    let left = shared_memory()?;
    for name in left.difference(before).filter(|name| name.starts_with("mpich_shm")) {
        let file = Path::new("/dev/shm").join(name);
        if !is_mapped(&file) {
            let _ = fs::remove_file(file);
        }
    }
    Ok(())
}

/// Returns whether a process has the file in its memory.
fn is_mapped(file: &Path) -> bool {
    let name = file.to_string_lossy();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    // A process may end meanwhile.
    let maps = processes.filter_map(|process| fs::read_to_string(process.path().join("maps")).ok());
    maps.into_iter().any(|maps| maps.lines().any(|line| line.ends_with(&*name)))
}

/// Returns the names in `/dev/shm`.
fn shared_memory() -> Result<BTreeSet<String>, Stop> {
    let directory = Path::new("/dev/shm");
    let entries = fs::read_dir(directory).map_err(|error| Stop::io(directory, &error))?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// Runs mpi4py's own tests of messages and windows under MPICH.
fn mpi4py(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    python_tests(shell, provider, &["-itest_p2p", "-itest_rma"])?.output().map(drop)
}

/// Runs the tests of mpi4py that `selection` names, under MPICH.
fn python_tests<'a>(
    shell: &'a Shell,
    provider: &Path,
    selection: &[&str],
) -> Result<Step<'a>, Stop> {
    let (home, source) = python_source(shell)?;
    let tests = launch(shell, &MPICH, (&home, provider), "-n 2")?.arg(home.join("bin/python"));
    let tests = tests.arg(source.join("test/main.py")).arg("-qf");
    Ok(selection.iter().fold(tests, Step::arg))
}

/// Returns the environment of mpi4py, and the folder of its source, which has its tests.
fn python_source(shell: &Shell) -> Result<(PathBuf, PathBuf), Stop> {
    let home = home(shell, "mpi4py", &[MPICH.packages[0], MPI4PY, "setuptools", "wheel"])?;
    let source = home.join(MPI4PY.replace("==", "-"));
    if !source.join("test/main.py").is_file() {
        let fetch = "download --quiet --no-deps --no-binary :all: --no-build-isolation -d";
        let fetched = shell.step(home.join("bin/pip"), fetch).arg(&home).arg(MPI4PY).output();
        fetched.map_err(|stop| absence(MPI4PY, stop))?;
        let archive = home.join(format!("{}.tar.gz", MPI4PY.replace("==", "-")));
        shell.step("tar", "-xf").arg(archive).arg("-C").arg(&home).output()?;
    }
    Ok((home, source))
}

/// Returns an MPI's `mpiexec` in the environment that `strait mpi-env` prints, with the time limit.
fn launch<'a>(
    shell: &'a Shell,
    mpi: &Mpi,
    (home, provider): (&Path, &Path),
    ranks: &str,
) -> Result<Step<'a>, Stop> {
    let step = shell.step("timeout", &format!("-k 5 {LIMIT}")).arg(home.join("bin/mpiexec"));
    let options = mpi.options.split_whitespace().chain(ranks.split_whitespace());
    let step = route(shell, options.fold(step, Step::arg), mpi.name, provider)?;
    // Intel MPI does not look for its own library.
    let library: OsString = home.join("lib").into();
    Ok(step.env("LD_LIBRARY_PATH", library).env("I_MPI_ROOT", home))
}

/// Runs a job of `mpi` in the environment that `strait mpi-env` prints.
fn route<'a>(
    shell: &Shell,
    mut step: Step<'a>,
    mpi: &str,
    provider: &Path,
) -> Result<Step<'a>, Stop> {
    let strait = provider.join("strait");
    let asked = shell.step(strait, "mpi-env --provider").arg(provider).arg(mpi);
    let variables = asked.stdout()?;
    for line in variables.lines() {
        let variable = line.strip_prefix("export ").and_then(|rest| rest.split_once('='));
        let (name, value) =
            variable.ok_or_else(|| Stop::Failed(format!("`strait mpi-env` says {line:?}")))?;
        step = step.env(name, value.trim_matches('\''));
    }
    // Open MPI refuses to run for root unless both variables are set.
    let root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    Ok(root.into_iter().fold(step, |step, name| step.env(name, "1")))
}

/// Returns a Python environment with these packages, which the first call makes.
pub(crate) fn home(shell: &Shell, name: &str, packages: &[&str]) -> Result<PathBuf, Stop> {
    let home = shell.target().join("mpi").join(name);
    let complete = home.join("complete");
    if !complete.is_file() {
        eprintln!("mpi: installing {}", packages.join(", "));
        let made = shell.step("python3", "-m venv").arg(&home).output();
        made.map_err(|stop| absence("Python's module venv", stop))?;
        for package in packages {
            let install = shell.step(home.join("bin/pip"), "install --quiet").arg(package);
            install.output().map_err(|stop| absence(package, stop))?;
        }
        fs::write(&complete, "").map_err(|error| Stop::io(&complete, &error))?;
    }
    Ok(home)
}

/// Reports `what` as missing if it could not be installed.
fn absence(what: &str, stop: Stop) -> Stop {
    let Stop::Failed(problem) = stop else { return stop };
    let remedy = (!is_offline(&problem)).then(|| format!("install {what} with pip by hand"));
    let problem = problem.lines().last().unwrap_or_default().to_owned();
    Stop::NotRun(Absence { what: format!("{what} is missing: {problem}"), remedy })
}

/// Checks that killed processes have left nothing in `/dev/shm`.
fn nothing_is_left() -> Result<(), Stop> {
    let left: Vec<_> =
        shared_memory()?.into_iter().filter(|name| name.contains("strait")).collect();
    if left.is_empty() { Ok(()) } else { Err(Stop::Failed(format!("{left:?} is left"))) }
}
