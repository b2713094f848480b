//! The chaos driver: jobs of random programs under random settings, whose ranks are killed and stopped at any moment.
//!
//! Every rank draws its own program from the seed of its job and goes through it at its own pace: nothing but the order of meetings is
//! agreed on (`plan`). Messages say which message they are (`stream`). What is done to windows is recorded on a scoreboard
//! beside Strait (`board`), on which each rank judges what it finds. The driver (`driver`) starts one job after the other, strikes
//! their ranks, and ends when its time is up, enough ranks have died, or something is wrong.

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

/// Names the job to its ranks.
const JOB: &str = "STRAIT_TEST_CHAOS_JOB";
/// Names the scoreboard to them.
const BOARD: &str = "STRAIT_TEST_CHAOS_BOARD";

/// Runs the driver, or in a process that the driver started, a rank.
///
/// # Panics
///
/// In a rank, when something is wrong.
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
