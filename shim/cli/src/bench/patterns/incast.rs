//! Many messages to one rank, which receives from any.

use core::error::Error;

use strait::{Endpoint, Source};

use super::table::{Make, PatternRow, Unit};
use crate::measure::report::{Report, Row};
use crate::measure::sampling::{Batch, Effort, Sample};
use crate::measure::stage::{BenchStage, TAG};
use crate::measure::stats;
use crate::measure::together::{self, Together};
use crate::payload::{self, Mismatch};

/// Sizes of messages.
pub(super) const SIZES: [usize; 2] = [8, 1 << 10];

/// Number of messages of each sender in a round.
const MESSAGES: u32 = 64;

/// The patterns of one sender.
pub(super) const PATTERNS: [PatternRow; 2] = [of_two(SIZES[0]), of_two(SIZES[1])];

const fn of_two(bytes: usize) -> PatternRow {
    let make: Make = |stage, _, pattern| Ok(Box::new(Incast::new(stage, pattern.bytes)));
    PatternRow { name: "incast", bytes, operations: MESSAGES, unit: Unit::Time, make }
}

/// One rank.
struct Incast<'world> {
    endpoint: Endpoint<'world>,
    senders: u32,
    receives: bool,
    data: Vec<u8>,
}

impl<'world> Incast<'world> {
    fn new(stage: &BenchStage<'world>, bytes: usize) -> Self {
        let (endpoint, senders) = (stage.endpoint, stage.ranks() - 1);
        Self { endpoint, senders, receives: stage.rank() == 0, data: vec![0; bytes] }
    }

    fn all(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let Self { endpoint, senders, receives, data } = self;
        if !*receives {
            let messages = rounds * u64::from(MESSAGES);
            return (0..messages).try_for_each(|_| endpoint.send(data, 0, TAG));
        }
        let messages = rounds * u64::from(MESSAGES) * u64::from(*senders);
        (0..messages).try_for_each(|_| endpoint.recv(data, Source::Any, TAG).map(drop))
    }

    fn fill(&mut self, seed: u64) {
        if !self.receives {
            payload::fill(&mut self.data, seed);
        }
    }

    fn check(&self, seed: u64) -> Result<(), Mismatch> {
        if self.receives { payload::verify(&self.data, seed) } else { Ok(()) }
    }
}

impl Batch for Incast<'_> {
    fn prepare(&mut self, seed: u64) {
        self.fill(seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.all(rounds)
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.all(rounds)
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        self.check(seed)
    }
}

impl Together for Incast<'_> {
    fn prepare(&mut self, seed: u64) {
        self.fill(seed);
    }

    fn run(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.all(rounds)
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        self.check(seed)
    }
}

/// Measures any number of senders.
pub(super) fn many(
    stage: &BenchStage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[&["incast", "senders"], &together::COLUMNS[..]].concat());
    let senders = stage.ranks() - 1;
    for bytes in SIZES {
        let mut samples = together::measure(stage, effort, &mut Incast::new(stage, bytes))?;
        for Sample { work, .. } in &mut samples {
            *work /= f64::from(MESSAGES * senders);
        }
        let row = |metric, unit, figures| {
            let variant = format!("incast, {senders} senders");
            Row::new("patterns", bytes, metric, unit, figures).of_variant(variant)
        };
        if let Some(cells) = together::tell(report, &samples, row)? {
            let line = [stats::bytes(bytes), senders.to_string()];
            report.line([&line[..], &cells[..]].concat());
        }
        report.step();
    }
    Ok(())
}
