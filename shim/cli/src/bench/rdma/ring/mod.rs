//! `strait bench ring`: the designs of the RDMA channel over the software HCA, or RDMA devices,
//! beside the device's bare writes.
//!
//! In `engine` mode the device has the speed of the cards of [RdmaChannel04], and works by itself
//! while ranks copy. In `inline` mode the rank that posts does the work.

mod channel;
mod raw;

use core::error::Error;

use clap::Args;
use strait::World;
use strait::boot::SegmentConfig;
use strait::hca::DeviceChoice;
use strait_core::ring::{Design, LinkConfig};

use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, MessageOptions};
use crate::measure::device::devices;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::{Effort, Sample, measure};
use crate::measure::stage::BenchStage;
use crate::measure::stats::{self, SampleSummary, time};
use channel::{BenchPipe, CachedDevice, LinkMessages};
use raw::Raw;

/// Compared chunk sizes of the pipeline in bytes ([RdmaChannel04] fig. 9).
const CHUNKS: [u32; 7] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// Length in bytes of the messages that compare them.
const SWEEP: usize = 1 << 20;

/// Size in bytes of the ring for this comparison. It holds two of the largest chunks.
const SWEEP_RING: u32 = 128 << 10;

/// The designs of the RDMA channel over the software HCA, beside its bare writes; two ranks
#[derive(Args, Debug)]
pub(crate) struct RingBench {
    #[command(flatten)]
    options: MessageOptions,
}

impl RingBench {
    fn sizes(&self) -> Vec<usize> {
        self.options.sizes([8, 1 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20])
    }
}

impl Benchmark for RingBench {
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
        let each = self.sizes().len() * (Design::ALL.len() + 1) + CHUNKS.len();
        Ok(devices()?.len() * each)
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.options.common.effort(), &self.sizes(), report)
    }
}

/// Time in nanoseconds of one direction of messages there and back, and bandwidth of windows of
/// messages in bytes per nanosecond.
struct RingFigures {
    latency: SampleSummary,
    bandwidth: SampleSummary,
    /// The best bandwidth, which shows the ability of the design. The other samples show the load
    /// of the machine.
    best: f64,
    /// Latency and best bandwidth, each divided by that of raw writes, which each sample includes.
    latency_ratio: f64,
    bandwidth_ratio: f64,
    /// Number of requests of both ranks for one direction of a message there and back.
    requests: f64,
}

/// A rank's two devices. They are separate, so that a completion of one is never taken for the
/// other's.
struct Devices {
    raw: CachedDevice,
    link: CachedDevice,
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[
        "device", "bytes", "design", "min", "p50", "p99", "× raw", "GB/s", "p50", "of raw",
        "requests",
    ]);
    for choice in devices()? {
        let device = || channel::device(stage, &choice);
        let mut devices = Devices { raw: device()?, link: device()? };
        let mut tell = |bytes, name: &str, figures: Option<RingFigures>| {
            figures.map_or(Ok(()), |figures| say(report, &choice, bytes, name, &figures))
        };
        for &bytes in sizes {
            tell(bytes, "raw write", of_raw(stage, &mut devices.raw, effort, bytes)?)?;
            for design in Design::ALL {
                let figures = of(stage, &mut devices, effort, LinkConfig::new(design), bytes)?;
                tell(bytes, design.name(), figures)?;
            }
        }
        for chunk in CHUNKS {
            let slots = SWEEP_RING / chunk;
            let config = LinkConfig { chunk, slots, ..LinkConfig::new(Design::Pipeline) };
            let figures = of(stage, &mut devices, effort, config, SWEEP)?;
            tell(SWEEP, &format!("pipeline by {}", stats::bytes(chunk as usize)), figures)?;
        }
    }
    Ok(())
}

