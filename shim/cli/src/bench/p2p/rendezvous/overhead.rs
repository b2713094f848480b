//! `strait bench overhead`: the cost of the protocol for messages that gain nothing by it
//! ([SpecRndv09] §4.4, figure 19a).
//!
//! It measures messages there and back by blocking calls, of every size. It also measures large
//! messages with calls of both ends at the same time. Then the packets of both ends cross, and the
//! receiver's packet is useless.

use core::error::Error;
use core::time::Duration;
use std::ffi::OsString;
use std::time::Instant;

use clap::Args;
use strait::{Rendezvous, Tuning};

use super::message::{MessageSide, RendezvousPair, Roles};
use super::options::{self, RendezvousOptions};
use super::setting;
use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::bench::p2p::latency::PingPong;
use crate::measure::computation::Processor;
use crate::measure::in_turn;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::{Batch, Effort};
use crate::measure::stage::{BenchStage, StageSide};
use crate::measure::stats;

/// Cost of the rendezvous for messages that gain nothing by it
#[derive(Args, Debug)]
pub(crate) struct OverheadBench {
    #[command(flatten)]
    messages: RendezvousOptions,
}

impl OverheadBench {
    fn sizes(&self) -> Vec<usize> {
        self.messages.sizes([8, 1 << 10, 8 << 10, 32 << 10, 128 << 10, 1 << 20])
    }
}

impl Benchmark for OverheadBench {
    fn common(&self) -> Common {
        self.messages.common
    }

    fn needs_two_processors(&self) -> bool {
        true
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        options::environment(self.messages.common.ranks)
    }

    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(steps(stage, &self.sizes()))
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.messages.common.effort(), &self.sizes(), report)
    }
}

/// Target time of the messages of one sample.
const TARGET: Duration = Duration::from_millis(1);

/// The roles of two ends that make their calls at the same time.
const CROSSING: Roles = Roles { computes: MessageSide::Receiver, first: None };

/// Returns the number of measurements with these sizes.
fn steps(stage: &BenchStage<'_>, sizes: &[usize]) -> usize {
    sizes.len() + large(stage, sizes).count()
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[&["overhead", "bytes"], &setting::columns()[..]].concat());
    let mut tell = |name: &str, bytes, samples: &[Vec<f64>]| -> Result<(), Box<dyn Error>> {
        let row = |setting: Rendezvous, metric, unit, figures| {
            let variant = format!("{name}, {}", setting.name());
            Row::new("overhead", bytes, metric, unit, figures).of_variant(variant)
        };
        let cells = setting::compare(report, samples, row)?;
        report.line([vec![name.to_owned(), stats::bytes(bytes)], cells].concat());
        report.step();
        Ok(())
    };
    for &bytes in sizes {
        tell("there and back", bytes, &there_and_back(stage, effort, bytes)?)?;
    }
    for bytes in large(stage, sizes) {
        tell("crossing", bytes, &crossing(stage, effort, bytes)?)?;
    }
    Ok(())
}

/// Returns those of `sizes` with ends that could cross.
fn large(stage: &BenchStage<'_>, sizes: &[usize]) -> impl Iterator<Item = usize> {
    let Tuning { eager_max, stream_max, .. } = stage.endpoint.world().tuning();
    let unasked_max = if stage.crosses() { stream_max } else { eager_max };
    sizes.iter().copied().filter(move |&bytes| bytes > unasked_max)
}

/// Measures one direction in nanoseconds, for each setting.
fn there_and_back(
    stage: &BenchStage<'_>,
    effort: Effort,
    bytes: usize,
) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    // All settings use the same memory, since its address matters more than the setting.
    let mut way = PingPong::new(setting::endpoint(stage, 0, 0), stage.partner, bytes);
    let run = |way: &mut PingPong<'_>, rounds| match stage.side {
        StageSide::Leader => way.lead(rounds),
        StageSide::Follower => way.follow(rounds),
        StageSide::Idle => Ok(()),
    };
    let rounds = match effort.rounds {
        Some(rounds) => rounds,
        None => in_turn::rounds(stage, TARGET, |rounds| run(&mut way, rounds))?,
    };
    in_turn::measure(stage, effort, setting::ALL.len(), |setting, seed| {
        way.switch(setting::endpoint(stage, setting, 0));
        way.prepare(seed);
        stage.endpoint.barrier()?;
        let start = Instant::now();
        run(&mut way, rounds)?;
        let took = start.elapsed();
        if stage.side != StageSide::Idle {
            way.verify(seed)?;
        }
        Ok(took.as_nanos() as f64 / (2 * rounds) as f64)
    })
}

/// Measures messages with crossing packets of both ends, in nanoseconds, for each setting.
fn crossing(
    stage: &BenchStage<'_>,
    effort: Effort,
    bytes: usize,
) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    let mut message = RendezvousPair::new(stage, Processor::new(), CROSSING, 1, bytes)?;
    in_turn::measure(stage, effort, setting::ALL.len(), |way, seed| {
        Ok(message.pass(way, 0.0, seed)?.time)
    })
}
