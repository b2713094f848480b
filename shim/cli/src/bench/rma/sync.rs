//! `strait bench sync`: the synchronisation of windows, beside the bare line at the same moment.

use core::error::Error;

use clap::Args;
use strait::{Assert, Window};

use super::crowd::{self, Many, OriginWork};
use super::window::tell;
use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::line::{Bounce, LineTransfer};
use crate::measure::report::Report;
use crate::measure::sampling::{Batch, Effort, measure};
use crate::measure::stage::BenchStage;

/// Fence, and post, start, complete and wait, between the ranks of a pair
#[derive(Args, Debug)]
pub(crate) struct SyncBench {
    #[command(flatten)]
    common: Common,
}

impl Benchmark for SyncBench {
    fn common(&self) -> Common {
        self.common
    }

    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(WindowPattern::ALL.len() + crowd::steps(stage, &BOTH))
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.common.effort(), report)
    }
}

const BOTH: [Many; 2] = [Many::Origins, Many::Targets];

/// Repeated synchronisation with the partner, by one method.
struct Synchronise<'a> {
    window: &'a Window<'a>,
    partner: u32,
    way: WindowPattern,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WindowPattern {
    Fence,
    /// Both ranks post, start, complete and wait.
    Both,
    /// One rank is the origin, the other the target.
    ByTurns,
    /// One rank is the origin of a put of 8 bytes, the other the target. Then they change roles.
    PingPong,
}

impl WindowPattern {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Fence, "fence, empty"),
        (Self::Both, "post start complete wait, empty, both ways"),
        (Self::ByTurns, "post start complete wait, empty, one way"),
        (Self::PingPong, "put 8 B, ping-pong, one way"),
    ];
}

impl Synchronise<'_> {
    fn access(&self) -> Result<(), strait::Error> {
        self.window.start(&[self.partner], Assert::NONE)?;
        if self.way == WindowPattern::PingPong {
            self.window.put(&[1_u64], self.partner, 0)?;
        }
        self.window.complete()
    }

    fn expose(&self) -> Result<(), strait::Error> {
        self.window.post(&[self.partner], Assert::NONE)?;
        self.window.wait()
    }

    fn round(&self, leads: bool) -> Result<(), strait::Error> {
        match self.way {
            WindowPattern::Fence => self.window.fence(Assert::NONE),
            WindowPattern::Both => {
                self.window.post(&[self.partner], Assert::NONE)?;
                self.access()?;
                self.window.wait()
            }
            WindowPattern::ByTurns | WindowPattern::PingPong if leads => {
                self.access().and_then(|()| self.expose())
            }
            WindowPattern::ByTurns | WindowPattern::PingPong => {
                self.expose().and_then(|()| self.access())
            }
        }
    }
}

impl Batch for Synchronise<'_> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| self.round(true))
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| self.round(false))
    }
}

fn run(stage: &BenchStage<'_>, effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    report.columns(&["synchronisation", "min", "p50", "p99", "bare line", "× line"]);
    let pair = [stage.rank().min(stage.partner), stage.rank().max(stage.partner)];
    let group = stage.endpoint.group(&pair)?;
    let window = Window::builder(&group).allocate(64)?;
    let partner = 1 - group.place();
    for (way, name) in WindowPattern::ALL {
        let mut bounce = stage.lane.map(|lane| Bounce::new(lane, LineTransfer::Store));
        let bare = bounce.as_mut().map(|bounce| bounce as &mut dyn Batch);
        let mut work = Synchronise { window: &window, partner, way };
        let mut samples = measure(stage, effort, bare, &mut work)?;
        for sample in &mut samples {
            sample.bare /= 2.0;
            if matches!(way, WindowPattern::ByTurns | WindowPattern::PingPong) {
                sample.work /= 2.0;
            }
        }
        tell(stage, report, "sync", name, 0, stage.lane.map(|_| "line"), &samples)?;
    }
    window.free()?;
    crowd::run(stage, effort, &BOTH, OriginWork::Nothing, report)
}
