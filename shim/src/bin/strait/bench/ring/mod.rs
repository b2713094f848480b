//! `strait bench ring`: the designs of the RDMA channel over the software HCA, beside the device's bare writes.

mod channel;
mod raw;

use core::error::Error;

use strait_core::ring::{Config, Design};

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

/// Measurements of a run over as many sizes.
pub(super) const fn steps(sizes: usize) -> usize {
    (sizes + 1) * (Design::ALL.len() + 1) - Design::ALL.len() - 1 + CHUNKS.len()
}

/// One message one way, nanoseconds; and bytes in a nanosecond with many under way.
struct Figures {
    latency: Option<Summary>,
    bandwidth: Option<Summary>,
    /// The best bandwidth: what the design can do. The rest of the samples says what else the machine did.
    best: f64,
    /// Requests for a message there and back, half of them, of both ranks.
    operations: f64,
}

pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["ring", "design", "min", "× raw", "best GB/s", "of raw", "requests"]);
    let mut device = channel::device(stage)?;
    for &bytes in sizes {
        let raw = of_raw(stage, &mut device, effort, bytes)?;
        say(report, bytes, "raw write".into(), &raw, &raw)?;
        for design in Design::ALL {
            let figures = of(stage, &mut device, effort, Config::new(design), bytes)?;
            say(report, bytes, design.name().into(), &figures, &raw)?;
        }
    }
    let raw = of_raw(stage, &mut device, effort, SWEEP)?;
    for chunk in CHUNKS {
        let config = Config { chunk, slots: (1 << 20) / chunk, ..Config::new(Design::Pipeline) };
        let figures = of(stage, &mut device, effort, config, SWEEP)?;
        let name = format!("pipeline, chunks of {}", stats::bytes(chunk as usize));
        say(report, SWEEP, name, &figures, &raw)?;
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

fn figures(latency: &[Sample], bandwidth: &[Sample], round: usize, operations: f64) -> Figures {
    let latency: Vec<f64> = latency.iter().map(|sample| sample.work / 2.0).collect();
    let bandwidth: Vec<f64> = bandwidth.iter().map(|sample| round as f64 / sample.work).collect();
    Figures {
        latency: Summary::of_costs(&latency),
        bandwidth: Summary::of_gains(&bandwidth),
        best: bandwidth.iter().copied().fold(0.0, f64::max),
        operations,
    }
}

fn say(
    report: &mut Report,
    bytes: usize,
    name: String,
    figures: &Figures,
    raw: &Figures,
) -> Result<(), Box<dyn Error>> {
    if let (Some(latency), Some(bandwidth), Some(raw_latency)) =
        (figures.latency, figures.bandwidth, raw.latency)
    {
        let row = |metric, unit, summary| {
            Row::new("ring", bytes, metric, unit, summary).of_variant(name.clone()).over("soft")
        };
        report.row(row("latency", "ns", latency))?;
        report.row(row("bandwidth", "GB/s", bandwidth))?;
        report.line([
            stats::bytes(bytes),
            name,
            time(latency.min),
            stats::ratio(latency.min / raw_latency.min),
            format!("{:.3}", figures.best),
            stats::ratio(figures.best / raw.best),
            format!("{:.2}", figures.operations),
        ]);
    }
    report.step();
    Ok(())
}
