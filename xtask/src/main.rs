//! The automation of Strait: `cargo xtask COMMAND`.
//!
//! Each command has its own file. A *rung* is a command that proves something (`docs/testing.md`
//! has the ladder). It passes, fails, or reports what this machine lacks for it. Nothing here is
//! part of what ships.

mod bare;
mod chaos;
mod check;
mod fetch;
mod ffi;
mod figures;
mod fuzz;
mod icount;
mod install;
mod ladder;
mod launchers;
mod library;
mod loom;
mod miri;
mod mpi;
mod mutants;
mod no_std;
mod package;
mod parallel;
mod peers;
mod qemu;
mod release;
mod sanitize;
mod setup;
mod shell;
mod source;
mod stop;
mod suite;
mod tidy;
mod unit;
mod vm;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use shell::Shell;
use stop::Stop;

/// Strait's test ladder and measurements.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    /// Print every command before it runs.
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what is missing, then run every rung. The README and CI use this command.
    Test {
        /// Run only what tells most in a few minutes: formatting, lints, tidy, the tests of every
        /// crate and of messages between processes.
        #[arg(long)]
        quick: bool,
        /// Time after which rungs that still run are killed, and no other begins.
        #[arg(long, default_value_t = ladder::MINUTES)]
        minutes: u16,
    },
    /// Download what later rungs need: Python's MPI packages, and the parts of the virtual machine.
    Fetch,
    /// Install the toolchain components and packages that the rungs need and this machine lacks.
    Setup,
    /// Check formatting, lints, documentation, and the rules of `tidy`.
    Check {
        /// Leave out documentation, licences, and the code of features and of the image.
        #[arg(long)]
        quick: bool,
    },
    /// Check the rules of this repository that no other tool checks.
    Tidy {
        /// Print figures of structure and wording instead: circles of imports, names, `unsafe`,
        /// examples.
        #[arg(long)]
        report: bool,
        /// List each place behind the figures.
        #[arg(long, requires = "report")]
        places: bool,
    },
    /// Run every native test of the workspace, and the examples in its documentation.
    Unit {
        /// Run the tests in the crates, and of the suites only those of messages.
        #[arg(long)]
        quick: bool,
    },
    /// Run programs under launchers that know nothing of Strait.
    Launchers,
    /// Make the page of the papers' figures by a quick run, and compare it with docs/figures.md.
    Figures,
    /// Run unmodified MPICH, Open MPI and Intel MPI on the libfabric provider.
    Mpi,
    /// Run programs of each MPI through the front, as a part of `mpi` does.
    Front {
        /// The only part to run; an unknown name lists all.
        part: Option<String>,
    },
    /// Run programs that hang under each MPI, as a part of `mpi` does: `strait why` must name them.
    Hangs,
    /// Measure what programs do over Strait and over each MPI that can be installed
    /// (docs/patterns.md).
    Peers(peers::Options),
    /// Run the tests that come with MPICH behind the front, over Debian's MPICH or Open MPI.
    Suite(suite::Options),
    /// Build the libfabric provider and put it where `strait mpi-env` finds it.
    Provider {
        /// Let it reach other hosts through RDMA devices. Needs cmake and libclang to build, and
        /// rdma-core to run.
        #[arg(long)]
        verbs: bool,
    },
    /// Build and run programs in C and C++ with the files that `install` installs.
    Ffi,
    /// Install the C library, its header and the launcher.
    Install {
        /// Prefix of the installation, which gets `lib`, `include`, `bin` and `share`.
        #[arg(long)]
        prefix: PathBuf,
        /// Let all of it reach other hosts through RDMA devices. Needs cmake and libclang to build,
        /// and rdma-core to run.
        #[arg(long)]
        verbs: bool,
    },
    /// Build the core for a target that has neither `std` nor an allocator.
    NoStd,
    /// Boot the core on a virtual machine, without an operating system.
    Bare,
    /// Package the published crates, and build the packages with the oldest Rust that they promise.
    Package,
    /// Check the C library: its symbols, how it loads, and the layout of its fast path.
    Library,
    /// Explore the interleavings of every atomic algorithm.
    Loom,
    /// Weaken each memory ordering in turn; a named test must fail.
    Mutants,
    /// Run the core's tests and the models of its algorithms under Miri.
    Miri,
    /// Run the native tests under the address sanitizer.
    Sanitize,
    /// Run the tests with threads under the thread sanitizer.
    Races,
    /// Fuzz every parser of data that another process writes.
    Fuzz {
        /// Time for each target, in seconds.
        #[arg(long, default_value_t = fuzz::SECONDS)]
        seconds: u32,
    },
    /// Run random programs under random settings, and kill and stop their ranks at any moment.
    Chaos {
        /// Build the driver with optimization. It then runs a third more jobs in the same time.
        /// This option comes before those of the driver.
        #[arg(long)]
        optimized: bool,
        /// Options of the driver: --seconds N, --seed S, --ranks N, --deaths N, --job SEED.
        /// `--usage` lists all.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Run libibverbs on the kernel's soft RDMA devices, in a virtual machine.
    Vm {
        /// Shell command that the guest runs instead of the tests, such as 'strait bench overlap
        /// --nodes 2'.
        #[arg(long, value_name = "LINE", group = "own")]
        run: Option<String>,
        /// Kind of the guest's devices for this command.
        #[arg(long, default_value = vm::KINDS[0], value_parser = vm::KINDS, requires = "own")]
        device: String,
        #[command(flatten)]
        repeat: vm::Repeat,
    },
    /// Count instructions per operation and compare them with the limits in `benches/icount.toml`.
    Icount {
        /// Print one JSON object instead of the table.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let shell = Shell::new(arguments.verbose).knowing(ladder::absences());
    let result = match arguments.command {
        Command::Test { quick, minutes } => ladder::run(&shell, quick, minutes),
        Command::Fetch => fetch::run(&shell),
        Command::Setup => setup::run(&shell),
        Command::Check { quick } => check::run(&shell, quick),
        Command::Tidy { report: false, .. } => tidy::run(&shell),
        Command::Tidy { places, .. } => tidy::report(&shell, places),
        Command::Unit { quick } => unit::run(&shell, quick),
        Command::Launchers => launchers::run(&shell),
        Command::Figures => figures::run(&shell),
        Command::Mpi => mpi::run(&shell),
        Command::Front { part } => mpi::front::run(&shell, part.as_deref()),
        Command::Hangs => mpi::hangs::run(&shell),
        Command::Peers(options) => peers::run(&shell, &options),
        Command::Suite(options) => suite::run(&shell, &options),
        Command::Provider { verbs } => mpi::provider(&shell, verbs),
        Command::Ffi => ffi::run(&shell),
        Command::Install { prefix, verbs } => install::run(&shell, &prefix, verbs),
        Command::NoStd => no_std::run(&shell),
        Command::Bare => bare::run(&shell),
        Command::Package => package::run(&shell),
        Command::Library => library::run(&shell),
        Command::Loom => loom::run(&shell),
        Command::Mutants => mutants::run(&shell),
        Command::Miri => miri::run(&shell),
        Command::Sanitize => sanitize::run(&shell),
        Command::Races => sanitize::races(&shell),
        Command::Fuzz { seconds } => fuzz::run(&shell, seconds),
        Command::Chaos { optimized, options } => chaos::run(&shell, optimized, &options),
        Command::Vm { run: Some(line), device, .. } => vm::run_line(&shell, &device, &line),
        Command::Vm { device, repeat, .. } if repeat.is_wanted() => {
            vm::repeat(&shell, &device, &repeat)
        }
        Command::Vm { .. } => vm::run(&shell),
        Command::Icount { json } => icount::run(&shell, json),
    };
    ladder::answer(&result);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Failed(why)) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
        Err(Stop::NotRun(absence)) => {
            eprintln!("xtask: NOT RUN: {absence}");
            ExitCode::FAILURE
        }
    }
}
