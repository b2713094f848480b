//! Jobs with this program as their ranks.

use core::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use strait::World;
use strait::boot::{Launch, SegmentConfig};

use crate::measure::lane::LaneScratch;
use crate::measure::stage::BenchStage;
use crate::output::{chain, complain};

/// The word before the arguments of a rank.
pub(crate) const RANK: &str = "__rank";

/// Joins the job of this process, does its `work`, and leaves. Bare cache lines need their memory.
pub(crate) fn be(
    scratch: Option<u32>,
    work: impl FnOnce(&BenchStage<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let world = World::init()?;
    let done = (|| work(&BenchStage::new(&world, scratch)?))();
    if let Err(error) = done {
        // This rank has not left yet. When it has, others that need it fail, too, and the first of
        // them ends the job.
        complain(chain(&*error));
        return Ok(ExitCode::FAILURE);
    }
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
    let scratch = LaneScratch::new(config.ranks / 2)?;
    let own = [RANK.into(), format!("--scratch={}", scratch.number()).into()];
    let launch = Launch {
        args: own.into_iter().chain(words).collect(),
        config,
        nodes,
        env,
        ..Launch::new(config.ranks, std::env::current_exe()?)
    };
    let outcome = launch.spawn()?.wait()?;
    if !outcome.success() {
        complain(&outcome);
    }
    Ok(ExitCode::from(outcome.code()))
}
