//! `strait bench bandwidth`: bytes per second when many messages are in flight at once.

use core::error::Error;
use std::io::IoSlice;

use clap::Args;
use strait::boot::SegmentConfig;
use strait::{Endpoint, Request, Transfer, Vectored, World};

use super::one_copy::OneCopy;
use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, MessageOptions, WINDOW, parse_bytes};
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
    /// Number of parts in which each message lies at the sender
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    parts: u32,
    /// Number of bytes between two of these parts
    #[arg(long, value_name = "BYTES", default_value = "1K", value_parser = parse_bytes)]
    gap: usize,
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
        let layout = (self.memory, self.parts as usize, self.gap);
        run(stage, effort, &self.sizes(), &transfers, layout, report)
    }
}

/// A window of messages in one direction, and an empty message back when all have arrived. A round
/// is one window.
pub(crate) struct Windows<'world> {
    endpoint: Endpoint<'world>,
    partner: u32,
    bytes: usize,
    window: usize,
    /// Number of parts in which a message lies at its sender, and the bytes between two of them.
    parts: usize,
    gap: usize,
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
        Ok(Self { endpoint, partner, bytes, window, parts: 1, gap: 0, out, arrived, receives })
    }

    /// Makes each message lie in `parts` parts at its sender, with gaps between them.
    fn scattered(
        self,
        (memory, parts, gap): (MemoryKind, usize, usize),
    ) -> Result<Self, strait::Error> {
        let parts = parts.clamp(1, self.bytes.max(1));
        if parts == 1 || self.receives {
            return Ok(self);
        }
        let room = parts * (self.bytes.div_ceil(parts) + gap);
        let out = memory.allocate(self.endpoint.world(), room)?;
        Ok(Self { parts, gap, out, ..self })
    }

    /// Returns the length of a part; the last may be shorter.
    fn part(&self) -> usize {
        self.bytes.div_ceil(self.parts).max(1)
    }

    /// Returns the parts of the message.
    fn slices(&self) -> Vec<IoSlice<'_>> {
        let (part, mut left) = (self.part(), self.bytes);
        let slices = self.out.chunks(part + self.gap).map(|chunk| {
            let length = part.min(left);
            left -= length;
            IoSlice::new(&chunk[..length])
        });
        slices.collect()
    }

    /// Returns the number of messages in a round.
    pub(crate) const fn messages(&self) -> usize {
        self.window
    }

    fn send_window(&self) -> Result<(), strait::Error> {
        let slices = if self.parts > 1 { self.slices() } else { Vec::new() };
        self.endpoint.scope(|scope| {
            let mut requests = [const { None }; WINDOW];
            for request in &mut requests[..self.window] {
                *request = Some(if self.parts > 1 {
                    scope.isend(Vectored::new(&slices), self.partner, TAG)?
                } else {
                    scope.isend(&self.out[..], self.partner, TAG)?
                });
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
        if self.parts == 1 {
            return payload::fill(&mut self.out, seed);
        }
        let (part, mut message) = (self.part(), vec![0; self.bytes]);
        payload::fill(&mut message, seed);
        for (chunk, bytes) in self.out.chunks_mut(part + self.gap).zip(message.chunks(part)) {
            chunk[..bytes.len()].copy_from_slice(bytes);
        }
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

/// Measures messages of `bytes` bytes in GB/s, for rank 0. They lie in one part. With `against`,
/// measures them beside the bare machine ([`OneCopy`]).
pub(crate) fn of(
    stage: &BenchStage<'_>,
    effort: Effort,
    bytes: usize,
    memory: MemoryKind,
    against: bool,
) -> Result<Option<PairFigures>, Box<dyn Error>> {
    measured(stage, effort, bytes, (memory, 1, 0), against)
}

/// Measures messages that lie in a number of parts at their sender.
fn measured(
    stage: &BenchStage<'_>,
    effort: Effort,
    bytes: usize,
    layout: (MemoryKind, usize, usize),
    against: bool,
) -> Result<Option<PairFigures>, Box<dyn Error>> {
    let memory = layout.0;
    let mut windows = Windows::new(stage, bytes, memory)?.scattered(layout)?;
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
    layout: (MemoryKind, usize, usize),
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let (metric, alone, times) = match layout.0 {
        MemoryKind::Private => ("readv", "readv alone", "× readv"),
        MemoryKind::Segment => ("memcpy", "memcpy alone", "× memcpy"),
    };
    let columns = ["bandwidth", "way", "min GB/s", "p50 GB/s", "p99 GB/s", alone, times];
    report.columns(&columns);
    for &bytes in sizes {
        for transfer in each(stage, transfers) {
            if let Some(PairFigures { work: rate, against }) =
                measured(stage, effort, bytes, layout, true)?
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
