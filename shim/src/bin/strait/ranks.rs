//! Jobs whose ranks are this very program.
//!
//! The ranks get the launcher's own words behind `__rank`, and parse them with the same parser: nothing has to be
//! turned into text and back. What rank 0 has to say it prints itself.

use core::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use strait::World;
use strait::boot::{Config, Launch};

use crate::bench::Bench;
use crate::bench::lane::Scratch;
use crate::bench::stage::Stage;
use crate::demo::Demo;
use crate::tune::Tune;

/// Be one rank of a bench or the demo
#[derive(Args, Debug)]
pub(crate) struct Rank {
    /// Descriptor of the memory for the bare cache lines
    #[arg(long, value_name = "FD")]
    scratch: u32,
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    Bench(Bench),
    Demo(Demo),
    Tune(Tune),
}

impl Rank {
    pub(crate) fn execute(self) -> Result<ExitCode, Box<dyn Error>> {
        be(Some(self.scratch), |stage| match self.work {
            Work::Bench(bench) => bench.run(stage),
            Work::Demo(demo) => demo.run(stage),
            Work::Tune(tune) => tune.run(stage),
        })
    }
}

/// Joins the job that this process was started for, does its `work`, and leaves. Bare cache lines only with their memory.
pub(crate) fn be(
    scratch: Option<u32>,
    work: impl FnOnce(&Stage<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let world = World::init()?;
    work(&Stage::new(&world, scratch)?)?;
    world.finalize()?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a job with such segments on so many nodes, whose ranks do what `words` say with `env` in their environment, and waits
/// for them.
pub(crate) fn start(
    config: Config,
    nodes: u32,
    env: Vec<(OsString, OsString)>,
    words: impl Iterator<Item = OsString>,
) -> Result<ExitCode, Box<dyn Error>> {
    let scratch = Scratch::new(config.ranks / 2)?;
    let own = ["__rank".into(), format!("--scratch={}", scratch.number()).into()];
    let launch = Launch {
        args: own.into_iter().chain(words).collect(),
        config,
        nodes,
        env,
        ..Launch::new(config.ranks, std::env::current_exe()?)
    };
    let outcome = launch.spawn()?.wait()?;
    if !outcome.success() {
        eprintln!("strait: {outcome}");
    }
    Ok(ExitCode::from(outcome.code()))
}
