//! `strait bench hca`: the speed of the bare RDMA device, as a limit for everything above it.

use core::error::Error;

use clap::Args;
use strait::World;
use strait::boot::SegmentConfig;
use strait::hca::DeviceChoice;

use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, MessageOptions};
use crate::measure::device::{DeviceBench, DeviceVerb, WRITES, devices, open};
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Effort;
use crate::measure::stage::BenchStage;
use crate::measure::stats::{self, SampleSummary, time};

/// The bare RDMA device: writes, reads, sends and atomics until their completion, and consecutive
/// writes
#[derive(Args, Debug)]
pub(crate) struct HcaBench {
    #[command(flatten)]
    options: MessageOptions,
}

impl HcaBench {
    fn sizes(&self) -> Vec<usize> {
        self.options.sizes([8, 1 << 10, 16 << 10, 256 << 10, 1 << 20])
    }
}

impl Benchmark for HcaBench {
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
        // Writes, reads and sends of each size, consecutive writes, and one atomic.
        Ok(devices()?.len() * (4 * self.sizes().len() + 1))
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.options.common.effort(), &self.sizes(), report)
    }
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["device", "operation", "bytes", "min", "p50", "p99"]);
    for choice in devices()? {
        let longest = sizes.iter().copied().max().unwrap_or(0).max(8);
        let device = open(stage, &choice)?;
        let mut bench = DeviceBench::connect(stage, device, longest)?;
        let has_atomics = bench.has_atomics();
        let verbs = DeviceVerb::ALL
            .into_iter()
            .filter(|(verb, _)| has_atomics || *verb != DeviceVerb::Atomic);
        for (verb, name) in verbs {
            let sizes = if verb == DeviceVerb::Atomic { &[8] } else { sizes };
            for &bytes in sizes {
                let costs = bench.measure(stage, effort, verb, bytes, 1)?;
                let all = stage.gather(&costs, stage.pairs())?.concat();
                if let Some(summary) = SampleSummary::of_costs(&all) {
                    tell(report, &choice, name, bytes, "latency", "ns", summary)?;
                }
                report.step();
            }
        }
        for &bytes in sizes {
            let costs = bench.measure(stage, effort, DeviceVerb::Write, bytes, WRITES)?;
            let rates: Vec<f64> = costs.iter().map(|cost| bytes as f64 * 1e3 / cost).collect();
            let all = stats::sum(&stage.gather(&rates, stage.pairs())?);
            if let Some(summary) = SampleSummary::of_gains(&all) {
                tell(report, &choice, "writes", bytes, "bandwidth", "MB/s", summary)?;
            }
            report.step();
        }
        bench.end(stage)?;
    }
    Ok(())
}

fn tell(
    report: &mut Report,
    choice: &DeviceChoice,
    name: &'static str,
    bytes: usize,
    metric: &'static str,
    unit: &'static str,
    summary: SampleSummary,
) -> std::io::Result<()> {
    report.row(Row::new("hca", bytes, metric, unit, summary).over(choice).of_variant(name))?;
    let number = |value| match unit {
        "ns" => time(value),
        _ => format!("{value:.0} {unit}"),
    };
    let [min, p50, p99] = [summary.min, summary.p50, summary.p99].map(number);
    report.line([choice.to_string(), name.into(), stats::bytes(bytes), min, p50, p99]);
    Ok(())
}
