//! Batches with the bare line before and after each.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use crate::measure::lane::PairMemory;
use crate::measure::line::{Bounce, LineTransfer, ONE_PROCESSOR};
use crate::measure::sampling::{self, Batch, Effort};
use crate::measure::stage::BenchStage;
use crate::payload::Mismatch;

/// Round trips of one measurement of the line: short against a batch where processors are near.
const LINE_ROUNDS: u64 = 100;

/// The slowest line between processors that share a cache of their own, in nanoseconds one way.
const NEAR_MAX_NS: f64 = 70.0;

/// Two lines that differ by more than this factor disagree, unless both are near. Between cores of
/// one Xeon a line takes 75 to 130 ns.
const MOVED: f64 = 1.6;

/// Where the two processors are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cores {
    /// They share a cache.
    Near,
    Far,
}

impl Cores {
    pub(super) const ALL: [Self; 2] = [Self::Near, Self::Far];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// One batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinedBatch {
    /// The time of an operation in nanoseconds, or another figure.
    pub(super) value: f64,
    /// The bare line before and after, in nanoseconds one way.
    pub(super) line: [f64; 2],
}

impl LinedBatch {
    /// Returns where the processors were during this batch, or `None` if they were moved.
    pub(super) fn cores(self) -> Option<Cores> {
        let [before, after] = self.line;
        let (least, most) = (before.min(after), before.max(after));
        match () {
            () if most <= NEAR_MAX_NS => Some(Cores::Near),
            () if most <= MOVED * least => Some(Cores::Far),
            () => None,
        }
    }

    /// Returns the mean of the lines.
    pub(super) fn mean_line(self) -> f64 {
        self.line.iter().sum::<f64>() / 2.0
    }
}

/// The bare line between the two ranks of a pair.
pub(super) struct PatternLine(Bounce);

impl PatternLine {
    /// Makes one side. Both sides make theirs while the line is at rest.
    pub(super) fn new(stage: &BenchStage<'_>) -> Result<Self, &'static str> {
        let lane: &'static PairMemory = stage.lane.ok_or(ONE_PROCESSOR)?;
        Ok(Self(Bounce::new(lane, LineTransfer::Store)))
    }

    /// Measures the line on the leader, in nanoseconds one way.
    pub(super) fn lead(&mut self) -> Result<f64, strait::Error> {
        let start = Instant::now();
        self.0.lead(LINE_ROUNDS)?;
        Ok(nanoseconds(start.elapsed()) / (2 * LINE_ROUNDS) as f64)
    }

    /// Performs the follower's part.
    pub(super) fn follow(&mut self) -> Result<(), strait::Error> {
        self.0.follow(LINE_ROUNDS)
    }
}

/// Measures `work`: the time of one of `operations` operations in a round. Only leaders get
/// batches.
///
/// # Errors
///
/// A call failed, or a payload arrived damaged.
pub(super) fn measure(
    stage: &BenchStage<'_>,
    effort: Effort,
    operations: u32,
    work: &mut dyn Batch,
) -> Result<Vec<LinedBatch>, Box<dyn Error>> {
    let mut lined = Lined { line: PatternLine::new(stage)?, work, operations, batches: Vec::new() };
    let samples = sampling::measure(stage, effort, None, &mut lined)?;
    // The batches before the samples were for warming up.
    let batches = lined.batches;
    Ok(batches[batches.len().saturating_sub(samples.len())..].to_vec())
}

/// Work between two measurements of the line.
struct Lined<'a> {
    line: PatternLine,
    work: &'a mut dyn Batch,
    operations: u32,
    batches: Vec<LinedBatch>,
}

impl Batch for Lined<'_> {
    fn least(&self) -> u64 {
        self.work.least()
    }

    fn prepare(&mut self, seed: u64) {
        self.work.prepare(seed);
        // Nothing may allocate between the clock readings.
        self.batches.reserve(1);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let before = self.line.lead()?;
        let start = Instant::now();
        self.work.lead(rounds)?;
        let time = nanoseconds(start.elapsed());
        let after = self.line.lead()?;
        let value = time / (rounds.max(1) as f64 * f64::from(self.operations));
        self.batches.push(LinedBatch { value, line: [before, after] });
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.line.follow()?;
        self.work.follow(rounds)?;
        self.line.follow()
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        self.work.verify(seed)
    }
}

pub(super) fn nanoseconds(time: Duration) -> f64 {
    time.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_counts_only_if_its_lines_agree() {
        let cores = |before, after| LinedBatch { value: 1.0, line: [before, after] }.cores();
        assert_eq!(cores(45.0, 52.0), Some(Cores::Near));
        assert_eq!(cores(160.0, 200.0), Some(Cores::Far));
        assert_eq!(cores(66.0, 101.0), Some(Cores::Far));
        for (before, after) in [(45.0, 160.0), (160.0, 45.0), (150.0, 400.0)] {
            assert_eq!(cores(before, after), None, "{before} {after}");
        }
    }
}
