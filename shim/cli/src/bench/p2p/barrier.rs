//! `strait bench barrier`: the time of a barrier, for each of its algorithms.

use core::error::Error;

use clap::Args;
use strait::Group;
use strait_core::shm::{BarrierAlgorithm, FLAGS};

use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Effort;
use crate::measure::stage::BenchStage;
use crate::measure::stats::SampleSummary;
use crate::measure::together::{self, COLUMNS, Together};

/// Time of a barrier of all ranks, with each algorithm
#[derive(Args, Debug)]
pub(crate) struct BarrierBench {
    #[command(flatten)]
    common: Common,
}

impl Benchmark for BarrierBench {
    fn common(&self) -> Common {
        self.common
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(VARIANTS.len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.common.effort(), report)
    }
}

/// The first context of the measured groups.
const CONTEXT: u32 = 100;

/// A measured algorithm.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Variant {
    /// The choice of `Endpoint::barrier`.
    Chosen,
    By(BarrierAlgorithm),
    Messages,
}

/// Every variant, under its name.
const VARIANTS: [(Variant, &str); 5] = [
    (Variant::Chosen, "as chosen"),
    (Variant::By(BarrierAlgorithm::Word), "counter, one word"),
    (Variant::By(BarrierAlgorithm::Flags), "flags"),
    (Variant::By(BarrierAlgorithm::Signal), "counter and signal"),
    (Variant::Messages, "messages"),
];

/// One variant, measured among all ranks.
struct BarrierRounds<'a> {
    group: Group<'a>,
    variant: Variant,
}

impl<'a> BarrierRounds<'a> {
    fn new(
        stage: &'a BenchStage<'a>,
        number: u32,
        variant: Variant,
    ) -> Result<Self, Box<dyn Error>> {
        let all: Vec<_> = (0..stage.ranks()).collect();
        let group = stage.endpoint.with_context(CONTEXT + number).group(&all)?;
        if variant == Variant::Messages {
            group.meet_by_messages();
        }
        Ok(Self { group, variant })
    }
}

impl Together for BarrierRounds<'_> {
    fn run(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            match self.variant {
                Variant::By(way) => self.group.barrier_by(way)?,
                Variant::Chosen | Variant::Messages => self.group.barrier()?,
            }
        }
        Ok(())
    }
}

fn run(stage: &BenchStage<'_>, effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    report.columns(&[&["barrier"], &COLUMNS[..]].concat());
    for (number, (variant, name)) in (0..).zip(VARIANTS) {
        if variant == Variant::By(BarrierAlgorithm::Flags) && stage.ranks() as usize > FLAGS {
            report.step();
            continue;
        }
        let mut meeting = BarrierRounds::new(stage, number, variant)?;
        let samples = together::measure(stage, effort, &mut meeting)?;
        let row = |metric, unit, summary: SampleSummary| {
            Row::new("barrier", 0, metric, unit, summary).of_variant(name)
        };
        if let Some([min, p50, p99, bare, times]) = together::tell(report, &samples, row)? {
            report.line([name.to_owned(), min, p50, p99, bare, times]);
        }
        report.step();
    }
    Ok(())
}
