//! Computation beside one large message, by default settings: the rank that computes, and the rank
//! that comes first.
//!
//! The computation takes as long as the message alone. Overlap is the hidden part of it. A row
//! names the rank that computes, and whether it makes its call first or second.

use core::error::Error;

use strait::Request;

use super::lined::{LinedBatch, PatternLine};
use super::table::{self, Unit};
use crate::measure::computation::{Processor, common_time};
use crate::measure::line::spin_until;
use crate::measure::report::Report;
use crate::measure::sampling::Effort;
use crate::measure::stage::{BenchStage, TAG};
use crate::payload;

/// Sizes of messages.
const SIZES: [usize; 3] = [64 << 10, 1 << 20, 4 << 20];

/// Number of messages before those that count, and at most of those, alone and beside computation.
const WARM_UP: usize = 5;
const SAMPLES: usize = 21;

/// Time from agreeing on a start to the start, and from the first rank's call to the other's, in
/// nanoseconds.
const AHEAD_NS: u64 = 30_000;
const LEAD_NS: u64 = 20_000;

/// The tag of what the ranks tell each other.
const TELL: u32 = TAG + 1;

/// One case: whether the leader, which sends, computes, and whether it comes first.
#[derive(Clone, Copy, Debug)]
struct Case {
    sender_computes: bool,
    sender_first: bool,
}

impl Case {
    const ALL: [(Self, &'static str); 4] = [
        (Self::new(true, true), "ovl send 1st"),
        (Self::new(true, false), "ovl send 2nd"),
        (Self::new(false, true), "ovl recv 2nd"),
        (Self::new(false, false), "ovl recv 1st"),
    ];

    const fn new(sender_computes: bool, sender_first: bool) -> Self {
        Self { sender_computes, sender_first }
    }
}

/// Returns the number of measurements.
pub(super) const fn steps() -> usize {
    Case::ALL.len() * SIZES.len()
}

/// Measures all cases.
pub(super) fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let mut ends =
        OverlapEnds { stage, line: PatternLine::new(stage)?, processor: Processor::new() };
    let samples = effort.samples.min(SAMPLES);
    for (case, name) in Case::ALL {
        for bytes in SIZES {
            let mut data = vec![0; bytes];
            // Memory that was never written is the kernel's page of zeros.
            payload::fill(&mut data, 1);
            let batches = ends.measure(case, samples, &mut data)?;
            table::tell(report, name, bytes, Unit::Percent, &batches)?;
        }
    }
    Ok(())
}

/// One side.
struct OverlapEnds<'a> {
    stage: &'a BenchStage<'a>,
    line: PatternLine,
    processor: Processor,
}

impl OverlapEnds<'_> {
    fn measure(
        &mut self,
        case: Case,
        samples: usize,
        data: &mut [u8],
    ) -> Result<Vec<LinedBatch>, Box<dyn Error>> {
        let before = self.line()?;
        let mut alone = Vec::with_capacity(samples);
        for number in 0..WARM_UP + samples {
            let time = self.pass(case, 0.0, data)?;
            if number >= WARM_UP {
                alone.push(time);
            }
        }
        alone.sort_by(f64::total_cmp);
        // A rank that comes first waits for the other as well; it may compute meanwhile.
        let lead = if case.sender_computes == case.sender_first { LEAD_NS as f64 } else { 0.0 };
        let median = alone.get(alone.len() / 2).copied().unwrap_or(0.0);
        let message = (median - lead).max(1e3);
        let computation = message + lead;
        let mut hidden = Vec::with_capacity(samples);
        for _ in 0..samples {
            let together = self.pass(case, computation, data)?;
            let shown = (together - computation) / message;
            hidden.push(100.0 * (1.0 - shown).clamp(0.0, 1.0));
        }
        let line = [before, self.line()?];
        Ok(hidden.into_iter().map(|value| LinedBatch { value, line }).collect())
    }

    /// Measures the line, when both ranks are there. The follower gets 0.
    fn line(&mut self) -> Result<f64, strait::Error> {
        self.tell(0, true)?;
        if self.stage.leads() { self.line.lead() } else { self.line.follow().map(|()| 0.0) }
    }

    /// Sends one message from the leader to the follower. Returns the time of the computing rank
    /// from call to end, on both.
    fn pass(&self, case: Case, computation: f64, data: &mut [u8]) -> Result<f64, Box<dyn Error>> {
        let BenchStage { endpoint, partner, .. } = *self.stage;
        let leads = self.stage.leads();
        let (is_first, computes) = (leads == case.sender_first, leads == case.sender_computes);
        let start = self.tell(common_time() + AHEAD_NS, leads)?;
        let start = start + if is_first { 0 } else { LEAD_NS };
        spin_until::<false>(|| common_time() >= start);
        let start = common_time();
        endpoint.scope(|scope| -> Result<(), strait::Error> {
            let request: Request<'_> = match leads {
                true => scope.isend(&*data, partner, TAG)?,
                false => scope.irecv(data, partner, TAG)?,
            };
            if computes && computation > 0.0 {
                self.processor.compute(computation);
            }
            request.wait().map(drop)
        })?;
        let time = common_time().saturating_sub(start);
        Ok(self.tell(time, computes)? as f64)
    }

    /// Returns the number of the rank that `speaks`, on both.
    fn tell(&self, number: u64, speaks: bool) -> Result<u64, strait::Error> {
        let BenchStage { endpoint, partner, .. } = *self.stage;
        let mut theirs = [0];
        endpoint.sendrecv(&[number], partner, TELL, &mut theirs, partner, TELL)?;
        Ok(if speaks { number } else { theirs[0] })
    }
}
