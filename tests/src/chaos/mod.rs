//! The chaos driver: jobs of random programs under random settings. It kills and stops their ranks
//! at any moment.
//!
//! Every rank draws its own program from the seed of its job and runs it at its own pace: the ranks
//! agree only on the order of meetings (`plan`). Messages contain their own number (`stream`).
//! Operations on windows are recorded on a scoreboard separate from Strait (`board`), with which
//! each rank judges its results. The driver (`driver`) starts one job after the other and strikes
//! their ranks. It ends when its time is up, enough ranks have died, or it finds a fault.

mod blocking;
mod board;
mod driver;
mod job;
mod operate;
mod options;
mod plan;
mod rank;
mod settings;
mod stream;
mod talk;
mod together;
mod warden;
mod window;

use std::process::ExitCode;
use std::{env, path};

/// Environment variable with the job, for its ranks.
const JOB: &str = "STRAIT_TEST_CHAOS_JOB";
/// Environment variable with the scoreboard, for the ranks.
const BOARD: &str = "STRAIT_TEST_CHAOS_BOARD";

/// Runs the driver, or in a process that the driver started, a rank.
///
/// # Panics
///
/// In a rank, when it finds a fault.
#[must_use]
pub fn main() -> ExitCode {
    if let (Ok(job), Some(board)) = (env::var(JOB), env::var_os(BOARD)) {
        rank::run(&job.parse().expect("the name of a job"), path::Path::new(&board));
    }
    match options::Options::parse(env::args().skip(1)) {
        Ok(options) => driver::run(&options),
        Err(why) => {
            eprintln!("chaos: {why}\n{}", options::USAGE);
            ExitCode::from(2)
        }
    }
}
