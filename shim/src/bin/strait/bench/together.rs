//! How a measurement of all ranks at once is taken: all do as many rounds, and rank 0 holds the watch.
//!
//! Each sample has the bare line between rank 0 and its partner in front, as in [`super::sampling`], and for the same
//! reason.

use core::error::Error;
use core::time::Duration;
use std::io;
use std::time::Instant;

use super::cacheline::{Bounce, HandOver};
use super::in_turn;
use super::report::{Report, Row};
use super::sampling::{Batch, Effort, Sample};
use super::stage::{Side, Stage};
use super::stats::{self, Summary, time};
use crate::payload::Mismatch;

/// How long one half of a sample should take.
const TARGET: Duration = Duration::from_micros(200);

/// The same where ranks take turns on processors: many turns.
const TARGET_IN_TURNS: Duration = Duration::from_millis(20);

/// Rounds before the watch starts, for the caches.
const WARM_UP_ROUNDS: u64 = 2;

/// The columns of [`tell`].
pub(super) const COLUMNS: [&str; 5] = ["min", "p50", "p99", "bare line", "× line"];

/// Something that all ranks repeat together.
pub(super) trait Together {
    /// Gets ready for a sample: what is sent carries the pattern of `seed`. Not timed.
    fn prepare(&mut self, _seed: u64) {}

    /// This rank's part of `rounds` rounds. Timed.
    fn run(&mut self, rounds: u64) -> Result<(), strait::Error>;

    /// Checks what arrived last, all of it. Not timed.
    fn verify(&self, _seed: u64) -> Result<(), Mismatch> {
        Ok(())
    }
}

/// Measures `work`, with the bare line one way beside it where there is one. Every rank gets samples, rank 0 what is to be told.
///
/// # Errors
///
/// A call failed, or a payload arrived damaged.
pub(super) fn measure(
    stage: &Stage<'_>,
    effort: Effort,
    work: &mut dyn Together,
) -> Result<Vec<Sample>, Box<dyn Error>> {
    let in_turns = stage.cpus.len() < stage.ranks() as usize;
    let target = if in_turns { TARGET_IN_TURNS } else { TARGET };
    let has_line = !in_turns && stage.cpus.len() > 1;
    let pair = stage.rank() == 0 || stage.partner == 0 && stage.side == Side::Follower;
    let lane = stage.lane.filter(|_| has_line && pair);
    let mut line = lane.map(|lane| Bounce::new(lane, HandOver::Store));
    let mut bounce = |rounds| match (&mut line, stage.side) {
        (Some(line), Side::Leader) => line.lead(rounds),
        (Some(line), _) => line.follow(rounds),
        (None, _) => Ok(()),
    };
    // There and back is two ways.
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

/// Nanoseconds of one of `rounds` rounds; 0 when there were none.
fn per(time: Duration, rounds: u64) -> f64 {
    if rounds == 0 { 0.0 } else { time.as_nanos() as f64 / rounds as f64 }
}

/// Rank 0's rows of the time, the line and their ratio, each made by `row` of metric, unit and figures; gives the cells
/// under [`COLUMNS`], or nothing on the other ranks.
pub(super) fn tell(
    report: &Report,
    samples: &[Sample],
    row: impl Fn(&'static str, &'static str, Summary) -> Row,
) -> io::Result<Option<[String; 5]>> {
    let of =
        |what: fn(&Sample) -> f64| Summary::of_costs(&samples.iter().map(what).collect::<Vec<_>>());
    let Some(figures) = of(|sample| sample.work) else { return Ok(None) };
    report.row(row("time", "ns", figures))?;
    let (mut bare, mut times) = Default::default();
    let against = of(|sample| sample.bare).zip(of(|sample| sample.work / sample.bare));
    if let Some((line, ratio)) = against.filter(|(line, _)| line.min > 0.0) {
        report.row(row("line", "ns", line))?;
        report.row(row("ratio", "x", ratio))?;
        (bare, times) = (time(line.p50), stats::ratio(ratio.p50));
    }
    let Summary { min, p50, p99, .. } = figures;
    Ok(Some([time(min), time(p50), time(p99), bare, times]))
}
