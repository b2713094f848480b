//! The C interface as C has it: programs outside the tree, built with what is installed alone, as C99 and as C++, against the shared
//! library and the archive, and run plain, under memcheck and with the address sanitizer.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::install;
use crate::setup::{self, Tool};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// A program, and how it is run.
struct Program {
    name: &'static str,
    sources: &'static [&'static str],
    /// Jobs that it is run as: arguments of `strait run`. None: it is run by itself.
    jobs: &'static [&'static str],
}

const PROGRAMS: [Program; 9] = [
    Program { name: "handles", sources: &["ffi/tests/c/handles.c"], jobs: &[] },
    Program { name: "fork", sources: &["ffi/tests/c/fork.c"], jobs: &[] },
    Program { name: "exchange", sources: &["ffi/tests/c/exchange.c"], jobs: &[] },
    Program { name: "twice", sources: &["ffi/tests/c/twice.c"], jobs: &["-n 1"] },
    Program { name: "job", sources: &["ffi/tests/c/job.c"], jobs: &["-n 2", "-n 2 --nodes 2"] },
    Program {
        name: "windows",
        sources: &["ffi/tests/c/windows.c"],
        jobs: &["-n 2", "-n 2 --nodes 2"],
    },
    Program { name: "pingpong", sources: &["ffi/examples/pingpong.c"], jobs: &["-n 2"] },
    Program { name: "ch3", sources: &["ffi/examples/ch3.c"], jobs: &["-n 4", "-n 2 --nodes 2"] },
    Program {
        name: "netpipe",
        sources: &["ffi/examples/netpipe/strait.c", "ffi/examples/netpipe/drive.c"],
        jobs: &["-n 2"],
    },
];

/// A compiler and what it is to take the programs for.
struct Language {
    name: &'static str,
    compiler: &'static str,
    arguments: &'static str,
}

/// POSIX and the system's own come on top of C99, which the programs use and the library does not ask for.
const C: Language =
    Language { name: "c", compiler: "cc", arguments: "-std=c99 -D_GNU_SOURCE -pthread" };
const CPP: Language =
    Language { name: "cpp", compiler: "c++", arguments: "-std=c++17 -x c++ -pthread" };

/// The page whose first lines of shell say how a program is built and run.
const GUIDE: &str = "docs/embedding.md";

const STRICT: &str = "-O1 -g -Wall -Wextra -Werror -Iffi/tests/c -Iffi/examples/netpipe";

/// What a program runs in; each ends by itself, and is ended when it does not.
const WATCHDOG: &str = "timeout --kill-after 5 240";

/// Definedness and addressability. What leaks is the address sanitizer's.
const MEMCHECK: &str = "valgrind --quiet --leak-check=no --error-exitcode=9";

/// What is installed, and where programs are built.
struct Place<'a> {
    shell: &'a Shell,
    prefix: PathBuf,
    programs: PathBuf,
}

/// `cargo xtask ffi`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    for tool in [Tool::Cpp, Tool::PkgConfig, Tool::Valgrind] {
        setup::need(shell, tool)?;
    }
    let base = shell.target().join("ffi");
    let place = Place { shell, prefix: base.join("prefix"), programs: base.join("programs") };
    install::run(shell, &place.prefix, false)?;
    fs::create_dir_all(&place.programs).map_err(|error| Stop::io(&place.programs, &error))?;
    // It fails unless it finds the provider.
    shell.step(place.prefix.join("bin/strait"), "mpi-env mpich").output()?;
    stop::all(vec![
        ("the guide", place.follow_guide()),
        ("C99", place.climb(&C, "", "")),
        ("C++", place.climb(&CPP, "", "")),
        ("the archive", place.static_ones()),
        ("memcheck", place.climb(&C, "", MEMCHECK)),
        ("address sanitizer", place.climb(&C, "-fsanitize=address", "")),
    ])
}

