//! `strait bench ring`: the designs of the RDMA channel over the software HCA, beside the device's bare writes.
//!
//! In `engine` mode the device has the speed of the cards of [RdmaChannel04], and works by itself while ranks copy; in `inline` mode
//! the rank that posts does the work.

mod channel;
mod raw;

use core::error::Error;

use strait::hca::soft::Mode;
use strait_core::ring::{Config, Design};

use super::hca::modes;
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
    Ok(modes()?.len() * (sizes * (Design::ALL.len() + 1) + CHUNKS.len()))
}

/// One message one way, nanoseconds; and bytes in a nanosecond with many under way.
struct Figures {
    latency: Option<Summary>,
    bandwidth: Option<Summary>,
    /// The best bandwidth: what the design can do. The rest of the samples says what else the machine did.
    best: f64,
    /// Requests for a message there and back, half of them, of both ranks.
    requests: f64,
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
    for mode in modes()? {
        let mut device = channel::device(stage, mode)?;
        let mut tell = |bytes, name: String, figures: &Figures, raw: &Figures| {
            say(report, mode, bytes, name, figures, raw)
        };
        for &bytes in sizes {
            let raw = of_raw(stage, &mut device, effort, bytes)?;
            tell(bytes, "raw write".into(), &raw, &raw)?;
            for design in Design::ALL {
                let figures = of(stage, &mut device, effort, Config::new(design), bytes)?;
                tell(bytes, design.name().into(), &figures, &raw)?;
            }
        }
        let raw = of_raw(stage, &mut device, effort, SWEEP)?;
        for chunk in CHUNKS {
            let slots = SWEEP_RING / chunk;
            let config = Config { chunk, slots, ..Config::new(Design::Pipeline) };
            let figures = of(stage, &mut device, effort, config, SWEEP)?;
            let name = format!("pipeline by {}", stats::bytes(chunk as usize));
            tell(SWEEP, name, &figures, &raw)?;
        }
    }
    Ok(())
}

/// Measures messages of `bytes` bytes through one link.
fn of(
    stage: &Stage<'_>,
    device: &mut Device,
    effort: Effort,
    config: Config,
    bytes: usize,
) -> Result<Figures, Box<dyn Error>> {
    let mut pipe = Pipe::new(stage, device, config)?;
    let before = pipe.operations().total();
    let mut there_and_back = Messages::new(&mut pipe, bytes, false);
    let latency = measure(stage, effort, None, &mut there_and_back)?;
    let messages = 2 * there_and_back.count;
    there_and_back.end()?;
    let operations = (pipe.operations().total() - before) as f64;
    let operations: f64 = stage.gather(&[operations], stage.ranks())?.concat().iter().sum();
    let mut one_way = Messages::new(&mut pipe, bytes, true);
    let bandwidth = measure(stage, effort, None, &mut one_way)?;
    let window = one_way.window.unwrap_or(1);
    one_way.end()?;
    pipe.close()?;
    Ok(figures(&latency, &bandwidth, window * bytes, operations / messages.max(1) as f64))
}

/// Measures bare writes of `bytes` bytes.
fn of_raw(
    stage: &Stage<'_>,
    device: &mut Device,
    effort: Effort,
    bytes: usize,
) -> Result<Figures, Box<dyn Error>> {
    let mut there_and_back = Raw::new(stage, device, bytes, false)?;
    let latency = measure(stage, effort, None, &mut there_and_back)?;
    there_and_back.close()?;
    let mut one_way = Raw::new(stage, device, bytes, true)?;
    let bandwidth = measure(stage, effort, None, &mut one_way)?;
    let window = one_way.messages();
    one_way.close()?;
    Ok(figures(&latency, &bandwidth, window * bytes, 1.0))
}

fn figures(latency: &[Sample], bandwidth: &[Sample], round: usize, requests: f64) -> Figures {
    let latency: Vec<f64> = latency.iter().map(|sample| sample.work / 2.0).collect();
    let bandwidth: Vec<f64> = bandwidth.iter().map(|sample| round as f64 / sample.work).collect();
    Figures {
        latency: Summary::of_costs(&latency),
        bandwidth: Summary::of_gains(&bandwidth),
        best: bandwidth.iter().copied().fold(0.0, f64::max),
        requests,
    }
}

fn say(
    report: &mut Report,
    mode: Mode,
    bytes: usize,
    name: String,
    figures: &Figures,
    raw: &Figures,
) -> Result<(), Box<dyn Error>> {
    if let (Some(latency), Some(bandwidth), Some(raw_latency), Some(requests)) =
        (figures.latency, figures.bandwidth, raw.latency, Summary::of_costs(&[figures.requests]))
    {
        let row = |metric, unit, summary| {
            Row::new("ring", bytes, metric, unit, summary)
                .of_variant(name.clone())
                .over(mode.name())
        };
        report.row(row("latency", "ns", latency))?;
        report.row(row("bandwidth", "GB/s", bandwidth))?;
        report.row(row("requests", "per message", requests))?;
        report.line([
            mode.name().into(),
            stats::bytes(bytes),
            name,
            time(latency.min),
            time(latency.p50),
            time(latency.p99),
            stats::ratio(latency.min / raw_latency.min),
            format!("{:.3}", figures.best),
            format!("{:.3}", bandwidth.p50),
            stats::ratio(figures.best / raw.best),
            format!("{:.2}", figures.requests),
        ]);
    }
    report.step();
    Ok(())
}
