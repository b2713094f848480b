//! The table of patterns: what a pattern is, and its rows in the report.

use core::error::Error;
use std::io;

use strait::Window;

use super::lined::{Cores, LinedBatch};
use super::ping_pong;
use crate::bench::p2p::bandwidth::Windows;
use crate::measure::memory::MemoryKind;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Batch;
use crate::measure::stage::BenchStage;
use crate::measure::stats::{self, SampleSummary, time};

/// The columns of [`tell`].
pub(super) const COLUMNS: [&str; 7] =
    ["pattern", "size", "bare line", "min", "p50", "p99", "× line"];

/// One pattern of a leader and a follower.
pub(super) struct PatternRow {
    pub(super) name: &'static str,
    /// Size of a message or an operation.
    pub(super) bytes: usize,
    /// Number of operations in a round.
    pub(super) operations: u32,
    pub(super) unit: Unit,
    pub(super) make: Make,
}

/// Makes one side of a pattern. Both sides make theirs.
pub(super) type Make = for<'a> fn(
    &'a BenchStage<'a>,
    &'a Window<'a>,
    &PatternRow,
) -> Result<Box<dyn Batch + 'a>, Box<dyn Error>>;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unit {
    /// Time of an operation, measured in nanoseconds.
    Time,
    /// Bytes per second, from the time of a message.
    Bandwidth,
    /// Hidden computation.
    Percent,
}

/// Large messages: windows in one direction, of up to 64 messages and 8 MiB, and there and back.
pub(super) const BANDWIDTH: [PatternRow; 11] = [
    windows("bandwidth", 4 << 10, 64, Unit::Bandwidth),
    windows("bandwidth", 16 << 10, 64, Unit::Bandwidth),
    windows("bandwidth", 64 << 10, 64, Unit::Bandwidth),
    windows("bandwidth", 512 << 10, 16, Unit::Bandwidth),
    windows("bandwidth", 1 << 20, 8, Unit::Bandwidth),
    windows("bandwidth", 4 << 20, 2, Unit::Bandwidth),
    ping_pong::blocking(64 << 10),
    ping_pong::blocking(128 << 10),
    ping_pong::blocking(512 << 10),
    ping_pong::blocking(1 << 20),
    ping_pong::blocking(4 << 20),
];

/// Returns a window of `messages` messages in one direction, with an answer.
pub(super) const fn windows(
    name: &'static str,
    bytes: usize,
    messages: u32,
    unit: Unit,
) -> PatternRow {
    let make: Make = |stage, _, pattern| {
        let windows = Windows::new(stage, pattern.bytes, MemoryKind::Private)?;
        debug_assert_eq!(windows.messages(), pattern.operations as usize);
        Ok(Box::new(windows))
    };
    PatternRow { name, bytes, operations: messages, unit, make }
}

/// Reports one pattern: a row for near and one for far processors.
pub(super) fn tell(
    report: &mut Report,
    name: &str,
    bytes: usize,
    unit: Unit,
    batches: &[LinedBatch],
) -> io::Result<()> {
    for cores in Cores::ALL {
        let here = || batches.iter().filter(|batch| batch.cores() == Some(cores));
        let values: Vec<f64> = here().map(|batch| unit.of(batch.value, bytes)).collect();
        let lines: Vec<f64> = here().map(|batch| batch.mean_line()).collect();
        let summary = match unit {
            Unit::Time => SampleSummary::of_costs(&values),
            Unit::Bandwidth | Unit::Percent => SampleSummary::of_gains(&values),
        };
        let Some((figures, line)) = summary.zip(SampleSummary::of_costs(&lines)) else { continue };
        let variant = format!("{name}, {}", cores.name());
        let row = |metric, unit, figures| {
            Row::new("patterns", bytes, metric, unit, figures).of_variant(variant.clone())
        };
        report.row(row(unit.metric(), unit.name(), figures))?;
        report.row(row("line", "ns", line))?;
        let times = match unit {
            Unit::Time => stats::ratio(figures.p50 / line.p50),
            Unit::Bandwidth | Unit::Percent => String::new(),
        };
        let size = if bytes > 0 { stats::bytes(bytes) } else { String::new() };
        let [min, p50, p99] = [figures.min, figures.p50, figures.p99].map(|value| unit.text(value));
        let line = format!("{} {}", cores.name(), time(line.p50));
        report.line([name.to_owned(), size, line, min, p50, p99, times]);
    }
    report.step();
    Ok(())
}

impl Unit {
    /// Returns the figure of a batch in this unit.
    fn of(self, value: f64, bytes: usize) -> f64 {
        match self {
            Self::Time | Self::Percent => value,
            // Bytes per nanosecond are gigabytes per second.
            Self::Bandwidth => bytes as f64 / value,
        }
    }

    const fn metric(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Bandwidth => "bandwidth",
            Self::Percent => "overlap",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Bandwidth => "GB/s",
            Self::Percent => "%",
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Time => time(value),
            Self::Bandwidth => format!("{value:.1} GB/s"),
            Self::Percent => format!("{value:.0} %"),
        }
    }
}
