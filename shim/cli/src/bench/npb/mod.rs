//! `strait bench npb`: kernels of the NAS Parallel Benchmarks ([RdmaChannel04] §7, [SpecRndv09]
//! §4.3) with their communication. Their results are compared with NPB's published values.
//!
//! The definitions are NPB's: D. Bailey et al., *The NAS Parallel Benchmarks*, RNR-94-007, and the
//! verification values of its reference implementation, classes S and W. The decomposition is our
//! own where a page of a kernel says so.

mod cg;
mod ep;
mod is;
mod kernel;
mod mg;
mod random;

use core::error::Error;
use core::time::Duration;
use std::ffi::OsString;
use std::time::Instant;

use clap::Args;
use strait::{Op, Rendezvous};
use strait_core::ring::Design;

use super::benchmark::{BenchGroup, Benchmark, entry};
use super::options::Common;
use crate::measure::report::{Report, Row};
use crate::measure::stage::BenchStage;
use crate::measure::stats::{SampleSummary, time};
use kernel::{KernelOutcome, NpbClass, NpbKernel, Peers};

/// Runs a kernel with all ranks. Every rank returns the same outcome.
fn run(
    kernel: NpbKernel,
    peers: &Peers<'_>,
    class: NpbClass,
) -> Result<KernelOutcome, strait::Error> {
    match kernel {
        NpbKernel::Is => is::run(peers, class),
        NpbKernel::Cg => cg::run(peers, class),
        NpbKernel::Mg => mg::run(peers, class),
        NpbKernel::Ep => ep::run(peers, class),
    }
}

/// The bench of this folder.
pub(super) const GROUP: BenchGroup = BenchGroup {
    name: "npb",
    about: "kernels of the NAS Parallel Benchmarks",
    benches: &[entry::<NpbBench>("npb")],
};

/// IS, CG, MG and EP of the NAS Parallel Benchmarks, verified by NPB's values
#[derive(Args, Debug)]
pub(crate) struct NpbBench {
    /// Kernels
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    #[arg(default_value = "is,cg,mg,ep")]
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
        set.map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        if !stage.ranks().is_power_of_two() {
            return Err(
                format!("{} ranks: NPB's kernels take a power of two", stage.ranks()).into()
            );
        }
        Ok(self.kernel.len() * self.class.len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        report.columns(&["kernel", "time", "result", "NPB's value"]);
        for kernel in &self.kernel {
            for class in &self.class {
                self.one(stage, report, *kernel, *class)?;
                report.step();
            }
        }
        Ok(())
    }
}

impl NpbBench {
    /// Runs a kernel until its time is over, at least once.
    fn one(
        &self,
        stage: &BenchStage<'_>,
        report: &mut Report,
        kernel: NpbKernel,
        class: NpbClass,
    ) -> Result<(), Box<dyn Error>> {
        let effort = self.common.effort();
        let peers = Peers::new(stage.endpoint);
        let (mut times, mut spent) = (Vec::new(), Duration::ZERO);
        loop {
            stage.barrier()?;
            let start = Instant::now();
            let outcome = run(kernel, &peers, class)?;
            // The slowest rank counts, so that every rank stops after the same run.
            let mut elapsed = [start.elapsed().as_nanos() as f64];
            stage.endpoint.allreduce(&mut elapsed, Op::Max)?;
            if !outcome.is_verified() {
                return Err(format!("{kernel}.{class}: {outcome}").into());
            }
            times.push(elapsed[0]);
            spent += Duration::from_nanos(elapsed[0] as u64);
            if times.len() >= effort.samples || spent >= effort.limit {
                let Some(figures) = SampleSummary::of_costs(&times) else { return Ok(()) };
                let name = format!("{kernel}.{class}");
                report.row(Row::new("npb", 0, "time", "ns", figures).of_variant(name.clone()))?;
                let [found, expected] = outcome.texts();
                report.line([name, time(figures.min), found, expected]);
                return Ok(());
            }
        }
    }
}
