//! How a measurement of all ranks at once is taken: rank 0 says how many rounds, all do them, rank 0 holds the watch.
//!
//! Each sample has the bare line between rank 0 and its partner in front, as in [`super::sampling`], and for the same
//! reason.

use core::error::Error;
use core::time::Duration;
use std::io;
use std::time::Instant;

use super::cacheline::{Bounce, HandOver};
use super::report::{Report, Row};
use super::sampling::{Batch, Effort, Sample};
use super::stage::{Side, Stage};
use super::stats::{self, Summary, time};
use crate::payload::Mismatch;

/// How long one half of a sample should take.
const TARGET: Duration = Duration::from_micros(200);

/// The same where ranks take turns on processors: many turns.
const TARGET_IN_TURNS: Duration = Duration::from_millis(20);

/// Samples that are taken before those that count.
const WARM_UP: usize = 3;

/// Rounds before the watch starts, for the caches.
const WARM_UP_ROUNDS: u64 = 2;

/// Rank 0's word that it is enough.
const STOP: [u64; 3] = [0; 3];

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

/// Measures `work`, with the bare line one way beside it where there is one. Only rank 0 gets samples, at least one.
///
/// # Errors
///
/// A call failed, or a payload arrived damaged.
pub(super) fn measure(
    stage: &Stage<'_>,
    effort: Effort,
    work: &mut dyn Together,
) -> Result<Vec<Sample>, Box<dyn Error>> {
    let pair = stage.rank() == 0 || stage.partner == 0 && stage.side == Side::Follower;
    let lane = stage.lane.filter(|_| pair && !in_turns(stage));
    let bare = lane.map(|lane| Bounce::new(lane, HandOver::Store));
    let mut meeting = Meeting { stage, bare, work, seed: 0 };
    if stage.rank() == 0 {
        return meeting.lead(effort);
    }
    while meeting.sample(STOP)?.is_some() {}
    Ok(Vec::new())
}

/// True when there are fewer processors than ranks.
fn in_turns(stage: &Stage<'_>) -> bool {
    stage.cpus.len() < stage.ranks() as usize
}

/// All ranks, each with its part of the work; two of them with the bare line.
struct Meeting<'a> {
    stage: &'a Stage<'a>,
    bare: Option<Bounce>,
    work: &'a mut dyn Together,
    /// Of the last sample.
    seed: u64,
}

impl Meeting<'_> {
    fn lead(&mut self, effort: Effort) -> Result<Vec<Sample>, Box<dyn Error>> {
        let [bare_rounds, rounds] = self.calibrate(effort)?;
        let deadline = Instant::now() + effort.limit;
        let mut samples = Vec::with_capacity(effort.samples + WARM_UP);
        while samples.len() <= WARM_UP
            || samples.len() < effort.samples + WARM_UP && Instant::now() < deadline
        {
            samples.extend(self.next(bare_rounds, rounds)?);
        }
        self.sample(STOP)?;
        Ok(samples.split_off(WARM_UP))
    }

    /// The numbers of rounds that take [`TARGET`].
    fn calibrate(&mut self, effort: Effort) -> Result<[u64; 2], Box<dyn Error>> {
        let target = if in_turns(self.stage) { TARGET_IN_TURNS } else { TARGET };
        let enough = target.as_nanos() as f64;
        let [mut bare, mut rounds] = [u64::from(self.bare.is_some()), effort.rounds.unwrap_or(1)];
        // Doubling ends: every round takes some time.
        while let Some(took) = self.next(bare, rounds)? {
            let more_bare = self.bare.is_some() && 2.0 * took.bare * (bare as f64) < enough;
            let more_work = effort.rounds.is_none() && took.work * (rounds as f64) < enough;
            if !more_bare && !more_work {
                break;
            }
            bare <<= u32::from(more_bare);
            rounds <<= u32::from(more_work);
        }
        Ok([bare, rounds])
    }

    fn next(&mut self, bare_rounds: u64, rounds: u64) -> Result<Option<Sample>, Box<dyn Error>> {
        self.sample([self.seed + 1, bare_rounds, rounds])
    }

    /// One sample as rank 0 says: the seed, the hand-overs there and back, and the rounds. `None`: rank 0 says that it
    /// is enough.
    fn sample(&mut self, mut order: [u64; 3]) -> Result<Option<Sample>, Box<dyn Error>> {
        let endpoint = self.stage.endpoint;
        endpoint.broadcast(&mut order, 0)?;
        if order == STOP {
            return Ok(None);
        }
        let [seed, bare_rounds, rounds] = order;
        self.seed = seed;
        self.work.prepare(seed);
        self.work.run(WARM_UP_ROUNDS)?;
        endpoint.barrier()?;
        let start = Instant::now();
        match (&mut self.bare, self.stage.side) {
            (Some(bare), Side::Leader) => bare.lead(bare_rounds)?,
            (Some(bare), _) => bare.follow(bare_rounds)?,
            (None, _) => {}
        }
        let bare = start.elapsed();
        endpoint.barrier()?;
        let start = Instant::now();
        self.work.run(rounds)?;
        let work = start.elapsed();
        self.work.verify(seed)?;
        Ok(Some(Sample { bare: per(bare, 2 * bare_rounds), work: per(work, rounds) }))
    }
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
