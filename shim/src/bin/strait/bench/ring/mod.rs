//! `strait bench ring`: the designs of the RDMA channel over the software HCA, or RDMA devices, beside the device's bare writes.
//!
//! In `engine` mode the device has the speed of the cards of [RdmaChannel04], and works by itself while ranks copy; in `inline` mode
//! the rank that posts does the work.

mod channel;
mod raw;

use core::error::Error;

use strait::hca::Choice;
use strait_core::ring::{Config, Design};

use super::hca::devices;
use super::report::{Report, Row};
use super::sampling::{Effort, Sample, measure};
use super::stage::Stage;
use super::stats::{self, Summary, time};
use channel::{Device, Messages, Pipe};
use raw::Raw;

/// Chunk sizes of the pipeline that are compared ([RdmaChannel04] fig. 9), bytes.
const CHUNKS: [u32; 7] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// Length of the messages that they are compared by, bytes.
const SWEEP: usize = 1 << 20;

/// The ring whose chunks they are, bytes: the largest leave it two.
const SWEEP_RING: u32 = 128 << 10;

/// Measurements of a run over as many sizes.
pub(super) fn steps(sizes: usize) -> Result<usize, Box<dyn Error>> {
    Ok(devices()?.len() * (sizes * (Design::ALL.len() + 1) + CHUNKS.len()))
}

/// Half of messages there and back, nanoseconds of one; windows of them in a row, bytes in a nanosecond.
struct Figures {
    latency: Summary,
    bandwidth: Summary,
    /// The best bandwidth: what the design can do. The rest of the samples says what else the machine did.
    best: f64,
    /// Latency and best bandwidth beside those of raw writes, of which each sample has some.
    latency_ratio: f64,
    bandwidth_ratio: f64,
    /// Requests for a message there and back, half of them, of both ranks.
    requests: f64,
}

/// A rank's two devices, so that what one of them reports is never the other's.
struct Devices {
    raw: Device,
    link: Device,
}

pub(super) fn run(
    stage: &Stage<'_>,
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
        let mut tell = |bytes, name: &str, figures: Option<Figures>| {
            figures.map_or(Ok(()), |figures| say(report, &choice, bytes, name, &figures))
        };
        for &bytes in sizes {
            tell(bytes, "raw write", of_raw(stage, &mut devices.raw, effort, bytes)?)?;
            for design in Design::ALL {
                let figures = of(stage, &mut devices, effort, Config::new(design), bytes)?;
                tell(bytes, design.name(), figures)?;
            }
        }
        for chunk in CHUNKS {
            let slots = SWEEP_RING / chunk;
            let config = Config { chunk, slots, ..Config::new(Design::Pipeline) };
            let figures = of(stage, &mut devices, effort, config, SWEEP)?;
            tell(SWEEP, &format!("pipeline by {}", stats::bytes(chunk as usize)), figures)?;
        }
    }
    Ok(())
}

/// Measures messages of `bytes` bytes through one link, beside raw writes.
fn of(
    stage: &Stage<'_>,
    Devices { raw, link }: &mut Devices,
    effort: Effort,
    config: Config,
    bytes: usize,
) -> Result<Option<Figures>, Box<dyn Error>> {
    let mut pipe = Pipe::new(stage, link, config)?;
    let before = pipe.operations().total();
    let mut beside = Raw::new(stage, raw, bytes, false)?;
    let mut there_and_back = Messages::new(&mut pipe, bytes, false);
    let latency = measure(stage, effort, Some(&mut beside), &mut there_and_back)?;
    beside.close()?;
    let messages = 2 * there_and_back.count;
    there_and_back.end()?;
    let operations = (pipe.operations().total() - before) as f64;
    let operations: f64 = stage.gather(&[operations], stage.ranks())?.concat().iter().sum();
    let mut beside = Raw::new(stage, raw, bytes, true)?;
    let mut one_way = Messages::new(&mut pipe, bytes, true);
    let bandwidth = measure(stage, effort, Some(&mut beside), &mut one_way)?;
    beside.close()?;
    let window = one_way.window.unwrap_or(1);
    one_way.end()?;
    pipe.close()?;
    Ok(Figures::new(&latency, &bandwidth, window * bytes, operations / messages.max(1) as f64))
}

/// Measures raw writes of `bytes` bytes.
fn of_raw(
    stage: &Stage<'_>,
    device: &mut Device,
    effort: Effort,
    bytes: usize,
) -> Result<Option<Figures>, Box<dyn Error>> {
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
    Ok(Figures::new(&latency, &bandwidth, window * bytes, requests))
}

impl Figures {
    /// Of the leader's samples of a round trip, and of windows of `round` bytes. Other ranks have none.
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
            latency: Summary::of_costs(&all(latency, &|sample| sample.work / 2.0))?,
            bandwidth: Summary::of_gains(&gains)?,
            best: gains.iter().copied().fold(0.0, f64::max),
            latency_ratio: ratio(latency),
            bandwidth_ratio: ratio(bandwidth).recip(),
            requests,
        })
    }
}

fn say(
    report: &mut Report,
    choice: &Choice,
    bytes: usize,
    name: &str,
    figures: &Figures,
) -> Result<(), Box<dyn Error>> {
    let Figures { latency, bandwidth, best, latency_ratio, bandwidth_ratio, requests } = *figures;
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
        if let Some(value) = Summary::of_costs(&[value]) {
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
