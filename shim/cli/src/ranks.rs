//! A rank of a job that this program has started.
//!
//! It gets the launcher's arguments behind `__rank`, and parses them with the same parser. So no
//! option has to be converted to text and back. Rank 0 prints its results itself.

use core::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bench::Bench;
use crate::demo::Demo;
use crate::job;
use crate::tune::Tune;

/// Be one rank of a bench or the demo
#[derive(Parser, Debug)]
#[command(name = job::RANK)]
pub(crate) struct RankCommand {
    /// Descriptor of the memory for the bare cache lines
    #[arg(long, value_name = "FD")]
    scratch: u32,
    #[command(subcommand)]
    work: RankWork,
}

#[derive(Debug, Subcommand)]
enum RankWork {
    Bench(Bench),
    Demo(Demo),
    Tune(Tune),
}

impl RankCommand {
    pub(crate) fn execute(self) -> Result<ExitCode, Box<dyn Error>> {
        job::be(Some(self.scratch), |stage| match self.work {
            RankWork::Bench(bench) => bench.run(stage),
            RankWork::Demo(demo) => demo.run(stage),
            RankWork::Tune(tune) => tune.run(stage),
        })
    }
}
