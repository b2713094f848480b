//! `strait bench bandwidth`: bytes per second when many messages are in flight at once.

use core::error::Error;

use clap::Args;
use strait::boot::SegmentConfig;
use strait::{Endpoint, Request, Transfer, World};

use super::one_copy::OneCopy;
use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, MessageOptions, WINDOW};
use crate::measure::memory::{BenchBuffer, MemoryKind};
use crate::measure::path::{each, way};
use crate::measure::report::{Report, Row};
use crate::measure::sampling::{Batch, Effort, PairFigures, measure};
use crate::measure::stage::{BenchStage, TAG};
use crate::measure::stats;
use crate::payload::{self, Mismatch};

/// Maximum number of bytes in flight, but always at least two messages.
const WINDOW_BYTES: usize = 8 << 20;

/// Bytes per second, in windows of up to 64 messages in one direction
#[derive(Args, Debug)]
pub(crate) struct BandwidthBench {
    #[command(flatten)]
    options: MessageOptions,
    /// Kind of memory of the buffers
    #[arg(long, value_enum, default_value_t)]
    memory: MemoryKind,
}

impl BandwidthBench {
    fn sizes(&self) -> Vec<usize> {
        self.options.sizes((12..=22).map(|power| 1 << power))
    }
}

impl Benchmark for BandwidthBench {
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
        run(stage, effort, &self.sizes(), &transfers, self.memory, report)
    }
}

/// A window of messages in one direction, and an empty message back when all have arrived. A round
/// is one window.
pub(crate) struct Windows<'world> {
    endpoint: Endpoint<'world>,
    partner: u32,
    bytes: usize,
    window: usize,
    out: BenchBuffer,
    arrived: BenchBuffer,
    /// Whether this side receives.
    receives: bool,
}

impl<'world> Windows<'world> {
    pub(crate) fn new(
        stage: &BenchStage<'world>,
        bytes: usize,
        memory: MemoryKind,
    ) -> Result<Self, strait::Error> {
        let window = (WINDOW_BYTES / bytes.max(1)).clamp(2, WINDOW);
        let receives = !stage.leads();
        let BenchStage { endpoint, partner, .. } = *stage;
        let [out, arrived] = if receives { [0, window * bytes] } else { [bytes, 0] };
        let world = endpoint.world();
        let (out, arrived) = (memory.allocate(world, out)?, memory.allocate(world, arrived)?);
        Ok(Self { endpoint, partner, bytes, window, out, arrived, receives })
    }

    /// Returns the number of messages in a round.
    pub(crate) const fn messages(&self) -> usize {
        self.window
    }

    fn send_window(&self) -> Result<(), strait::Error> {
        self.endpoint.scope(|scope| {
            let mut requests = [const { None }; WINDOW];
            for request in &mut requests[..self.window] {
                *request = Some(scope.isend(&self.out[..], self.partner, TAG)?);
            }
            wait(&mut requests)
        })
    }

    fn receive_window(&mut self) -> Result<(), strait::Error> {
        let mut rest = &mut self.arrived[..];
        self.endpoint.scope(|scope| {
            let mut requests = [const { None }; WINDOW];
            for request in &mut requests[..self.window] {
                let (buffer, others) = rest.split_at_mut(self.bytes);
                rest = others;
                *request = Some(scope.irecv(buffer, self.partner, TAG)?);
            }
            wait(&mut requests)
        })
    }
}

fn wait(requests: &mut [Option<Request<'_>>]) -> Result<(), strait::Error> {
    requests.iter_mut().filter_map(Option::take).try_for_each(|request| request.wait().map(drop))
}

impl Batch for Windows<'_> {
    fn prepare(&mut self, seed: u64) {
        payload::fill(&mut self.out, seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.send_window()?;
            self.endpoint.recv::<[u8]>(&mut [], self.partner, TAG)?;
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.receive_window()?;
            self.endpoint.send::<[u8]>(&[], self.partner, TAG)?;
        }
        Ok(())
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        if !self.receives || self.bytes == 0 {
            return Ok(());
        }
        self.arrived.chunks(self.bytes).try_for_each(|message| payload::verify(message, seed))
    }
}

/// Measures messages of `bytes` bytes in GB/s, for rank 0. With `against`, measures them beside the
/// bare machine ([`OneCopy`]).
pub(crate) fn of(
    stage: &BenchStage<'_>,
    effort: Effort,
    bytes: usize,
    memory: MemoryKind,
    against: bool,
) -> Result<Option<PairFigures>, Box<dyn Error>> {
    let mut windows = Windows::new(stage, bytes, memory)?;
    let mut one_copy = match against {
        true => OneCopy::new(stage, bytes, windows.messages(), memory)?,
        false => None,
    };
    let bare = one_copy.as_mut().map(|one_copy| -> &mut dyn Batch { one_copy });
    let samples = measure(stage, effort, bare, &mut windows)?;
    let round = (windows.messages() * bytes) as f64;
    // Bytes per nanosecond are gigabytes per second.
    Ok(PairFigures::of_rates(stage, &samples, [round; 2])?)
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    transfers: &[Transfer],
    memory: MemoryKind,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let (metric, alone, times) = match memory {
        MemoryKind::Private => ("readv", "readv alone", "× readv"),
        MemoryKind::Segment => ("memcpy", "memcpy alone", "× memcpy"),
    };
    let columns = ["bandwidth", "way", "min GB/s", "p50 GB/s", "p99 GB/s", alone, times];
    report.columns(&columns);
    for &bytes in sizes {
        for transfer in each(stage, transfers) {
            if let Some(PairFigures { work: rate, against }) =
                of(stage, effort, bytes, memory, true)?
            {
                let row = |metric, unit, figures| {
                    let row = Row::new("bandwidth", bytes, metric, unit, figures);
                    transfer.map_or(row.clone(), |transfer| row.of_variant(transfer.name()))
                };
                report.row(row("bandwidth", "GB/s", rate))?;
                let (mut alone, mut times) = Default::default();
                if let Some((bare, ratio)) = against {
                    report.row(row(metric, "GB/s", bare))?;
                    report.row(row("ratio", "x", ratio))?;
                    (alone, times) = (format!("{:.2}", bare.p50), stats::ratio(ratio.p50));
                }
                let [min, p50, p99] =
                    [rate.min, rate.p50, rate.p99].map(|rate| format!("{rate:.2}"));
                let size = stats::bytes(bytes);
                report.line([size, way(stage, bytes).into(), min, p50, p99, alone, times]);
            }
            report.step();
        }
    }
    Ok(())
}
