//! `cargo xtask suite`: the tests that come with MPICH, behind the front.
//!
//! They were written by others, for any MPI. A test that fails behind the front runs once more with
//! the MPI alone: what fails there too says nothing about Strait. Tests that are meant to fail, or
//! that set variables of MPICH, are left out. Those that spawn processes run if the user names
//! their folder.
//!
//! This is no rung: it takes an hour for each MPI, and the sources are the user's to provide.

mod list;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::shell::{Shell, Step};
use crate::stop::Stop;
use list::Test;

/// The folders of tests that run unless the user names some.
const FOLDERS: [&str; 15] = [
    "attr", "pt2pt", "rma", "datatype", "coll", "comm", "topo", "threads", "errhan", "init",
    "info", "group", "f77", "f90", "f08",
];

/// The options of `cargo xtask suite`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Folders of tests, such as coll or threads/rma [default: all but errors, io, cxx and spawn]
    folders: Vec<String>,
    /// The folder test/mpi of MPICH's source
    #[arg(long, value_name = "FOLDER")]
    tests: PathBuf,
    /// Where `cargo xtask install` has installed Strait
    #[arg(long, value_name = "PREFIX")]
    strait: PathBuf,
    /// The MPI, from Debian's packages
    #[arg(long, value_enum, default_value_t = Mpi::Mpich)]
    mpi: Mpi,
    /// Another MPI, where it was installed, such as target/mpi/intel-devel. Tests in Fortran are
    /// not built then
    #[arg(long, value_name = "PREFIX", conflicts_with = "mpi")]
    prefix: Option<PathBuf>,
    /// Seconds after which a test is killed
    #[arg(long, value_name = "N", default_value_t = 90)]
    seconds: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mpi {
    Mpich,
    Openmpi,
}

impl Mpi {
    const fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::Openmpi => "openmpi",
        }
    }
}

/// The end of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Passed,
    /// It fails, and with the MPI alone it does, too.
    FailsAlone,
    FailsBehind,
    /// The MPI lacks a function that it calls.
    NotBuilt,
}

/// Runs `cargo xtask suite`.
pub(crate) fn run(shell: &Shell, options: &Options) -> Result<(), Stop> {
    let prefix = options.prefix.as_ref().map(|prefix| prefix.canonicalize()).transpose();
    let prefix = prefix.map_err(|error| Stop::io(Path::new("--prefix"), &error))?;
    let name = prefix.as_ref().and_then(|prefix| prefix.file_name()?.to_str());
    let build = shell.target().join("suite").join(name.unwrap_or(options.mpi.name()));
    let suite = Suite { shell, options, build, prefix };
    suite.configure()?;
    let defaults = FOLDERS.map(str::to_owned);
    let folders = if options.folders.is_empty() { &defaults } else { &*options.folders };
    let mut ends = Vec::new();
    for test in folders.iter().flat_map(|folder| suite.tests(Path::new(folder))) {
        let end = suite.judge(&test);
        if end != Verdict::Passed {
            println!("{end:?}: {test}");
        }
        ends.push(end);
    }
    let count = |wanted| ends.iter().filter(|end| **end == wanted).count();
    let [passed, alone, behind, absent] =
        [Verdict::Passed, Verdict::FailsAlone, Verdict::FailsBehind, Verdict::NotBuilt].map(count);
    println!("{passed} passed, {alone} fail with the MPI alone, too, {absent} were not built");
    match behind {
        0 if passed > 0 => Ok(()),
        0 => Err(Stop::Failed("no test ran".to_owned())),
        _ => Err(Stop::Failed(format!("{behind} tests fail behind the front alone"))),
    }
}

struct Suite<'a> {
    shell: &'a Shell,
    options: &'a Options,
    /// The folder in which the tests are built.
    build: PathBuf,
    /// The installation of an MPI that is none of Debian's.
    prefix: Option<PathBuf>,
}

