//! The measurement of all ranks at once: all perform the same number of rounds, and rank 0 reads
//! the clock.
//!
//! Each sample begins with the bare line between rank 0 and its partner. The reason is that of
//! [`super::sampling`].

use core::error::Error;
use core::time::Duration;
use std::io;
use std::time::Instant;

use super::in_turn;
use super::line::{Bounce, LineTransfer};
use super::report::{Report, Row};
use super::sampling::{Batch, Effort, Sample};
use super::stage::{BenchStage, StageSide};
use super::stats::{self, SampleSummary, time};
use crate::payload::Mismatch;

/// Target time of one half of a sample.
const TARGET: Duration = Duration::from_micros(200);

/// Target time where ranks take turns on processors: many turns.
const TARGET_IN_TURNS: Duration = Duration::from_millis(20);

/// Number of rounds before the clock starts, which fill the caches.
const WARM_UP_ROUNDS: u64 = 2;

/// The columns of [`tell`].
pub(crate) const COLUMNS: [&str; 5] = ["min", "p50", "p99", "bare line", "× line"];

/// An action that all ranks repeat together.
pub(crate) trait Together {
    /// Prepares a sample. Its data carry the pattern of `seed`. It is not timed.
    fn prepare(&mut self, _seed: u64) {}

    /// Performs this rank's part of `rounds` rounds. It is timed.
    fn run(&mut self, rounds: u64) -> Result<(), strait::Error>;

    /// Checks all of the last received data. It is not timed.
    fn verify(&self, _seed: u64) -> Result<(), Mismatch> {
        Ok(())
    }
}

/// Measures `work`, beside the bare line in one direction where there is one. Every rank gets
/// samples; rank 0 gets those to report.
///
/// # Errors
///
/// A call failed, or a payload arrived damaged.
pub(crate) fn measure(
    stage: &BenchStage<'_>,
    effort: Effort,
    work: &mut dyn Together,
) -> Result<Vec<Sample>, Box<dyn Error>> {
    let in_turns = stage.cpus.len() < stage.ranks() as usize;
    let target = if in_turns { TARGET_IN_TURNS } else { TARGET };
    let has_line = !in_turns && stage.cpus.len() > 1;
    let pair = stage.rank() == 0 || stage.partner == 0 && stage.side == StageSide::Follower;
    let lane = stage.lane.filter(|_| has_line && pair);
    let mut line = lane.map(|lane| Bounce::new(lane, LineTransfer::Store));
    let mut bounce = |rounds| match (&mut line, stage.side) {
        (Some(line), StageSide::Leader) => line.lead(rounds),
        (Some(line), _) => line.follow(rounds),
        (None, _) => Ok(()),
    };
    // A bounce there and back is two directions.
    let bounces = if has_line { in_turn::rounds(stage, target / 2, &mut bounce)? } else { 0 };
    let rounds = match effort.rounds {
        Some(rounds) => rounds,
        None => in_turn::rounds(stage, target, |rounds| work.run(rounds))?,
    };
    let samples = in_turn::measure(stage, effort, 1, |_, seed| {
        work.prepare(seed);
        work.run(WARM_UP_ROUNDS)?;
        let timed = |run: &mut dyn FnMut() -> Result<(), strait::Error>| {
            stage.endpoint.barrier()?;
            let start = Instant::now();
            run()?;
            Ok::<_, strait::Error>(start.elapsed())
        };
        let bare = timed(&mut || bounce(bounces))?;
        let took = timed(&mut || work.run(rounds))?;
        work.verify(seed)?;
        Ok(Sample { bare: per(bare, 2 * bounces), work: per(took, rounds) })
    })?;
    Ok(samples.concat())
}

/// Returns the time of one of `rounds` rounds in nanoseconds, or 0 if there were none.
fn per(time: Duration, rounds: u64) -> f64 {
    if rounds == 0 { 0.0 } else { time.as_nanos() as f64 / rounds as f64 }
}

/// Reports the time, the line and their ratio on rank 0. `row` makes each row from metric, unit and
/// figures. Returns the cells under [`COLUMNS`], or nothing on other ranks.
pub(crate) fn tell(
    report: &Report,
    samples: &[Sample],
    row: impl Fn(&'static str, &'static str, SampleSummary) -> Row,
) -> io::Result<Option<[String; 5]>> {
    let of = |what: fn(&Sample) -> f64| {
        SampleSummary::of_costs(&samples.iter().map(what).collect::<Vec<_>>())
    };
    let Some(figures) = of(|sample| sample.work) else { return Ok(None) };
    report.row(row("time", "ns", figures))?;
    let (mut bare, mut times) = Default::default();
    let against = of(|sample| sample.bare).zip(of(|sample| sample.work / sample.bare));
    if let Some((line, ratio)) = against.filter(|(line, _)| line.min > 0.0) {
        report.row(row("line", "ns", line))?;
        report.row(row("ratio", "x", ratio))?;
        (bare, times) = (time(line.p50), stats::ratio(ratio.p50));
    }
    let SampleSummary { min, p50, p99, .. } = figures;
    Ok(Some([time(min), time(p50), time(p99), bare, times]))
}
