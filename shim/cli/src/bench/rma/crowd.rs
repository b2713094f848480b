//! Several origins of one target, and several targets of one origin (`[OneSided04]` §3.4.4,
//! §3.4.7).
//!
//! The operations run in epochs of post, start, complete and wait. The same work by messages
//! alternates with them.

use core::error::Error;
use std::time::Instant;

use strait::{Assert, Endpoint, Op, Window, WindowDesign};

use super::epoch;
use super::window::{BURST, tell, window};
use crate::measure::memory::MemoryKind;
use crate::measure::report::Report;
use crate::measure::sampling::{Effort, Sample};
use crate::measure::stage::BenchStage;
use crate::measure::stats;

/// Number of epochs in one sample.
const ROUNDS: u32 = 32;

/// The central rank. The other ranks are its origins or its targets.
const ONE: u32 = 0;

/// The role of the other ranks towards the central rank.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Many {
    Origins,
    Targets,
}

/// The work of an origin at each of its targets in an epoch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OriginWork {
    Nothing,
    /// A burst of puts of this many bytes.
    Puts(usize),
    /// A burst of accumulates of this many bytes, all to the same address.
    Accumulates(usize),
}

impl OriginWork {
    const fn bytes(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Puts(bytes) | Self::Accumulates(bytes) => bytes,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Nothing => "empty".into(),
            Self::Puts(bytes) => format!("put {} × {BURST}", stats::bytes(bytes)),
            Self::Accumulates(bytes) => format!("accumulate {} × {BURST}", stats::bytes(bytes)),
        }
    }
}

/// Returns the number of measurements that [`run`] takes of one kind of work.
pub(super) fn steps(stage: &BenchStage<'_>, many: &[Many]) -> usize {
    let ranks = stage.ranks() as usize;
    if ranks > 2 { many.len() * (ranks - 1) } else { 0 }
}

/// Measures `work` with one, two and more of `many`. All ranks call it. It does nothing with two
/// ranks.
pub(super) fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    many: &[Many],
    work: OriginWork,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    if stage.ranks() <= 2 {
        return Ok(());
    }
    let places = stage.ranks() as usize * BURST;
    let bytes = places * work.bytes().max(8);
    let of = |design| window(stage, MemoryKind::Segment, bytes, design);
    let windows = [of(WindowDesign::SendRecv)?, of(WindowDesign::Rdma)?];
    let numbers = vec![1_u64; work.bytes().div_ceil(8)];
    for &many in many {
        for others in 1..stage.ranks() {
            let place = (stage.rank() <= others).then_some(stage.rank());
            let crowd = Crowd {
                endpoint: stage.endpoint,
                windows: &windows,
                others: (1..=others).collect(),
                is_origin: (place == Some(ONE)) == (many == Many::Targets),
                takes_part: place.is_some(),
                work,
                numbers: numbers.clone(),
            };
            let samples = crowd.measure(stage, effort)?;
            let kind = if many == Many::Origins { "origins" } else { "targets" };
            let name = format!("{others} {kind}, {}", work.name());
            let bench = if work == OriginWork::Nothing { "sync" } else { "crowd" };
            tell(stage, report, bench, name, work.bytes(), Some("send_recv"), &samples)?;
        }
    }
    stage.barrier()?;
    windows.into_iter().try_for_each(Window::free)?;
    Ok(())
}

/// One rank of the group.
struct Crowd<'a> {
    endpoint: Endpoint<'a>,
    /// The window by messages, and the window by RDMA.
    windows: &'a [Window<'a>; 2],
    /// All ranks but the central one.
    others: Vec<u32>,
    is_origin: bool,
    takes_part: bool,
    work: OriginWork,
    numbers: Vec<u64>,
}

impl Crowd<'_> {
    /// Takes samples, on the central rank.
    fn measure(
        &self,
        stage: &BenchStage<'_>,
        effort: Effort,
    ) -> Result<Vec<Sample>, Box<dyn Error>> {
        let mut samples = Vec::new();
        // All ranks take the same number of samples.
        for _ in 0..effort.samples.min(MOST) {
            let [bare, work] = [self.time(stage, 0)?, self.time(stage, 1)?];
            if stage.rank() == ONE {
                samples.push(Sample { bare, work });
            }
        }
        Ok(samples)
    }

    /// Returns the time of one epoch in nanoseconds, until it has ended on all ranks.
    fn time(&self, stage: &BenchStage<'_>, window: usize) -> Result<f64, Box<dyn Error>> {
        stage.barrier()?;
        let start = Instant::now();
        if self.takes_part {
            (0..ROUNDS).try_for_each(|_| self.epoch(&self.windows[window]))?;
        }
        stage.barrier()?;
        Ok(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS))
    }

    /// Returns the ranks with which this rank has epochs.
    fn partners(&self) -> &[u32] {
        if self.endpoint.world().rank() == ONE { &self.others } else { &[ONE] }
    }

    fn epoch(&self, window: &Window<'_>) -> Result<(), strait::Error> {
        if !self.is_origin {
            window.post(self.partners(), Assert::NONE)?;
            return window.wait();
        }
        window.start(self.partners(), Assert::NONE)?;
        let bytes = self.work.bytes();
        let first = self.endpoint.world().rank() as usize * BURST;
        self.endpoint.scope(|scope| {
            let mut puts = Vec::new();
            for &target in self.partners() {
                match self.work {
                    OriginWork::Nothing => {}
                    OriginWork::Puts(_) => {
                        for at in 0..BURST {
                            let place = (first + at) * bytes;
                            puts.push(scope.rput(window, &self.numbers, target, place)?);
                        }
                    }
                    OriginWork::Accumulates(_) => (0..BURST)
                        .try_for_each(|_| window.accumulate(&self.numbers, target, 0, Op::Sum))?,
                }
            }
            epoch::complete(window, &mut puts)
        })
    }
}

/// Maximum number of samples. All ranks take the same number, whatever the time.
const MOST: usize = 40;
