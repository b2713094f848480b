//! `strait bench npb`: kernels of the NAS Parallel Benchmarks ([RdmaChannel04] §7, [SpecRndv09]
//! §4.3) with their communication. Their results are compared with NPB's published values.
//!
//! The definitions are NPB's: D. Bailey et al., *The NAS Parallel Benchmarks*, RNR-94-007, and the
//! verification values of its reference implementation, classes S and W. The decomposition is our
//! own where a page of a kernel says so. RADIX is a kernel of SPLASH-2: S. C. Woo et al., *The
//! SPLASH-2 programs*, ISCA 1995. Its keys are checked instead.

mod bt;
mod cg;
mod ep;
mod flow;
mod is;
mod kernel;
mod lu;
mod matrix;
mod mg;
mod peers;
mod pencil;
mod radix;
mod random;
mod run;
mod settings;

use core::error::Error;
use core::time::Duration;
use std::ffi::OsString;

use clap::Args;
use strait::Rendezvous;
use strait_core::ring::Design;

use super::benchmark::{BenchGroup, Benchmark, entry};
use super::options::Common;
use super::p2p::rendezvous::options;
use crate::measure::report::{Report, Row};
use crate::measure::stage::BenchStage;
use crate::measure::stats::{SampleSummary, time};
use kernel::{KernelOutcome, NpbClass, NpbKernel};
use run::KernelRun;

/// The bench of this folder.
pub(super) const GROUP: BenchGroup = BenchGroup {
    name: "npb",
    about: "kernels of the NAS Parallel Benchmarks, and RADIX of SPLASH-2",
    benches: &[entry::<NpbBench>("npb")],
};

/// Kernels of the NAS Parallel Benchmarks, verified by NPB's values, and RADIX of SPLASH-2
#[derive(Args, Debug)]
pub(crate) struct NpbBench {
    /// Kernels
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    #[arg(default_value = "is,cg,mg,ep,lu,bt,radix")]
    kernel: Vec<NpbKernel>,
    /// Classes of problems
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "S")]
    class: Vec<NpbClass>,
    /// Design of the RDMA channel between nodes [default: STRAIT_RING]
    #[arg(long, value_name = "DESIGN", value_parser = parse_design)]
    ring: Option<Design>,
    /// Side that begins a large message [default: STRAIT_RENDEZVOUS]
    #[arg(long, value_name = "SETTING", value_parser = parse_rendezvous)]
    rendezvous: Option<Rendezvous>,
    /// Run each kernel under every setting in turn, and compare the times and the waits
    #[arg(long, conflicts_with = "rendezvous")]
    every_setting: bool,
    #[command(flatten)]
    common: Common,
}

fn parse_design(text: &str) -> Result<Design, String> {
    let found = Design::ALL.into_iter().find(|design| design.name() == text);
    found.ok_or_else(|| format!("expected {}", Design::ALL.map(Design::name).join(", ")))
}

fn parse_rendezvous(text: &str) -> Result<Rendezvous, String> {
    let found = Rendezvous::ALL.into_iter().find(|setting| setting.name() == text);
    found.ok_or_else(|| format!("expected {}", Rendezvous::ALL.map(Rendezvous::name).join(", ")))
}

impl Benchmark for NpbBench {
    fn common(&self) -> Common {
        self.common
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let ring = self.ring.map(|design| ("STRAIT_RING", design.name()));
        let rendezvous = self.rendezvous.map(|setting| ("STRAIT_RENDEZVOUS", setting.name()));
        let set = ring.into_iter().chain(rendezvous);
        let set = set.map(|(name, value)| (name.into(), value.into()));
        match self.every_setting {
            true => set.chain(options::environment(self.common.ranks)).collect(),
            false => set.collect(),
        }
    }

    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        let ranks = stage.ranks();
        match self.kernel.iter().find(|kernel| !kernel.takes(ranks)) {
            Some(kernel) => Err(format!("{ranks} ranks: {kernel} takes a power of two").into()),
            None => Ok(self.kernel.len() * self.class.len()),
        }
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        if self.every_setting {
            return settings::compare(stage, report, self.common.effort(), &self.problems());
        }
        report.columns(&["kernel", "time", "waits", "messages", "result", "expected"]);
        for (kernel, class) in self.problems() {
            self.one(stage, report, kernel, class)?;
            report.step();
        }
        Ok(())
    }
}

impl NpbBench {
    fn problems(&self) -> Vec<(NpbKernel, NpbClass)> {
        let classes = |kernel| self.class.iter().map(move |class| (kernel, *class));
        self.kernel.iter().flat_map(|kernel| classes(*kernel)).collect()
    }

    /// Runs a kernel until its time is over, at least once.
    fn one(
        &self,
        stage: &BenchStage<'_>,
        report: &mut Report,
        kernel: NpbKernel,
        class: NpbClass,
    ) -> Result<(), Box<dyn Error>> {
        let effort = self.common.effort();
        let (mut runs, mut spent) = (Vec::new(), Duration::ZERO);
        loop {
            let (run, outcome) = KernelRun::measure(stage, stage.endpoint, kernel, class)?;
            runs.push(run);
            spent += Duration::from_nanos(run.time_ns as u64);
            if runs.len() >= effort.samples || spent >= effort.limit {
                let name = format!("{kernel}.{class}");
                return tell(report, name, &runs, outcome);
            }
        }
    }
}

/// Writes the numbers of a kernel.
fn tell(
    report: &mut Report,
    name: String,
    runs: &[KernelRun],
    outcome: KernelOutcome,
) -> Result<(), Box<dyn Error>> {
    let mut cells = vec![name.clone()];
    let metrics = [("time", "ns"), ("waits", "ns"), ("messages", "messages")];
    for (number, (metric, unit)) in metrics.into_iter().enumerate() {
        let value = |run: &KernelRun| [run.time_ns, run.waited_ns, run.messages][number];
        let samples: Vec<f64> = runs.iter().map(value).collect();
        let Some(summary) = SampleSummary::of_costs(&samples) else { continue };
        report.row(Row::new("npb", 0, metric, unit, summary).of_variant(name.clone()))?;
        let is_time = unit == "ns";
        cells.push(if is_time { time(summary.min) } else { summary.min.to_string() });
    }
    cells.extend(outcome.texts());
    report.line(cells);
    Ok(())
}
