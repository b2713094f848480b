//! The `strait` program: starts jobs, and measures and describes the transport.

mod bench;
mod demo;
mod info;
mod mpi_env;
mod payload;
mod ranks;
mod run;
mod tune;

use core::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Messages between the processes of a node. Without a command: `strait demo`.
#[derive(Debug, Parser)]
#[command(name = "strait", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunCommand),
    Demo(demo::Demo),
    Bench(bench::Bench),
    Info(info::Info),
    Tune(tune::Tune),
    MpiEnv(mpi_env::MpiEnv),
    #[command(name = "__rank", hide = true)]
    Rank(ranks::RankCommand),
}

fn main() -> ExitCode {
    let words = run::respell(std::env::args_os().collect());
    let cli = Cli::try_parse_from(&words).unwrap_or_else(|error| {
        // A failure to print does not change the exit status.
        let _ = error.print();
        if let Some(hint) = run::hint(&words, error.kind()) {
            eprintln!("strait: {hint}");
        }
        std::process::exit(error.exit_code())
    });
    let outcome = match cli.command {
        Some(Command::Run(run)) => run.execute(),
        Some(Command::Demo(demo)) => demo.execute(),
        Some(Command::Bench(bench)) => bench.execute(),
        Some(Command::Info(info)) => info.execute(),
        Some(Command::Tune(tune)) => tune.execute(),
        Some(Command::MpiEnv(mpi_env)) => mpi_env.execute(),
        Some(Command::Rank(rank)) => rank.execute(),
        None => demo::Demo::default().execute(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("strait: {}", chain(&*error));
        ExitCode::FAILURE
    })
}

/// Writes a line to standard output. A closed reader is no error.
fn say(line: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Formats an error with its causes, except those that its text already contains.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}