impl Suite<'_> {
    /// Configures the tests, unless it was done before.
    fn configure(&self) -> Result<(), Stop> {
        if self.build.join("config.status").exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.build).map_err(|error| Stop::io(&self.build, &error))?;
        let tests = &self.options.tests;
        let tests = tests.canonicalize().map_err(|error| Stop::io(tests, &error))?;
        let step = self.with_paths(self.shell.step("env", "-C").arg(&self.build));
        let programs: &[_] = match self.prefix {
            None => {
                &[("CC", "cc"), ("CXX", "cxx"), ("F77", "f77"), ("FC", "fort"), ("EXEC", "exec")]
            }
            Some(_) => &[("CC", "cc"), ("EXEC", "exec")],
        };
        let step = programs.iter().fold(step, |step, (variable, program)| {
            step.arg(format!("MPI{variable}={}", self.program(program).display()))
        });
        // Some tests pass buffers of several types to one function of Fortran's.
        let step = step.arg("FFLAGS=-fallow-argument-mismatch");
        let step = step.arg("FCFLAGS=-fallow-argument-mismatch");
        // Open MPI's header hides what MPI-1 had, which some tests call.
        let hidden = "-DOMPI_OMIT_MPI1_COMPAT_DECLS=0 -DOMPI_ENABLE_MPI1_COMPAT=1";
        let step = step.arg(format!("CPPFLAGS={hidden}"));
        let step = step.arg(tests.join("configure"));
        let fortran = ["--disable-f77", "--disable-fc"];
        let options: &[_] = if self.prefix.is_some() { &fortran } else { &[] };
        let options = ["--enable-strictmpi", "--disable-cxx"].iter().chain(options);
        options.fold(step, Step::arg).output()?;
        // The support library warns, and some of its tests lack a function: `judge` names them.
        let make = self.with_paths(self.shell.step("make", "-k -s -C"));
        let _ = make.arg(&self.build).output();
        // `configure` leaves the library of `f08` empty, unless MPICH's own build calls it.
        let library = "libmtest_f08.la am_libmtest_f08_la_OBJECTS=mtest_f08.lo";
        let make = self.shell.step("make", "-s -C").arg(self.build.join("util"));
        let _ = library.split_whitespace().fold(make, Step::arg).output();
        Ok(())
    }

    /// Adds the variables by which the programs of an installation find its libraries.
    fn with_paths<'s>(&self, step: Step<'s>) -> Step<'s> {
        match &self.prefix {
            Some(prefix) => {
                step.env("LD_LIBRARY_PATH", prefix.join("lib")).env("I_MPI_ROOT", prefix)
            }
            None => step,
        }
    }

    /// Returns a program of the MPI, such as `exec` for `mpiexec`.
    fn program(&self, name: &str) -> PathBuf {
        match &self.prefix {
            Some(prefix) => prefix.join(format!("bin/mpi{name}")),
            None => format!("mpi{name}.{}", self.options.mpi.name()).into(),
        }
    }

    /// Returns the tests of a folder and of the folders below it that its list names, but for
    /// those that spawn processes.
    fn tests(&self, folder: &Path) -> Vec<Test> {
        let places = [&self.build, &self.options.tests].map(|root| root.join(folder));
        let files =
            places.iter().flat_map(|place| [place.join("testlist"), place.join("testlist.in")]);
        let Some(lines) = files.into_iter().find_map(|file| fs::read_to_string(file).ok()) else {
            return Vec::new();
        };
        let is_folder = |name: &str| name != "spawn" && self.build.join(folder).join(name).is_dir();
        let mut found = Vec::new();
        for line in list::lines(&lines) {
            match list::parse(folder, line) {
                Some(test) => found.push(test),
                None if is_folder(line) => found.extend(self.tests(&folder.join(line))),
                None => {}
            }
        }
        found
    }

    fn judge(&self, test: &Test) -> Verdict {
        let home = self.build.join(test.folder());
        let make = self.with_paths(self.shell.step("make", "-s -C"));
        let make = make.arg(&home).arg(test.program());
        if make.output().is_err() {
            return Verdict::NotBuilt;
        }
        let strait = self.options.strait.join("bin/strait");
        if self.passes(test, &home, Some(&strait)) {
            Verdict::Passed
        } else if self.passes(test, &home, None) {
            Verdict::FailsBehind
        } else {
            Verdict::FailsAlone
        }
    }

    fn passes(&self, test: &Test, home: &Path, strait: Option<&Path>) -> bool {
        let limit = format!("-k 5 {} env -C", self.options.seconds);
        let step = self.shell.step("timeout", &limit).arg(home);
        let step = match strait {
            Some(strait) => step.arg(strait).arg("mpi"),
            None => step,
        };
        let step = step.arg(self.program("exec"));
        let step = step.arg("-n").arg(test.ranks()).arg(format!("./{}", test.program()));
        let step = test.arguments().iter().fold(step, Step::arg);
        let step =
            test.environment().iter().fold(step, |step, (name, value)| step.env(name, value));
        let step = self.with_paths(step);
        // Open MPI refuses root, and more ranks than processors.
        let step = step.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        let step = step.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let step = step.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        let step = step.env("OMPI_MCA_hwloc_base_binding_policy", "none");
        let step = step.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        let said = step.env("PRTE_MCA_hwloc_default_binding_policy", "none").output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("No Errors"))
    }
}
