//! Tests the C interface as C programs see it. The programs lie outside the tree and are built with
//! the installed files alone, as C99 and as C++, against the shared library and the archive. They
//! run plain, under memcheck and with the address sanitizer.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::install;
use crate::setup::{self, Tool};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// A program and the ways to run it.
struct Program {
    name: &'static str,
    sources: &'static [&'static str],
    /// Jobs to run the program as: arguments of `strait run`. If empty, it runs without a launcher.
    jobs: &'static [&'static str],
}

const PROGRAMS: [Program; 12] = [
    Program { name: "handles", sources: &["ffi/c/tests/c/handles.c"], jobs: &[] },
    Program { name: "fork", sources: &["ffi/c/tests/c/fork.c"], jobs: &[] },
    Program { name: "exchange", sources: &["ffi/c/tests/c/exchange.c"], jobs: &[] },
    Program { name: "twice", sources: &["ffi/c/tests/c/twice.c"], jobs: &["-n 1"] },
    Program { name: "job", sources: &["ffi/c/tests/c/job.c"], jobs: &["-n 2", "-n 2 --nodes 2"] },
    Program {
        name: "windows",
        sources: &["ffi/c/tests/c/windows.c"],
        jobs: &["-n 2", "-n 2 --nodes 2"],
    },
    Program {
        name: "collectives",
        sources: &["ffi/c/tests/c/collectives.c"],
        jobs: &["-n 3", "-n 3 --nodes 2"],
    },
    Program {
        name: "channel",
        sources: &["ffi/c/tests/c/channel.c"],
        jobs: &[
            "-n 2 --env STRAIT_RING=basic",
            "-n 2 --env STRAIT_RING=piggyback",
            "-n 2 --env STRAIT_RING=pipeline",
            "-n 2",
            "-n 2 --env STRAIT_RING=rendezvous_write",
            "-n 2 --env STRAIT_RING_COPY_MAX=2097152",
            "-n 2 --nodes 2 --env STRAIT_RING=basic",
            "-n 2 --nodes 2 --env STRAIT_RING=piggyback",
            "-n 2 --nodes 2 --env STRAIT_RING=pipeline",
            "-n 2 --nodes 2",
            "-n 2 --nodes 2 --env STRAIT_RING=rendezvous_write",
            "-n 2 --nodes 2 --env STRAIT_RING_COPY_MAX=100",
            "-n 2 --keep-going --env ENDS=1 --env STRAIT_RING=basic",
            "-n 2 --keep-going --env ENDS=1",
            "-n 2 --nodes 2 --keep-going --env ENDS=1 --env STRAIT_RING=pipeline",
            "-n 2 --nodes 2 --keep-going --env ENDS=1 --env STRAIT_RING=rendezvous_write",
        ],
    },
    Program {
        name: "transfer_method",
        sources: &["ffi/c/tests/c/transfer_method.c"],
        jobs: &["-n 2", "-n 2 --keep-going --env ENDS=1"],
    },
    Program { name: "pingpong", sources: &["ffi/c/examples/pingpong.c"], jobs: &["-n 2"] },
    Program { name: "ch3", sources: &["ffi/c/examples/ch3.c"], jobs: &["-n 4", "-n 2 --nodes 2"] },
    Program {
        name: "netpipe",
        sources: &["ffi/c/examples/netpipe/strait.c", "ffi/c/examples/netpipe/drive.c"],
        jobs: &["-n 2"],
    },
];

/// A compiler, and the language that it compiles the programs as.
struct Language {
    name: &'static str,
    compiler: &'static str,
    arguments: &'static str,
}

/// The programs use POSIX and GNU functions on top of C99. The library requires neither.
const C: Language =
    Language { name: "c", compiler: "cc", arguments: "-std=c99 -D_GNU_SOURCE -pthread" };
const CPP: Language =
    Language { name: "cpp", compiler: "c++", arguments: "-std=c++17 -x c++ -pthread" };

/// The page with the first lines of shell that show how to build and run a program.
const GUIDE: &str = "docs/embedding.md";

