//! Several origins of one target, and several targets of one origin (`[OneSided04]` §3.4.4, §3.4.7), in epochs of post, start, complete
//! and wait; beside the same by messages, in turn with them.

use core::error::Error;
use std::time::Instant;

use strait::{Assert, Endpoint, Op, Window, WindowDesign};

use super::epoch;
use super::memory::Memory;
use super::report::Report;
use super::sampling::{Effort, Sample};
use super::stage::Stage;
use super::stats;
use super::window::{BURST, tell, window};

/// Epochs in one sample.
const ROUNDS: u32 = 32;

/// The one of whom the others are origins or targets.
const ONE: u32 = 0;

/// What the many are to the one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Many {
    Origins,
    Targets,
}

/// What an origin does to each of its targets in an epoch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Work {
    Nothing,
    /// A burst of puts of so many bytes.
    Puts(usize),
    /// A burst of accumulates of so many bytes, all to the same place.
    Accumulates(usize),
}

impl Work {
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

/// How many measurements [`run`] takes of one kind of work.
pub(super) fn steps(stage: &Stage<'_>, many: &[Many]) -> usize {
    let ranks = stage.ranks() as usize;
    if ranks > 2 { many.len() * (ranks - 1) } else { 0 }
}

/// Measures `work` with one, two and so on of `many`. All ranks call it; with two it does nothing.
pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    many: &[Many],
    work: Work,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    if stage.ranks() <= 2 {
        return Ok(());
    }
    let places = stage.ranks() as usize * BURST;
    let bytes = places * work.bytes().max(8);
    let of = |design| window(stage, Memory::Segment, bytes, design);
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
            let bench = if work == Work::Nothing { "sync" } else { "crowd" };
            tell(stage, report, bench, name, work.bytes(), Some("send_recv"), &samples)?;
        }
    }
    stage.barrier()?;
    windows.into_iter().try_for_each(Window::free)?;
    Ok(())
}

/// One rank among them.
struct Crowd<'a> {
    endpoint: Endpoint<'a>,
    /// By messages, and by RDMA.
    windows: &'a [Window<'a>; 2],
    /// All but the one.
    others: Vec<u32>,
    is_origin: bool,
    takes_part: bool,
    work: Work,
    numbers: Vec<u64>,
}

impl Crowd<'_> {
    /// Samples, of the one.
    fn measure(&self, stage: &Stage<'_>, effort: Effort) -> Result<Vec<Sample>, Box<dyn Error>> {
        let mut samples = Vec::new();
        // All ranks take as many.
        for _ in 0..effort.samples.min(MOST) {
            let [bare, work] = [self.time(stage, 0)?, self.time(stage, 1)?];
            if stage.rank() == ONE {
                samples.push(Sample { bare, work });
            }
        }
        Ok(samples)
    }

    /// Nanoseconds of one epoch, up to the end of all for everybody.
    fn time(&self, stage: &Stage<'_>, window: usize) -> Result<f64, Box<dyn Error>> {
        stage.barrier()?;
        let start = Instant::now();
        if self.takes_part {
            (0..ROUNDS).try_for_each(|_| self.epoch(&self.windows[window]))?;
        }
        stage.barrier()?;
        Ok(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS))
    }

    /// Those with whom this rank has epochs.
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
                    Work::Nothing => {}
                    Work::Puts(_) => {
                        for at in 0..BURST {
                            let place = (first + at) * bytes;
                            puts.push(scope.rput(window, &self.numbers, target, place)?);
                        }
                    }
                    Work::Accumulates(_) => (0..BURST)
                        .try_for_each(|_| window.accumulate(&self.numbers, target, 0, Op::Sum))?,
                }
            }
            epoch::complete(window, &mut puts)
        })
    }
}

/// Most samples: all ranks take as many, whatever the time.
const MOST: usize = 40;
