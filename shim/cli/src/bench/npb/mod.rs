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
use kernel::{KernelOutcome, NpbClass, NpbKernel};
use peers::{Peers, Traffic};

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
        NpbKernel::Lu => lu::run(peers, class),
        NpbKernel::Bt => bt::run(peers, class),
        NpbKernel::Radix => radix::run(peers, class),
    }
}

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
        let ranks = stage.ranks();
        match self.kernel.iter().find(|kernel| !kernel.takes(ranks)) {
            Some(kernel) => Err(format!("{ranks} ranks: {kernel} takes a power of two").into()),
            None => Ok(self.kernel.len() * self.class.len()),
        }
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        report.columns(&["kernel", "time", "waits", "messages", "result", "expected"]);
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
        let (mut runs, mut spent) = (Vec::new(), Duration::ZERO);
        loop {
            let (run, outcome) = KernelRun::measure(stage, kernel, class)?;
            if !outcome.is_verified() {
                return Err(format!("{kernel}.{class}: {outcome}").into());
            }
            runs.push(run);
            spent += Duration::from_nanos(run.time_ns as u64);
            if runs.len() >= effort.samples || spent >= effort.limit {
                let name = format!("{kernel}.{class}");
                return tell(report, name, &runs, outcome);
            }
        }
    }
}

/// A run of a kernel, of which every rank has the same numbers.
#[derive(Clone, Copy, Debug)]
struct KernelRun {
    /// The time of the slowest rank.
    time_ns: f64,
    /// The average time of a rank in calls that wait.
    waited_ns: f64,
    /// Messages of all ranks, without those of collective operations.
    messages: f64,
}

impl KernelRun {
    fn measure(
        stage: &BenchStage<'_>,
        kernel: NpbKernel,
        class: NpbClass,
    ) -> Result<(Self, KernelOutcome), Box<dyn Error>> {
        let peers = Peers::new(stage.endpoint);
        stage.barrier()?;
        let start = Instant::now();
        let outcome = run(kernel, &peers, class)?;
        let mut slowest = [start.elapsed().as_nanos() as f64];
        let Traffic { messages, waited_ns } = peers.traffic();
        let mut sums = [waited_ns, messages as f64];
        stage.endpoint.allreduce(&mut slowest, Op::Max)?;
        stage.endpoint.allreduce(&mut sums, Op::Sum)?;
        let [waited_ns, messages] = sums;
        let waited_ns = waited_ns / f64::from(stage.ranks());
        Ok((Self { time_ns: slowest[0], waited_ns, messages }, outcome))
    }

    const fn values(&self) -> [f64; 3] {
        [self.time_ns, self.waited_ns, self.messages]
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
        let samples: Vec<f64> = runs.iter().map(|run| run.values()[number]).collect();
        let Some(summary) = SampleSummary::of_costs(&samples) else { continue };
        report.row(Row::new("npb", 0, metric, unit, summary).of_variant(name.clone()))?;
        let is_time = unit == "ns";
        cells.push(if is_time { time(summary.min) } else { summary.min.to_string() });
    }
    cells.extend(outcome.texts());
    report.line(cells);
    Ok(())
}

#[cfg(test)]
mod tests {
    use strait::World;

    use super::*;

    /// Runs a kernel with each of these numbers of ranks.
    fn verify(kernel: NpbKernel, ranks: &[u32]) {
        for &ranks in ranks {
            let outcomes = World::run_in_process(ranks, |world| {
                run(kernel, &Peers::new(world.endpoint()), NpbClass::S)
            });
            for outcome in outcomes.unwrap() {
                assert!(outcome.is_verified(), "{kernel}, {ranks} ranks: {outcome}");
            }
        }
    }

    #[test]
    fn lu_is_verified_with_any_number_of_ranks() {
        verify(NpbKernel::Lu, &[1, 3, 4, 7]);
    }

    #[test]
    fn bt_is_verified_with_any_number_of_ranks() {
        verify(NpbKernel::Bt, &[1, 3, 4, 7]);
    }

    #[test]
    fn radix_is_verified_with_any_number_of_ranks() {
        verify(NpbKernel::Radix, &[1, 2, 3, 4]);
    }
}