const STRICT: &str = "-O1 -g -Wall -Wextra -Werror -Iffi/c/tests/c -Iffi/c/examples/netpipe";

/// Command that a program runs in. It ends a program that does not end by itself.
const WATCHDOG: &str = "timeout --kill-after 5 240";

/// Checks definedness and addressability. The address sanitizer checks for leaks.
const MEMCHECK: &str = "valgrind --quiet --leak-check=no --error-exitcode=9";

/// The transfer of large messages under memcheck. It takes bytes for undefined that another process
/// has written to private memory, so only receivers may copy. In the other runs both sides do.
const MEMCHECK_TRANSFER: &str = "cma";

/// The installed files, and the folder where the programs are built.
struct Place<'a> {
    shell: &'a Shell,
    prefix: PathBuf,
    programs: PathBuf,
}

/// Runs `cargo xtask ffi`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    for tool in [Tool::Cpp, Tool::PkgConfig, Tool::Valgrind] {
        setup::need(shell, tool)?;
    }
    let base = shell.target().join("ffi");
    let place = Place { shell, prefix: base.join("prefix"), programs: base.join("programs") };
    install::without_fronts(shell, &place.prefix, false)?;
    fs::create_dir_all(&place.programs).map_err(|error| Stop::io(&place.programs, &error))?;
    // `mpi-env` fails unless it finds the provider.
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

    /// Builds and runs a program with the commands of the guide, in an otherwise empty environment.
    fn follow_guide(&self) -> Result<(), Stop> {
        let guide = self.shell.root().join(GUIDE);
        let text = fs::read_to_string(&guide).map_err(|error| Stop::io(&guide, &error))?;
        let folder = self.programs.join("guide");
        fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
        let (source, program) = ("ffi/c/examples/pingpong.c", folder.join("program.c"));
        fs::copy(self.shell.root().join(source), &program)
            .map_err(|error| Stop::io(&program, &error))?;
        let lines = text.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
        let lines = lines.unwrap_or("false").replace("DIR", &self.prefix.display().to_string());
        let script = format!("set -e; unset LD_LIBRARY_PATH; cd {}; {lines}", folder.display());
        self.shell.step("sh", "-c").arg(script).output().map(drop)
    }

    /// Builds and runs statically the programs that need no shared library.
    fn static_ones(&self) -> Result<(), Stop> {
        for program in PROGRAMS.iter().filter(|program| program.name != "twice") {
            let file = self.build(program, &C, "--static --cflags --libs", "-static")?;
            self.run(program, &file, "")?;
        }
        Ok(())
    }

    /// Builds a program with the flags of pkg-config, and with no other path to the library.
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
            // The following arguments are not source files.
            compile = compile.arg("-x").arg("none");
        }
        for flag in flags.split_whitespace() {
            compile = compile.arg(flag);
        }
        compile.arg("-ldl").arg("-o").arg(&file).output()?;
        Ok(file)
    }

    /// Runs a program in each of its ways.
    fn run(&self, program: &Program, file: &Path, under: &str) -> Result<(), Stop> {
        if program.jobs.is_empty() || program.name == "twice" {
            let step = self.watched(under, under.split_whitespace().map(OsString::from));
            self.with_arguments(step.arg(file), program)?.output()?;
        }
        for job in program.jobs {
            let launcher = [self.prefix.join("bin/strait").into(), OsString::from("run")];
            let words = job.split_whitespace().chain(under.split_whitespace());
            let step = self.watched(under, launcher.into_iter().chain(words.map(OsString::from)));
            self.with_arguments(step.arg(file), program)?.output()?;
        }
        Ok(())
    }

    fn watched(&self, under: &str, words: impl Iterator<Item = OsString>) -> Step<'_> {
        let step = self.shell.step("timeout", WATCHDOG.trim_start_matches("timeout "));
        let mut step = step.env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        if under == MEMCHECK {
            step = step.env("STRAIT_LMT", MEMCHECK_TRANSFER);
        }
        words.fold(step, Step::arg)
    }

    /// Adds the paths of the library and of a copy for the program that loads the library itself.
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
