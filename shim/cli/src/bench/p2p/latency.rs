//! `strait bench latency`: the time that a message takes in one direction.

use core::error::Error;

use clap::Args;
use strait::boot::SegmentConfig;
use strait::{Endpoint, Rank, Transfer, World};

use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, MessageOptions};
use crate::measure::line::{Bounce, CopyBounce, LineTransfer};
use crate::measure::path::{each, way};
use crate::measure::report::{Report, Row};
use crate::measure::sampling::{Batch, Effort, PairFigures, measure};
use crate::measure::stage::{BenchStage, TAG};
use crate::measure::stats::{self, SampleSummary, time};
use crate::payload::{self, Mismatch};

/// Time of a message from call to call, one way: half a round trip
#[derive(Args, Debug)]
pub(crate) struct LatencyBench {
    #[command(flatten)]
    options: MessageOptions,
}

impl LatencyBench {
    fn sizes(&self) -> Vec<usize> {
        self.options.sizes([0].into_iter().chain((0..=16).map(|power| 1 << power)))
    }
}

impl Benchmark for LatencyBench {
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
        Ok(self.sizes().len() * self.options.transfers().len().max(1))
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let (effort, transfers) = (self.options.common.effort(), self.options.transfers());
        run(stage, effort, &self.sizes(), &transfers, report)
    }
}

/// A message there and back. A round is both.
pub(crate) struct PingPong<'world> {
    endpoint: Endpoint<'world>,
    partner: Rank,
    /// The bytes that the leader sends.
    out: Vec<u8>,
    /// The bytes that arrive: at the follower, which returns them, and back at the leader.
    back: Vec<u8>,
}

impl<'world> PingPong<'world> {
    pub(crate) fn new(endpoint: Endpoint<'world>, partner: Rank, bytes: usize) -> Self {
        Self { endpoint, partner, out: vec![0; bytes], back: vec![0; bytes] }
    }

    /// Continues with another endpoint, in the same memory.
    pub(crate) fn switch(&mut self, endpoint: Endpoint<'world>) {
        self.endpoint = endpoint;
    }
}

impl Batch for PingPong<'_> {
    fn prepare(&mut self, seed: u64) {
        payload::fill(&mut self.out, seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.endpoint.send(&self.out, self.partner, TAG)?;
            self.endpoint.recv(&mut self.back, self.partner, TAG)?;
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.endpoint.recv(&mut self.back, self.partner, TAG)?;
            self.endpoint.send(&self.back, self.partner, TAG)?;
        }
        Ok(())
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        payload::verify(&self.back, seed)
    }
}

/// Measures messages of `bytes` bytes, beside the bare line, in one direction, for rank 0.
pub(crate) fn of(
    stage: &BenchStage<'_>,
    effort: Effort,
    bytes: usize,
) -> Result<Option<PairFigures>, Box<dyn Error>> {
    let mut bounce = stage.lane.map(|lane| Bounce::new(lane, LineTransfer::Store));
    beside(stage, effort, bytes, bounce.as_mut())
}

/// Measures messages of `bytes` bytes beside `bare` rounds of there and back.
fn beside(
    stage: &BenchStage<'_>,
    effort: Effort,
    bytes: usize,
    bare: Option<&mut impl Batch>,
) -> Result<Option<PairFigures>, Box<dyn Error>> {
    let bare = bare.map(|bare| -> &mut dyn Batch { bare });
    let mut messages = PingPong::new(stage.endpoint, stage.partner, bytes);
    let samples = measure(stage, effort, bare, &mut messages)?;
    Ok(PairFigures::of_costs(stage, &samples, 2.0)?)
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    transfers: &[Transfer],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[
        "latency",
        "way",
        "min",
        "p50",
        "p99",
        "bare line",
        "× line",
        "bare copy",
        "× copy",
    ]);
    let steps =
        sizes.iter().flat_map(|bytes| each(stage, transfers).map(|transfer| (*bytes, transfer)));
    for (bytes, transfer) in steps {
        let measured = of(stage, effort, bytes)?;
        let mut copy = stage.lane.and_then(|lane| CopyBounce::new(lane, bytes));
        let beside_copy = match &mut copy {
            Some(copy) => beside(stage, effort, bytes, Some(copy))?,
            None => None,
        };
        if let Some(PairFigures { work, against }) = measured {
            let row = |metric, unit, figures| {
                let row = Row::new("latency", bytes, metric, unit, figures);
                transfer.map_or(row.clone(), |transfer| row.of_variant(transfer.name()))
            };
            report.row(row("latency", "ns", work))?;
            let tell = |limit: Option<(SampleSummary, SampleSummary)>, metric, by| {
                let Some((bare, ratio)) = limit else { return Ok(Default::default()) };
                report.row(row(metric, "ns", bare))?;
                report.row(row(by, "x", ratio))?;
                Ok::<_, Box<dyn Error>>((time(bare.p50), stats::ratio(ratio.p50)))
            };
            let (line, lines) = tell(against, "line", "ratio")?;
            let against_copy = beside_copy.and_then(|latency| latency.against);
            let (copy, copies) = tell(against_copy, "copy", "copy ratio")?;
            let SampleSummary { min, p50, p99, .. } = work;
            let (size, way) = (stats::bytes(bytes), way(stage, bytes).into());
            let [min, p50, p99] = [min, p50, p99].map(time);
            report.line([size, way, min, p50, p99, line, lines, copy, copies]);
        }
        report.step();
    }
    Ok(())
}
