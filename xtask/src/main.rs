//! The only automation of Strait: `cargo xtask COMMAND`.
//!
//! One file per command. A *rung* is a command that proves something (`docs/testing.md` has the ladder); it either
//! passes, fails, or says loudly what this machine lacks for it. Nothing here is part of what ships.

mod bare;
mod chaos;
mod check;
mod ffi;
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
mod parallel;
mod qemu;
mod sanitize;
mod setup;
mod shell;
mod source;
mod stop;
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
    /// Show every command before it runs.
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what is missing, then climb every rung below; the command of the README and of CI.
    Test,
    /// Install the toolchain parts and packages that the rungs need and this machine lacks.
    Setup,
    /// Formatting, lints, documentation, and `tidy`.
    Check,
    /// The rules of this repository that no other tool knows.
    Tidy {
        /// Print figures of structure and words instead: circles of imports, names, `unsafe`, examples.
        #[arg(long)]
        report: bool,
        /// Name each place behind the figures.
        #[arg(long, requires = "report")]
        places: bool,
    },
    /// Every native test of the workspace, and the examples in its documentation.
    Unit,
    /// Programs under launchers that know nothing of Strait.
    Launchers,
    /// MPICH, Open MPI and Intel MPI, unmodified, on the provider of libfabric.
    Mpi,
    /// Build the provider of libfabric and put it where `strait mpi-env` finds it.
    Provider {
        /// Let it reach other hosts through RDMA devices: takes cmake and libclang to build, and rdma-core where it runs.
        #[arg(long)]
        verbs: bool,
    },
    /// Programs in C and C++ with what `install` installs.
    Ffi,
    /// Install the C library, its header and the launcher.
    Install {
        /// Where: it gets `lib`, `include`, `bin` and `share`.
        #[arg(long)]
        prefix: PathBuf,
        /// Let all of it reach other hosts through RDMA devices: takes cmake and libclang to build, and rdma-core where it runs.
        #[arg(long)]
        verbs: bool,
    },
    /// Build the core where there is neither `std` nor an allocator.
    NoStd,
    /// Boot the core, without an operating system, on a virtual machine.
    Bare,
    /// The C library: its symbols, how it is loaded, and where its fast path lies.
    Library,
    /// Explore the interleavings of every atomic algorithm.
    Loom,
    /// Weaken each memory ordering in turn; a named test must fail.
    Mutants,
    /// The core's tests and the models of its algorithms under Miri.
    Miri,
    /// The native tests under the address and the thread sanitizer.
    Sanitize,
    /// Any bytes in the place of what another process writes.
    Fuzz {
        /// How long each target runs.
        #[arg(long, default_value_t = fuzz::SECONDS)]
        seconds: u32,
    },
    /// Random programs under random settings, whose ranks are killed and stopped at any moment.
    Chaos {
        /// Options of the driver: --seconds N, --seed S, --ranks N, --deaths N, --job SEED, and more that `--usage` lists.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Real libibverbs on the kernel's soft RDMA devices, in a virtual machine.
    Vm {
        /// Has the guest run this line of shell in place of the tests: 'strait bench overlap --nodes 2'.
        #[arg(long, value_name = "LINE", group = "own")]
        run: Option<String>,
        /// The kind of the guest's devices then.
        #[arg(long, default_value = vm::KINDS[0], value_parser = vm::KINDS, requires = "own")]
        device: String,
        #[command(flatten)]
        repeat: vm::Repeat,
    },
    /// Instructions per operation, held to the limits in `benches/icount.toml`.
    Icount {
        /// Print one JSON object instead of the table.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let shell = Shell::new(arguments.verbose);
    let result = match arguments.command {
        Command::Test => ladder::run(&shell),
        Command::Setup => setup::run(&shell),
        Command::Check => check::run(&shell),
        Command::Tidy { report: false, .. } => tidy::run(&shell),
        Command::Tidy { places, .. } => tidy::report(&shell, places),
        Command::Unit => unit::run(&shell),
        Command::Launchers => launchers::run(&shell),
        Command::Mpi => mpi::run(&shell),
        Command::Provider { verbs } => mpi::provider(&shell, verbs),
        Command::Ffi => ffi::run(&shell),
        Command::Install { prefix, verbs } => install::run(&shell, &prefix, verbs),
        Command::NoStd => no_std::run(&shell),
        Command::Bare => bare::run(&shell),
        Command::Library => library::run(&shell),
        Command::Loom => loom::run(&shell),
        Command::Mutants => mutants::run(&shell),
        Command::Miri => miri::run(&shell),
        Command::Sanitize => sanitize::run(&shell),
        Command::Fuzz { seconds } => fuzz::run(&shell, seconds),
        Command::Chaos { options } => chaos::run(&shell, &options),
        Command::Vm { run: Some(line), device, .. } => vm::run_line(&shell, &device, &line),
        Command::Vm { device, repeat, .. } if repeat.is_wanted() => {
            vm::repeat(&shell, &device, &repeat)
        }
        Command::Vm { .. } => vm::run(&shell),
        Command::Icount { json } => icount::run(&shell, json),
    };
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
