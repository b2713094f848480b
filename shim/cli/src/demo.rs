//! `strait demo`, and `strait` alone: ranks on this machine that check every payload and report
//! times.

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;

use clap::Args;
use strait::boot::{JobStart, SegmentConfig};
use strait::{Request, wait_all};

use crate::bench::p2p::{bandwidth, latency};
use crate::job;
use crate::measure::line;
use crate::measure::memory::MemoryKind;
use crate::measure::path::way;
use crate::measure::report::Report;
use crate::measure::sampling::{Effort, PairFigures};
use crate::measure::stage::{BenchStage, TAG};
use crate::measure::stats;
use crate::output::say;
use crate::payload;

/// Sizes of the exchange: near the limits of fastbox lines, fastboxes and cells.
const EXCHANGED: [usize; 12] =
    [0, 1, 8, 56, 57, 1024, 1025, 16 << 10, (16 << 10) + 1, 100_000, 1 << 20, 1_500_001];

/// Total bytes of the payloads of one size from one rank to another, of which there are at most
/// [`REPEATS`].
const EXCHANGED_BYTES: usize = 64 << 10;
const REPEATS: usize = 50;

/// Sizes of the table.
const MEASURED: [usize; 7] = [8, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20];

/// An effort that gives a first impression within seconds.
const EFFORT: Effort = Effort { samples: 100, rounds: None, limit: Duration::from_millis(150) };

/// Start ranks on this machine, check every payload, and show latency and bandwidth
///
/// When `strait run` or another launcher starts it as a rank, it is that rank, and the launcher
/// sets the number of ranks.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Number of ranks, at most 64
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=64))]
    ranks: u32,
    /// Number of virtual nodes on this machine: the ranks of different nodes use the network
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Check the payloads, and measure nothing
    #[arg(long)]
    check_only: bool,
}

impl Default for Demo {
    fn default() -> Self {
        Self { ranks: 2, nodes: 1, check_only: false }
    }
}

impl Demo {
    /// Starts the ranks, which then call [`Demo::run`]. If another launcher has started this
    /// process, it is one of the ranks itself.
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        if JobStart::is_asked()? {
            return job::be(None, |stage| self.run(stage));
        }
        let mut words = vec!["demo".into(), format!("--ranks={}", self.ranks).into()];
        if self.check_only {
            words.push("--check-only".into());
        }
        job::start(SegmentConfig::new(self.ranks), self.nodes, Vec::new(), words.into_iter())
    }

    /// Runs the demo on each rank.
    pub(crate) fn run(&self, stage: &BenchStage<'_>) -> Result<(), Box<dyn Error>> {
        if stage.reports() {
            say(&title(stage))?;
        }
        let verified = exchange(stage)?;
        if stage.reports() {
            let [payloads, bytes] = verified;
            let mebibytes = bytes as f64 / f64::from(1 << 20);
            say(&format!("verified {payloads} payloads, {mebibytes:.1} MiB, byte by byte\n"))?;
        }
        if self.check_only {
            return Ok(Report::new(stage, false, 0).name_device()?);
        }
        measure(stage)
    }
}

/// Returns a description of the resources in use.
fn title(stage: &BenchStage<'_>) -> String {
    let cpus: Vec<_> = stage.cpus.iter().map(usize::to_string).collect();
    let (noun, cpus) = (if cpus.len() == 1 { "processor" } else { "processors" }, cpus.join(", "));
    let turns = if (stage.cpus.len() as u32) < stage.ranks() { ", taking turns" } else { "" };
    let nodes = stage.endpoint.world().nodes().count();
    let through = match nodes {
        1 => "shared memory".into(),
        _ => format!("shared memory and the network of {nodes} nodes"),
    };
    format!(
        "strait {}: {} ranks on {noun} {cpus}{turns}, through {through}",
        env!("CARGO_PKG_VERSION"),
        stage.ranks()
    )
}

/// Sends payloads of each size from every rank to the ranks 1, 2, 4… after it, all at once, and
/// compares all received payloads. Returns on rank 0 the payloads and bytes that all ranks have
/// compared.
fn exchange(stage: &BenchStage<'_>) -> Result<[u64; 2], Box<dyn Error>> {
    let mut verified = [0.0; 2];
    for bytes in EXCHANGED {
        let payloads = exchange_of(stage, bytes)?;
        verified[0] += payloads as f64;
        verified[1] += (payloads * bytes) as f64;
    }
    let all = stage.gather(&verified, stage.ranks())?;
    Ok([0, 1].map(|what| all.iter().map(|one| one[what] as u64).sum()))
}

/// Exchanges payloads of one size. Returns the number of payloads that this rank compared.
fn exchange_of(stage: &BenchStage<'_>, bytes: usize) -> Result<usize, Box<dyn Error>> {
    let (rank, ranks) = (stage.rank(), stage.ranks());
    let repeats = (EXCHANGED_BYTES / bytes.max(1)).clamp(1, REPEATS) as u32;
    let distances = (0..u32::BITS).map(|power| 1 << power).take_while(|&distance| distance < ranks);
    let plan: Vec<(u32, u32)> =
        distances.flat_map(|distance| (0..repeats).map(move |repeat| (distance, repeat))).collect();

    let payload = |&(distance, repeat): &(u32, u32)| {
        let mut data = vec![0; bytes];
        payload::fill(&mut data, seed(rank, distance, repeat, bytes));
        data
    };
    let sent: Vec<Vec<u8>> = plan.iter().map(payload).collect();
    let mut arrived = vec![vec![0; bytes]; plan.len()];
    let before = |distance| (rank + ranks - distance) % ranks;
    stage.endpoint.scope(|scope| {
        let mut requests: Vec<Request<'_>> = Vec::new();
        for (buffer, &(distance, _)) in arrived.iter_mut().zip(&plan) {
            requests.push(scope.irecv(buffer, before(distance), TAG)?);
        }
        for (data, &(distance, _)) in sent.iter().zip(&plan) {
            requests.push(scope.isend(data, (rank + distance) % ranks, TAG)?);
        }
        wait_all(&mut requests)
    })?;
    for (data, &(distance, repeat)) in arrived.iter().zip(&plan) {
        payload::verify(data, seed(before(distance), distance, repeat, bytes))?;
    }
    Ok(plan.len())
}

/// Returns a seed that differs for every payload.
fn seed(from: u32, distance: u32, repeat: u32, bytes: usize) -> u64 {
    let [from, distance, repeat] = [from, distance, repeat].map(u64::from);
    from << 56 ^ distance << 48 ^ repeat << 40 ^ bytes as u64
}

/// Prints the table. All pairs measure at once.
fn measure(stage: &BenchStage<'_>) -> Result<(), Box<dyn Error>> {
    let mut report = Report::new(stage, false, MEASURED.len());
    report.columns(&["message", "way", "latency", "× line", "bandwidth"]);
    let before = line::probe(stage)?;
    for bytes in MEASURED {
        let latency = latency::of(stage, EFFORT, bytes)?;
        let bandwidth = bandwidth::of(stage, EFFORT, bytes, MemoryKind::Private, false)?;
        if let Some((PairFigures { work: one_way, against }, bandwidth)) = latency.zip(bandwidth) {
            let ratio = against.map(|(_, ratio)| stats::ratio(ratio.p50));
            report.line([
                stats::bytes(bytes),
                way(stage, bytes).into(),
                stats::time(one_way.p50),
                ratio.unwrap_or_default(),
                format!("{:.2} GB/s", bandwidth.work.p50),
            ]);
        }
        report.step();
    }
    let after = line::probe(stage)?;
    Ok(report.finish(before, after)?)
}
