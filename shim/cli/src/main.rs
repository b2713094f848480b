//! The `strait` program: starts jobs, and measures and describes the transport.

mod bench;
mod completions;
mod demo;
mod figures;
mod info;
mod job;
mod measure;
mod mpi;
mod mpi_env;
mod output;
mod payload;
mod ranks;
mod run;
mod stall;
mod table;
mod top;
mod trace;
mod tune;
mod why;

use core::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::output::{chain, complain};

/// Messages between the processes of a node. Without a command: `strait demo`.
#[derive(Debug, Parser)]
#[command(name = "strait", version, max_term_width = table::PIPED_WIDTH as usize)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunCommand),
    Demo(demo::Demo),
    Bench(bench::Bench),
    Figures(figures::Figures),
    Info(info::Info),
    Tune(tune::Tune),
    Why(why::Why),
    Top(top::Top),
    Trace(trace::Trace),
    Mpi(mpi::Mpi),
    MpiEnv(mpi_env::MpiEnv),
    Completions(completions::Completions),
}

fn main() -> ExitCode {
    let words = run::respell(std::env::args_os().collect());
    execute(&words).unwrap_or_else(|error| {
        complain(chain(&*error));
        ExitCode::FAILURE
    })
}

/// Runs the command of these words, the first of which is the name of the program.
fn execute(words: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    if words.get(1).is_some_and(|word| word == job::RANK) {
        return ranks::RankCommand::try_parse_from(&words[1..])
            .unwrap_or_else(|error| refuse(words, &error))
            .execute();
    }
    match Cli::try_parse_from(words).unwrap_or_else(|error| refuse(words, &error)).command {
        Some(Command::Run(run)) => run.execute(),
        Some(Command::Demo(demo)) => demo.execute(),
        Some(Command::Bench(bench)) => bench.execute(),
        Some(Command::Figures(figures)) => figures.execute(),
        Some(Command::Info(info)) => info.execute(),
        Some(Command::Tune(tune)) => tune.execute(),
        Some(Command::Why(why)) => why.execute(),
        Some(Command::Top(top)) => top.execute(),
        Some(Command::Trace(trace)) => trace.execute(),
        Some(Command::Mpi(mpi)) => mpi.execute(),
        Some(Command::MpiEnv(mpi_env)) => mpi_env.execute(),
        Some(Command::Completions(completions)) => completions.execute(Cli::command()),
        None => demo::Demo::default().execute(),
    }
}

/// Ends the program after words that clap did not take, or with the help that they ask for.
fn refuse(words: &[OsString], error: &clap::Error) -> ! {
    // A failure to print does not change the exit status.
    let _ = error.print();
    if let Some(hint) = run::hint(words, error.kind()) {
        complain(hint);
    }
    std::process::exit(error.exit_code())
}