/// Measures messages of `bytes` bytes through one link, beside raw writes.
fn of(
    stage: &BenchStage<'_>,
    Devices { raw, link }: &mut Devices,
    effort: Effort,
    config: LinkConfig,
    bytes: usize,
) -> Result<Option<RingFigures>, Box<dyn Error>> {
    let mut pipe = BenchPipe::new(stage, link, config)?;
    let before = pipe.operations().total();
    let mut beside = Raw::new(stage, raw, bytes, false)?;
    let mut there_and_back = LinkMessages::new(&mut pipe, bytes, false);
    let latency = measure(stage, effort, Some(&mut beside), &mut there_and_back)?;
    beside.close()?;
    let messages = 2 * there_and_back.count;
    there_and_back.end()?;
    let operations = (pipe.operations().total() - before) as f64;
    let operations: f64 = stage.gather(&[operations], stage.ranks())?.concat().iter().sum();
    let mut beside = Raw::new(stage, raw, bytes, true)?;
    let mut one_way = LinkMessages::new(&mut pipe, bytes, true);
    let bandwidth = measure(stage, effort, Some(&mut beside), &mut one_way)?;
    beside.close()?;
    let window = one_way.window.unwrap_or(1);
    one_way.end()?;
    pipe.close()?;
    Ok(RingFigures::new(&latency, &bandwidth, window * bytes, operations / messages.max(1) as f64))
}

/// Measures raw writes of `bytes` bytes.
fn of_raw(
    stage: &BenchStage<'_>,
    device: &mut CachedDevice,
    effort: Effort,
    bytes: usize,
) -> Result<Option<RingFigures>, Box<dyn Error>> {
    let mut there_and_back = Raw::new(stage, device, bytes, false)?;
    let mut latency = measure(stage, effort, None, &mut there_and_back)?;
    there_and_back.close()?;
    let mut one_way = Raw::new(stage, device, bytes, true)?;
    let mut bandwidth = measure(stage, effort, None, &mut one_way)?;
    let window = one_way.messages();
    one_way.close()?;
    for sample in latency.iter_mut().chain(&mut bandwidth) {
        sample.bare = sample.work;
    }
    let requests = if bytes > 8 { 2.0 } else { 1.0 };
    Ok(RingFigures::new(&latency, &bandwidth, window * bytes, requests))
}

impl RingFigures {
    /// Makes the figures of the leader's samples of a round trip, and of windows of `round` bytes.
    /// Other ranks have no samples.
    fn new(latency: &[Sample], bandwidth: &[Sample], round: usize, requests: f64) -> Option<Self> {
        let all = |samples: &[Sample], figure: &dyn Fn(&Sample) -> f64| {
            samples.iter().map(figure).collect::<Vec<f64>>()
        };
        let least = |samples: &[f64]| samples.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = |samples: &[Sample]| {
            least(&all(samples, &|sample| sample.work))
                / least(&all(samples, &|sample| sample.bare))
        };
        let gains = all(bandwidth, &|sample| round as f64 / sample.work);
        Some(Self {
            latency: SampleSummary::of_costs(&all(latency, &|sample| sample.work / 2.0))?,
            bandwidth: SampleSummary::of_gains(&gains)?,
            best: gains.iter().copied().fold(0.0, f64::max),
            latency_ratio: ratio(latency),
            bandwidth_ratio: ratio(bandwidth).recip(),
            requests,
        })
    }
}

fn say(
    report: &mut Report,
    choice: &DeviceChoice,
    bytes: usize,
    name: &str,
    figures: &RingFigures,
) -> Result<(), Box<dyn Error>> {
    let RingFigures { latency, bandwidth, best, latency_ratio, bandwidth_ratio, requests } =
        *figures;
    let row = |metric, unit, summary| {
        let row = Row::new("ring", bytes, metric, unit, summary);
        row.of_variant(name.to_owned()).over(choice)
    };
    report.row(row("latency", "ns", latency))?;
    report.row(row("bandwidth", "GB/s", bandwidth))?;
    for (metric, unit, value) in [
        ("latency", "× raw", latency_ratio),
        ("bandwidth", "of raw", bandwidth_ratio),
        ("requests", "per message", requests),
    ] {
        if let Some(value) = SampleSummary::of_costs(&[value]) {
            report.row(row(metric, unit, value))?;
        }
    }
    report.line([
        choice.to_string(),
        stats::bytes(bytes),
        name.into(),
        time(latency.min),
        time(latency.p50),
        time(latency.p99),
        stats::ratio(latency_ratio),
        format!("{best:.3}"),
        format!("{:.3}", bandwidth.p50),
        stats::ratio(bandwidth_ratio),
        format!("{requests:.2}"),
    ]);
    report.step();
    Ok(())
}
