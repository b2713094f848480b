//! The `strait` program: starts jobs, and shows what the transport does.

mod run;

use core::error::Error;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Messages between the processes of a node.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Some(Command::Run(run)) => run.execute(),
        None => Cli::command().print_help().map(|()| ExitCode::from(2)).map_err(Into::into),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("strait: {}", chain(&*error));
        ExitCode::FAILURE
    })
}

/// An error with its causes, without those that its text already has.
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
