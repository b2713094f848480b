//! `strait bench overlap`: the computation that is hidden behind one message ([SpecRndv09] §4.2.1,
//! §4.2.2, figure 13).
//!
//! The computation between a call and its wait increases. As long as it is hidden, the total time
//! is that without it. Beyond the hidden amount, the total grows as the computation does.
//!
//! Overlap is the maximum hidden time, as a part of the time of the message alone. Beside the
//! settings it measures the [bare device](super::bare) between nodes, and one copy by both sides on
//! a node.

use core::error::Error;
use std::ffi::OsString;

use clap::Args;
use strait::Rendezvous;

use super::bare::{self, Bare};
use super::message::{Passed, RendezvousPair, Roles};
use super::options::{self, RendezvousOptions};
use super::setting;
use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::computation::Processor;
use crate::measure::in_turn;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Effort;
use crate::measure::stage::BenchStage;
use crate::measure::stats::{self, SampleSummary, time};

/// Computation that is hidden behind one large message, by the end that computes and the end that
/// comes first
#[derive(Args, Debug)]
pub(crate) struct OverlapBench {
    #[command(flatten)]
    messages: RendezvousOptions,
}

impl OverlapBench {
    fn sizes(&self) -> Vec<usize> {
        self.messages.sizes((15..=22).map(|power| 1 << power))
    }
}

impl Benchmark for OverlapBench {
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

/// The amounts of computation, in parts of the message's own time. The first is zero.
pub(super) const RUNGS: [f64; 7] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0];

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let processor = Processor::new();
    let mut bare = Bare::new(stage, processor, longest(sizes))?;
    let ways = ways(bare.as_ref());
    let figures: Vec<_> = ways.iter().map(|way| [*way, "overlap", "stolen"]).collect();
    report.columns(&[&["overlap", "bytes"], figures.as_flattened()].concat());
    for (number, roles) in (0..).zip(Roles::ALL) {
        for &bytes in sizes {
            let mut message = RendezvousPair::new(stage, processor, roles, number, bytes)?;
            let samples = climb(stage, effort, &mut message, bare.as_mut())?;
            let mut line = vec![roles.name(), stats::bytes(bytes)];
            for (way, rungs) in ways.iter().zip(samples.chunks(RUNGS.len())) {
                let Some(Overlap { alone, hidden, stolen }) = Overlap::of(rungs) else { continue };
                for (metric, unit, figures) in
                    [("time", "ns", alone), ("overlap", "%", hidden), ("stolen", "%", stolen)]
                {
                    let variant = format!("{}, {way}", roles.name());
                    report.row(
                        Row::new("overlap", bytes, metric, unit, figures).of_variant(variant),
                    )?;
                }
                line.push(time(alone.p50));
                line.extend([hidden, stolen].map(|percent| format!("{:.0} %", percent.p50)));
            }
            report.line(line);
            report.step();
        }
    }
    bare.map_or(Ok(()), Bare::end)
}

/// Returns the longest of these sizes.
pub(super) fn longest(sizes: &[usize]) -> usize {
    sizes.iter().copied().max().unwrap_or(0)
}

/// Returns the names of the measurements of [`climb`], in its order: the settings, and the bare
/// device if there is one. On a node, where there is none, it is the forced transfer.
pub(super) fn ways(bare: Option<&Bare<'_>>) -> Vec<&'static str> {
    let last = bare.map_or(setting::FORCED, |_| bare::NAME);
    setting::ALL.map(Rendezvous::name).into_iter().chain([last]).collect()
}

/// Measures a message beside each amount of computation, for each of the [`ways`] with the rungs in
/// their order. An amount is a part of the time of the message alone under the first setting.
pub(super) fn climb(
    stage: &BenchStage<'_>,
    effort: Effort,
    message: &mut RendezvousPair<'_>,
    mut bare: Option<&mut Bare<'_>>,
) -> Result<Vec<Vec<Passed>>, Box<dyn Error>> {
    let alone = in_turn::measure(stage, effort.rough(), 1, |_, seed| message.pass(0, 0.0, seed))?;
    // Every rank has the same figures.
    let alone = times(&alone[0]).map_or(0.0, |alone| effort.at_most(alone.min));
    let count = ways(bare.as_deref()).len();
    in_turn::measure(stage, effort, count * RUNGS.len(), |number, seed| {
        let (way, amount) = (number / RUNGS.len(), alone * RUNGS[number % RUNGS.len()]);
        match &mut bare {
            Some(bare) if way == setting::ALL.len() => {
                let (roles, bytes) = message.case();
                bare.pass(roles, bytes, amount)
            }
            _ => message.pass(way, amount, seed),
        }
    })
}

pub(super) fn times(samples: &[Passed]) -> Option<SampleSummary> {
    SampleSummary::of_costs(&samples.iter().map(|passed| passed.time).collect::<Vec<_>>())
}

/// The figures of one setting in one case.
struct Overlap {
    /// The time of the message alone, in nanoseconds.
    alone: SampleSummary,
    /// Hidden computation, in percent of that time.
    hidden: SampleSummary,
    /// The share of the computation's time in which other threads had the processor, in percent.
    stolen: SampleSummary,
}

impl Overlap {
    fn of(rungs: &[Vec<Passed>]) -> Option<Self> {
        let alone = times(rungs.first()?)?;
        let hidden = |samples: &Vec<Passed>| {
            let hidden = samples.iter().map(|Passed { time, spent }| {
                // The time by which the whole is shorter than message and computation in sequence,
                // both undisturbed.
                let hidden = alone.min + spent.amount - time;
                100.0 * (hidden / alone.min).clamp(0.0, 1.0)
            });
            SampleSummary::of_gains(&hidden.collect::<Vec<_>>())
        };
        let hidden = rungs[1..].iter().filter_map(hidden);
        let stolen = rungs[1..].iter().flatten().map(|Passed { spent, .. }| spent.stolen());
        Some(Self {
            alone,
            hidden: hidden.max_by(|one, other| one.p50.total_cmp(&other.p50))?,
            stolen: SampleSummary::of_costs(&stolen.collect::<Vec<_>>())?,
        })
    }
}
