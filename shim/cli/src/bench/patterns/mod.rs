//! `strait bench patterns`: what programs do with messages and windows, by default settings.
//!
//! The rows mean the same as those of `benches/patterns`, which compares with other MPIs in C
//! (`docs/patterns.md`). Each batch has the bare line before and after it, and counts only if the
//! two agree; near and far processors are separate rows.

mod incast;
mod lined;
mod one_sided;
mod overlap;
mod ping_pong;
mod streams;
mod table;
mod tags;

use core::error::Error;

use clap::{Args, ValueEnum};

use super::benchmark::{BenchGroup, Benchmark, entry};
use super::options::Common;
use crate::measure::report::Report;
use crate::measure::stage::BenchStage;
use table::PatternRow;

/// The bench of this folder.
pub(super) const GROUP: BenchGroup = BenchGroup {
    name: "patterns",
    about: "what programs do with messages and windows",
    benches: &[entry::<PatternsBench>("patterns")],
};

/// Patterns of messages and windows by default settings, near and far: requests, wildcards,
/// windows, streams, bandwidth, overlap and one-sided operations
#[derive(Args, Debug)]
pub(crate) struct PatternsBench {
    /// Groups of patterns [default: all but cliff; with more than two ranks incast]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    group: Vec<PatternGroup>,
    #[command(flatten)]
    common: Common,
}

/// A group of patterns.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum PatternGroup {
    /// One message there and back: blocking, by requests, posted before, any source
    PingPong,
    /// Exchanges, windows of 64 messages, and tags in reverse order
    Requests,
    /// Blocking sends in one direction
    Streams,
    /// Streams of growing length
    Cliff,
    /// Many messages to one rank, which receives from any
    Incast,
    /// Large messages: windows, and there and back
    Bandwidth,
    /// Computation that a large message hides
    Overlap,
    /// Operations on a window, and its synchronisation
    OneSided,
}

impl PatternsBench {
    /// Returns the groups to measure.
    fn groups(&self) -> Vec<PatternGroup> {
        let all = PatternGroup::value_variants().iter().copied();
        match () {
            () if !self.group.is_empty() => self.group.clone(),
            () if self.common.ranks > 2 => vec![PatternGroup::Incast],
            () => all.filter(|group| *group != PatternGroup::Cliff).collect(),
        }
    }
}

impl PatternGroup {
    /// Returns the patterns of one leader and one follower.
    fn patterns(self) -> &'static [PatternRow] {
        match self {
            Self::PingPong => &ping_pong::PATTERNS,
            Self::Requests => &tags::PATTERNS,
            Self::Streams => &streams::STREAMS,
            Self::Cliff => &streams::CLIFF,
            Self::Incast => &incast::PATTERNS,
            Self::Bandwidth => &table::BANDWIDTH,
            Self::OneSided => &one_sided::PATTERNS,
            Self::Overlap => &[],
        }
    }
}

impl Benchmark for PatternsBench {
    fn common(&self) -> Common {
        self.common
    }

    fn needs_two_processors(&self) -> bool {
        true
    }

    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        if stage.ranks() > 2 {
            return Ok(incast::SIZES.len());
        }
        let steps = |group: PatternGroup| match group {
            PatternGroup::Overlap => overlap::steps(),
            group => group.patterns().len(),
        };
        Ok(self.groups().into_iter().map(steps).sum())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let effort = self.common.effort();
        if stage.ranks() > 2 {
            return match self.groups()[..] {
                [PatternGroup::Incast] => incast::many(stage, effort, report),
                // The other ranks end with the job.
                _ if !stage.reports() => Ok(()),
                _ => Err("with more than two ranks the only group is incast".into()),
            };
        }
        report.columns(&table::COLUMNS);
        let window = one_sided::window(stage)?;
        for group in self.groups() {
            if group == PatternGroup::Overlap {
                overlap::run(stage, effort, report)?;
            }
            for pattern in group.patterns() {
                let mut work = (pattern.make)(stage, &window, pattern)?;
                let batches = lined::measure(stage, effort, pattern.operations, &mut *work)?;
                table::tell(report, pattern.name, pattern.bytes, pattern.unit, &batches)?;
            }
        }
        stage.barrier()?;
        Ok(window.free()?)
    }
}
