//! `strait bench progress`: the time of one message while one of its ends computes for increasing
//! times ([SpecRndv09] §4.2.1, §4.2.2, figure 14).
//!
//! A message that makes progress by itself is complete when the computation is. Otherwise it takes,
//! after the computation, as long as it does alone.

use core::error::Error;
use std::ffi::OsString;

use clap::Args;

use super::bare::Bare;
use super::message::{Passed, RendezvousPair, Roles};
use super::options::{self, RendezvousOptions};
use super::overlap::{RUNGS, climb, longest, times, ways};
use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::computation::Processor;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Effort;
use crate::measure::stage::BenchStage;
use crate::measure::stats::{self, SampleSummary, time};

/// Time of one large message while one of its ends computes for increasing times
#[derive(Args, Debug)]
pub(crate) struct ProgressBench {
    #[command(flatten)]
    messages: RendezvousOptions,
}

impl ProgressBench {
    fn sizes(&self) -> Vec<usize> {
        self.messages.sizes([1 << 20])
    }
}

impl Benchmark for ProgressBench {
    fn common(&self) -> Common {
        self.messages.common
    }

    fn needs_two_processors(&self) -> bool {
        true
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        options::environment(self.messages.common.ranks)
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(Roles::ALL.len() * self.sizes().len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.messages.common.effort(), &self.sizes(), report)
    }
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let processor = Processor::new();
    let mut bare = Bare::new(stage, processor, longest(sizes))?;
    let ways = ways(bare.as_ref());
    let figures: Vec<_> = ways.iter().map(|way| [*way, "left"]).collect();
    report.columns(&[&["progress", "bytes", "computes"], figures.as_flattened()].concat());
    for (number, roles) in (0..).zip(Roles::ALL) {
        for &bytes in sizes {
            let mut message = RendezvousPair::new(stage, processor, roles, number, bytes)?;
            let samples = climb(stage, effort, &mut message, bare.as_mut())?;
            for (rung, part) in RUNGS.into_iter().enumerate() {
                let of_ways = samples.chunks(RUNGS.len()).map(|rungs| &rungs[rung]);
                let mut line = vec![roles.name(), stats::bytes(bytes), String::new()];
                for (way, samples) in ways.iter().zip(of_ways) {
                    let (Some(whole), Some(left)) = (times(samples), left(samples)) else {
                        continue;
                    };
                    for (metric, figures) in [("time", whole), ("left", left)] {
                        let variant = format!("{}, {part} of its time, {way}", roles.name());
                        let row = Row::new("progress", bytes, metric, "ns", figures);
                        report.row(row.of_variant(variant))?;
                    }
                    line[2] = time(whole.p50 - left.p50);
                    line.extend([whole, left].map(|figures| time(figures.p50)));
                }
                report.line(line);
            }
            report.step();
        }
    }
    bare.map_or(Ok(()), Bare::end)
}

/// Returns the time that a message takes beyond the computation.
fn left(samples: &[Passed]) -> Option<SampleSummary> {
    let left = samples.iter().map(|Passed { time, spent }| (time - spent.time).max(0.0));
    SampleSummary::of_costs(&left.collect::<Vec<_>>())
}