impl Place<'_> {
    /// Builds and runs all programs.
    fn climb(&self, language: &Language, extra: &str, under: &str) -> Result<(), Stop> {
        for program in &PROGRAMS {
            let file = self.build(program, language, "--cflags --libs", extra)?;
            self.run(program, &file, under)?;
        }
        Ok(())
    }

    /// Builds and runs a program by the lines of the guide, with nothing else in the environment.
    fn follow_guide(&self) -> Result<(), Stop> {
        let guide = self.shell.root().join(GUIDE);
        let text = fs::read_to_string(&guide).map_err(|error| Stop::io(&guide, &error))?;
        let folder = self.programs.join("guide");
        fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
        let (source, program) = ("ffi/examples/pingpong.c", folder.join("program.c"));
        fs::copy(self.shell.root().join(source), &program)
            .map_err(|error| Stop::io(&program, &error))?;
        let lines = text.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
        let lines = lines.unwrap_or("false").replace("DIR", &self.prefix.display().to_string());
        let script = format!("set -e; unset LD_LIBRARY_PATH; cd {}; {lines}", folder.display());
        self.shell.step("sh", "-c").arg(script).output().map(drop)
    }

    /// Those that name no shared library, with nothing shared in them.
    fn static_ones(&self) -> Result<(), Stop> {
        for program in PROGRAMS.iter().filter(|program| program.name != "twice") {
            let file = self.build(program, &C, "--static --cflags --libs", "-static")?;
            self.run(program, &file, "")?;
        }
        Ok(())
    }

    /// Builds a program with what pkg-config says, and no other word of where the library is.
    fn build(
        &self,
        program: &Program,
        language: &Language,
        query: &str,
        extra: &str,
    ) -> Result<PathBuf, Stop> {
        let flags = self.shell.step("pkg-config", &format!("{query} strait"));
        let flags = flags.env("PKG_CONFIG_PATH", self.prefix.join("lib/pkgconfig")).stdout()?;
        let file = self.programs.join(format!("{}-{}{extra}", program.name, language.name));
        let sources = program.sources.join(" ");
        let arguments = format!("{} {STRICT} {extra} {sources}", language.arguments);
        let mut compile = self.shell.step(language.compiler, &arguments);
        if language.compiler == CPP.compiler {
            // What follows is no source.
            compile = compile.arg("-x").arg("none");
        }
        for flag in flags.split_whitespace() {
            compile = compile.arg(flag);
        }
        compile.arg("-ldl").arg("-o").arg(&file).output()?;
        Ok(file)
    }

    /// Runs a program each way that it is to be run.
    fn run(&self, program: &Program, file: &Path, under: &str) -> Result<(), Stop> {
        if program.jobs.is_empty() || program.name == "twice" {
            let step = self.watched(under.split_whitespace().map(OsString::from));
            self.with_arguments(step.arg(file), program)?.output()?;
        }
        for job in program.jobs {
            let launcher = [self.prefix.join("bin/strait").into(), OsString::from("run")];
            let words = job.split_whitespace().chain(under.split_whitespace());
            let step = self.watched(launcher.into_iter().chain(words.map(OsString::from)));
            self.with_arguments(step.arg(file), program)?.output()?;
        }
        Ok(())
    }

    fn watched(&self, words: impl Iterator<Item = OsString>) -> Step<'_> {
        let step = self.shell.step("timeout", WATCHDOG.trim_start_matches("timeout "));
        let step = step.env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        words.fold(step, Step::arg)
    }

    /// The one that loads the library itself is told where it is, and where a copy.
    fn with_arguments<'a>(&self, step: Step<'a>, program: &Program) -> Result<Step<'a>, Stop> {
        if program.name != "twice" {
            return Ok(step);
        }
        let (library, copy) =
            (self.prefix.join("lib/libstrait.so.1"), self.programs.join("copy.so"));
        fs::copy(&library, &copy).map_err(|error| Stop::io(&copy, &error))?;
        Ok(step.arg(library).arg(copy))
    }
}
