//! `strait bench lock`: passive synchronisation with each lock design, by the figures of
//! `[OneSided04]` §4.4 and `[HybridLock09]` §5.
//!
//! All figures of a design are measured together, because what a design needs stays. A thread that
//! serves lock managers exists until the job ends, so the designs that have one come last.

mod contention;
mod delay;
mod migration;
mod overhead;
mod ring;
mod target;
mod tasks;

use core::error::Error;
use core::time::Duration;

use clap::Args;
use strait::{Assert, LockDesign, LockType, Rank, Window, topology};

use super::Common;
use super::computation::Processor;
use super::in_turn;
use super::report::{Report, Row};
use super::sampling::Effort;
use super::stage::BenchStage;
use super::stats::{self, SampleSummary, time};

#[derive(Args, Debug)]
pub(super) struct Locks {
    /// Designs, such as mcs,hybrid [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_design)]
    design: Vec<LockDesign>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// The designs, in the order of their measurement.
const DESIGNS: [LockDesign; 6] = [
    LockDesign::TwoSided,
    LockDesign::TestAndSet,
    LockDesign::Mcs,
    LockDesign::Hybrid,
    LockDesign::Event,
    LockDesign::Thread,
];

/// Size of a part and of the data of a put, in bytes.
const PART: usize = 2 * DATA;
const DATA: usize = 1024;

/// Target time of the repetitions in a sample.
const TARGET: Duration = Duration::from_micros(200);

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

/// One point of a figure, of one design.
struct Point {
    case: String,
    metric: &'static str,
    unit: &'static str,
    figures: SampleSummary,
}

impl Point {
    fn time(case: impl Into<String>, figures: SampleSummary) -> Self {
        Self { case: case.into(), metric: "time", unit: "ns", figures }
    }

    /// Returns the point as text for the table.
    fn cell(&self) -> String {
        match self.unit {
            "ns" => time(self.figures.p50),
            _ => stats::ratio(self.figures.p50),
        }
    }
}

impl Locks {
    fn designs(&self) -> Vec<LockDesign> {
        let is_asked = |design: &LockDesign| self.design.is_empty() || self.design.contains(design);
        DESIGNS.into_iter().filter(is_asked).collect()
    }

    /// Number of measurements.
    pub(super) fn steps(&self) -> usize {
        FIGURES.len() * self.designs().len()
    }

    /// Runs the bench on each rank.
    pub(super) fn run(
        &self,
        stage: &BenchStage<'_>,
        report: &mut Report,
    ) -> Result<(), Box<dyn Error>> {
        let designs = self.designs();
        let names = designs.iter().map(|design| design.name());
        report.columns(&["lock"].into_iter().chain(names).collect::<Vec<_>>());
        let _seat = BoundRank::take(stage)?;
        let processor = Processor::new();
        let mut lines: Vec<(String, Vec<String>)> = Vec::new();
        for (column, design) in designs.iter().enumerate() {
            let lab = Lab::new(stage, self.common.effort(), processor, *design)?;
            for (name, figure) in FIGURES {
                // A device without atomics has only lock managers.
                let has_design = lab.windows[0].lock_design() == *design;
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

/// The windows of one design, and their measurement.
struct Lab<'a> {
    stage: &'a BenchStage<'a>,
    effort: Effort,
    processor: Processor,
    design: LockDesign,
    /// The windows, one for each rank and at least one for each lock of a batch.
    windows: Vec<Window<'a>>,
}

impl<'a> Lab<'a> {
    fn new(
        stage: &'a BenchStage<'a>,
        effort: Effort,
        processor: Processor,
        design: LockDesign,
    ) -> Result<Self, Box<dyn Error>> {
        let all: Vec<Rank> = (0..stage.ranks()).collect();
        let group = stage.endpoint.group(&all)?;
        let count = all.len().max(overhead::BATCH);
        let windows = (0..count).map(|_| Window::builder(&group).options(design).allocate(PART));
        let windows = windows.collect::<Result<_, _>>()?;
        Ok(Self { stage, effort, processor, design, windows })
    }

    fn close(self) -> Result<(), strait::Error> {
        self.stage.barrier()?;
        self.windows.into_iter().try_for_each(Window::free)
    }

    /// Returns the next rank on rank 0's node, and a rank on another node, if possible with another
    /// processor.
    fn targets(&self) -> impl Iterator<Item = (&'static str, Rank)> {
        let near = ("on the node", self.neighbours().next());
        let far = ("between nodes", self.unknown_peers().next());
        [near, far].into_iter().filter_map(|(place, rank)| rank.map(|rank| (place, rank)))
    }

    /// Returns the other ranks of rank 0's node.
    fn neighbours(&self) -> impl Iterator<Item = Rank> {
        let world = self.stage.endpoint.world();
        (1..self.stage.ranks()).filter(|rank| world.node_of(*rank) == world.node_of(0))
    }

    /// Returns the ranks of other nodes, first those with other processors than rank 0.
    fn unknown_peers(&self) -> impl Iterator<Item = Rank> {
        let world = self.stage.endpoint.world();
        let is_it = move |rank: &Rank| world.node_of(*rank) != world.node_of(0);
        let of =
            move |odd| (1..self.stage.ranks()).filter(move |rank| rank % 2 == odd).filter(is_it);
        of(1).chain(of(0))
    }

    /// Returns the number of rounds that take the target time, the same on every rank.
    fn rounds(
        &self,
        target: Duration,
        run: impl FnMut(u64) -> Result<(), strait::Error>,
    ) -> Result<u64, strait::Error> {
        match self.effort.rounds {
            Some(rounds) => Ok(rounds),
            None => in_turn::rounds(self.stage, target, run),
        }
    }

    /// Takes samples of several figures. All ranks start each at once. A rank without work in it
    /// waits in the library.
    fn sample<const N: usize>(
        &self,
        mut once: impl FnMut() -> Result<[f64; N], Box<dyn Error>>,
    ) -> Result<[SampleSummary; N], Box<dyn Error>> {
        let samples = in_turn::measure(self.stage, self.effort, 1, |_, _| {
            self.stage.endpoint.barrier()?;
            once()
        })?;
        let of = |at: usize| {
            let numbers = samples[0].iter().map(|sample| sample[at]).collect::<Vec<_>>();
            SampleSummary::of_costs(&numbers).ok_or("no sample was taken")
        };
        let mut figures = [SampleSummary { min: 0.0, p50: 0.0, p99: 0.0, samples: 0 }; N];
        for (at, figures) in figures.iter_mut().enumerate() {
            *figures = of(at)?;
        }
        Ok(figures)
    }
}

/// Performs `rounds` exclusive locks and unlocks.
fn lock_unlock(window: &Window<'_>, target: Rank, rounds: u64) -> Result<(), strait::Error> {
    for _ in 0..rounds {
        window.lock(LockType::Exclusive, target, Assert::NONE)?;
        window.unlock(target)?;
    }
    Ok(())
}

/// Acquires an exclusive lock. The lock is held when this returns.
fn acquire(window: &Window<'_>, target: Rank) -> Result<(), strait::Error> {
    window.lock(LockType::Exclusive, target, Assert::NONE)?;
    window.flush(target)
}

/// Returns the time of one of `rounds` rounds in nanoseconds.
fn per(took: Duration, rounds: u64) -> f64 {
    took.as_nanos() as f64 / rounds.max(1) as f64
}
