//! `strait bench rate`: short messages per second.

use core::error::Error;

use clap::Args;
use strait::boot::SegmentConfig;
use strait::{Endpoint, World};

use super::bandwidth::Windows;
use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, MessageOptions, WINDOW};
use crate::measure::line::{STREAM_ROUND, SlotStream};
use crate::measure::memory::MemoryKind;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::{Batch, Effort, PairFigures, measure};
use crate::measure::stage::{BenchStage, TAG};
use crate::measure::stats;
use crate::payload::{self, Mismatch};

/// Short messages per second in one direction
#[derive(Args, Debug)]
pub(crate) struct RateBench {
    #[command(flatten)]
    options: MessageOptions,
}

impl RateBench {
    fn sizes(&self) -> Vec<usize> {
        self.options.sizes([8])
    }
}

impl Benchmark for RateBench {
    fn common(&self) -> Common {
        self.options.common
    }

    fn segment(&self) -> SegmentConfig {
        self.options.segment()
    }

    fn prepare(&self, world: &World) {
        self.options.prepare(world);
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(2 * self.sizes().len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.options.common.effort(), &self.sizes(), report)
    }
}

/// Messages in one direction by blocking calls, and an empty message back. A round is [`WINDOW`]
/// messages.
struct MessageStream<'world> {
    endpoint: Endpoint<'world>,
    partner: u32,
    /// The bytes that the leader sends, or that the follower received.
    data: Vec<u8>,
    leads: bool,
}

impl Batch for MessageStream<'_> {
    fn prepare(&mut self, seed: u64) {
        // The follower's buffer has the pattern of the sample before, or none, so that the check
        // detects a missing message.
        if self.leads {
            payload::fill(&mut self.data, seed);
        }
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            for _ in 0..WINDOW {
                self.endpoint.send(&self.data, self.partner, TAG)?;
            }
            self.endpoint.recv::<[u8]>(&mut [], self.partner, TAG)?;
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            for _ in 0..WINDOW {
                self.endpoint.recv(&mut self.data, self.partner, TAG)?;
            }
            self.endpoint.send::<[u8]>(&[], self.partner, TAG)?;
        }
        Ok(())
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        payload::verify(&self.data, seed)
    }
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["rate", "calls", "min M/s", "p50 M/s", "p99 M/s", "slot stream", "× stream"]);
    let BenchStage { endpoint, partner, .. } = *stage;
    for &bytes in sizes {
        let mut stream =
            MessageStream { endpoint, partner, data: vec![0; bytes], leads: stage.leads() };
        one(stage, effort, report, ("send, recv", bytes, WINDOW), &mut stream)?;
        let mut windows = Windows::new(stage, bytes, MemoryKind::Private)?;
        let messages = windows.messages();
        one(stage, effort, report, ("isend, irecv", bytes, messages), &mut windows)?;
    }
    Ok(())
}

/// Measures one kind of call with one size: its name, the bytes of a message, the messages in a
/// round.
fn one(
    stage: &BenchStage<'_>,
    effort: Effort,
    report: &mut Report,
    (calls, bytes, messages): (&'static str, usize, usize),
    work: &mut dyn Batch,
) -> Result<(), Box<dyn Error>> {
    let mut slots = stage.lane.map(SlotStream::new);
    let bare = slots.as_mut().map(|slots| -> &mut dyn Batch { slots });
    let samples = measure(stage, effort, bare, work)?;
    // Messages per nanosecond are thousands of millions per second.
    let rounds = [STREAM_ROUND as f64, messages as f64].map(|messages| 1e3 * messages);
    if let Some(PairFigures { work: rate, against }) =
        PairFigures::of_rates(stage, &samples, rounds)?
    {
        let row = |metric, unit, summary| {
            Row::new("rate", bytes, metric, unit, summary).of_variant(calls)
        };
        report.row(row("rate", "M/s", rate))?;
        if let Some((limit, ratio)) = against {
            report.row(row("stream", "M/s", limit))?;
            report.row(row("ratio", "x", ratio))?;
        }
        let (limit, ratio) = against.map_or_else(Default::default, |(limit, ratio)| {
            (format!("{:.0}", limit.p50), format!("{:.3}", ratio.p50))
        });
        let [min, p50, p99] = [rate.min, rate.p50, rate.p99].map(|rate| format!("{rate:.1}"));
        report.line([stats::bytes(bytes), calls.into(), min, p50, p99, limit, ratio]);
    }
    report.step();
    Ok(())
}
