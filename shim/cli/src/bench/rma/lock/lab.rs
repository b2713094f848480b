//! The windows of one lock design, and how the figures of the design are measured with them.

use core::error::Error;
use core::time::Duration;

use strait::{Assert, LockDesign, LockType, Rank, Window};

use crate::measure::computation::Processor;
use crate::measure::in_turn;
use crate::measure::sampling::Effort;
use crate::measure::stage::BenchStage;
use crate::measure::stats::{self, SampleSummary, time};

use LockDesign::ThreadPerWindow;

/// Size of a part and of the data of a put, in bytes.
const PART: usize = 2 * DATA;
pub(super) const DATA: usize = 1024;

/// Target time of the repetitions in a sample.
pub(super) const TARGET: Duration = Duration::from_micros(200);

/// Number of locks that are taken in sequence before any is released: reading the clock takes
/// longer than one of them.
pub(super) const BATCH: usize = 16;

/// One point of a figure, of one design.
pub(super) struct Point {
    pub(super) case: String,
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    pub(super) figures: SampleSummary,
}

impl Point {
    pub(super) fn time(case: impl Into<String>, figures: SampleSummary) -> Self {
        Self { case: case.into(), metric: "time", unit: "ns", figures }
    }

    /// Returns the point as text for the table.
    pub(super) fn cell(&self) -> String {
        match self.unit {
            "ns" => time(self.figures.p50),
            _ => stats::ratio(self.figures.p50),
        }
    }
}

/// The windows of one design, and their measurement.
pub(super) struct Lab<'a> {
    pub(super) stage: &'a BenchStage<'a>,
    pub(super) effort: Effort,
    pub(super) processor: Processor,
    pub(super) design: LockDesign,
    /// The windows, one for each rank and at least one for each lock of a batch.
    pub(super) windows: Vec<Window<'a>>,
}

impl<'a> Lab<'a> {
    pub(super) fn new(
        stage: &'a BenchStage<'a>,
        effort: Effort,
        processor: Processor,
        design: LockDesign,
    ) -> Result<Self, Box<dyn Error>> {
        let all: Vec<Rank> = (0..stage.ranks()).collect();
        let group = stage.endpoint.group(&all)?;
        let count = if design == ThreadPerWindow { all.len() } else { all.len().max(BATCH) };
        let windows = (0..count).map(|_| Window::builder(&group).options(design).allocate(PART));
        let windows = windows.collect::<Result<_, _>>()?;
        Ok(Self { stage, effort, processor, design, windows })
    }

    /// Returns whether a figure says anything about this design. A rank with a polling thread for
    /// each of many windows leaves its processor to none of them, so only the paper's figure of
    /// several windows counts.
    pub(super) fn shows(&self, figure: &str) -> bool {
        self.design != ThreadPerWindow || figure == "contention"
    }

    pub(super) fn close(self) -> Result<(), strait::Error> {
        self.stage.barrier()?;
        self.windows.into_iter().try_for_each(Window::free)
    }

    /// Returns the next rank on rank 0's node, and a rank on another node, if possible with another
    /// processor.
    pub(super) fn targets(&self) -> impl Iterator<Item = (&'static str, Rank)> {
        let near = ("on the node", self.neighbours().next());
        let far = ("between nodes", self.unknown_peers().next());
        [near, far].into_iter().filter_map(|(place, rank)| rank.map(|rank| (place, rank)))
    }

    /// Returns the other ranks of rank 0's node.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = Rank> {
        let world = self.stage.endpoint.world();
        (1..self.stage.ranks()).filter(|rank| world.node_of(*rank) == world.node_of(0))
    }

    /// Returns the ranks of other nodes, first those with other processors than rank 0.
    pub(super) fn unknown_peers(&self) -> impl Iterator<Item = Rank> {
        let world = self.stage.endpoint.world();
        let is_it = move |rank: &Rank| world.node_of(*rank) != world.node_of(0);
        let of =
            move |odd| (1..self.stage.ranks()).filter(move |rank| rank % 2 == odd).filter(is_it);
        of(1).chain(of(0))
    }

    /// Returns the number of rounds that take the target time, the same on every rank.
    pub(super) fn rounds(
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
    pub(super) fn sample<const N: usize>(
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
pub(super) fn lock_unlock(
    window: &Window<'_>,
    target: Rank,
    rounds: u64,
) -> Result<(), strait::Error> {
    for _ in 0..rounds {
        window.lock(LockType::Exclusive, target, Assert::NONE)?;
        window.unlock(target)?;
    }
    Ok(())
}

/// Acquires an exclusive lock. The lock is held when this returns.
pub(super) fn acquire(window: &Window<'_>, target: Rank) -> Result<(), strait::Error> {
    window.lock(LockType::Exclusive, target, Assert::NONE)?;
    window.flush(target)
}

/// Returns the time of one of `rounds` rounds in nanoseconds.
pub(super) fn per(took: Duration, rounds: u64) -> f64 {
    took.as_nanos() as f64 / rounds.max(1) as f64
}
