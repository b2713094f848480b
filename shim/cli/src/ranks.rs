//! Jobs with this program as their ranks.
//!
//! The ranks get the launcher's arguments behind `__rank`, and parse them with the same parser. So
//! no option has to be converted to text and back. Rank 0 prints its results itself.

use core::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use strait::World;
use strait::boot::{Launch, SegmentConfig};

use crate::bench::Bench;
use crate::bench::lane::Scratch;
use crate::bench::stage::BenchStage;
use crate::demo::Demo;
use crate::tune::Tune;

/// Be one rank of a bench or the demo
#[derive(Args, Debug)]
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
        be(Some(self.scratch), |stage| match self.work {
            RankWork::Bench(bench) => bench.run(stage),
            RankWork::Demo(demo) => demo.run(stage),
            RankWork::Tune(tune) => tune.run(stage),
        })
    }
}

/// Joins the job of this process, does its `work`, and leaves. Bare cache lines need their memory.
pub(crate) fn be(
    scratch: Option<u32>,
    work: impl FnOnce(&BenchStage<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let world = World::init()?;
    work(&BenchStage::new(&world, scratch)?)?;
    world.finalize()?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a job with segments and nodes as given. Its ranks run the arguments `words`, with `env`
/// added to their environment. Waits for the ranks.
pub(crate) fn start(
    config: SegmentConfig,
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
