//! `strait bench lock`: passive synchronisation with each lock design, by the figures of
//! `[OneSided04]` §4.4 and `[HybridLock09]` §5.
//!
//! All figures of a design are measured together, because what a design needs stays. The progress
//! thread exists until the job ends, so the designs that start it come last.

mod contention;
mod delay;
mod lab;
mod migration;
mod overhead;
mod ring;
mod target;
mod tasks;

use core::error::Error;
use core::time::Duration;

use clap::Args;
use strait::{LockDesign, topology};

use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::computation::Processor;
use crate::measure::report::{Report, Row};
use crate::measure::stage::BenchStage;
use lab::{Lab, Point};

/// Locks of windows in each design: overhead, delay, contention and migration; best with four
/// ranks
#[derive(Args, Debug)]
pub(crate) struct LockBench {
    /// Designs, such as mcs,hybrid [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_design)]
    design: Vec<LockDesign>,
    #[command(flatten)]
    common: Common,
}

/// The designs, in the order of their measurement.
const DESIGNS: [LockDesign; 7] = [
    LockDesign::TwoSided,
    LockDesign::TestAndSet,
    LockDesign::Mcs,
    LockDesign::Hybrid,
    LockDesign::ThreadPerWindow,
    LockDesign::Event,
    LockDesign::Thread,
];

/// Maximum time of a measurement. There are about a hundred: the points of all figures, for each
/// design.
const LIMIT: Duration = Duration::from_millis(250);

type Figure = fn(&Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>>;

const FIGURES: [(&str, Figure); 8] = [
    ("overhead", overhead::points),
    ("target computes", target::computation),
    ("computing threads", target::threads),
    ("delay", delay::points),
    ("contention", contention::points),
    ("ring", ring::points),
    ("migration", migration::points),
    ("tasks", tasks::points),
];

impl LockBench {
    fn designs(&self) -> Vec<LockDesign> {
        let is_asked = |design: &LockDesign| self.design.is_empty() || self.design.contains(design);
        DESIGNS.into_iter().filter(is_asked).collect()
    }
}

impl Benchmark for LockBench {
    fn common(&self) -> Common {
        self.common
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(FIGURES.len() * self.designs().len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let designs = self.designs();
        let names = designs.iter().map(|design| design.name());
        report.columns(&["lock"].into_iter().chain(names).collect::<Vec<_>>());
        let _seat = BoundRank::take(stage)?;
        let processor = Processor::new();
        let mut lines: Vec<(String, Vec<String>)> = Vec::new();
        for (column, design) in designs.iter().enumerate() {
            let lab = Lab::new(stage, self.common.effort_within(LIMIT), processor, *design)?;
            for (name, figure) in FIGURES {
                // A device without atomics has only lock managers.
                let has_design = lab.windows[0].lock_design() == *design && lab.shows(name);
                for point in if has_design { figure(&lab)? } else { Vec::new() } {
                    let Point { ref case, metric, unit, figures } = point;
                    let case = format!("{name}: {case}");
                    let row = Row::new("lock", 0, metric, unit, figures);
                    report.row(row.of_variant(format!("{case}, {design}")))?;
                    let case = if metric == "time" { case } else { format!("{case}, {metric}") };
                    let at = lines.iter().position(|(known, _)| *known == case);
                    let at = at.unwrap_or_else(|| {
                        lines.push((case, vec![String::new(); designs.len()]));
                        lines.len() - 1
                    });
                    lines[at].1[column] = point.cell();
                }
                report.step();
            }
            lab.close()?;
        }
        for (case, cells) in lines {
            report.line([vec![case], cells].concat());
        }
        Ok(())
    }
}

fn parse_design(text: &str) -> Result<LockDesign, String> {
    let names = || LockDesign::ALL.map(LockDesign::name).join(", ");
    text.parse().map_err(|()| format!("expected {}", names()))
}

/// A guard that binds a rank to the processor of its number, so that neighbours have one each as
/// far as there are enough. Its drop ends the binding.
struct BoundRank(usize);

impl BoundRank {
    fn take(stage: &BenchStage<'_>) -> Result<Self, Box<dyn Error>> {
        let before = topology::allowed_cpus()?;
        topology::pin_to(stage.cpus[stage.rank() as usize % stage.cpus.len()])?;
        Ok(Self(before[0]))
    }
}

impl Drop for BoundRank {
    fn drop(&mut self) {
        // The rank returns to its processor. If this fails, the bare line is slower than it could
        // be.
        drop(topology::pin_to(self.0));
    }
}
