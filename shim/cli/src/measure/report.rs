//! The output of rank 0: rows for programs, or a table for readers, and a progress bar meanwhile.

use std::borrow::Cow;
use std::io;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use strait::env;
use strait::hca::DeviceChoice;
use strait::hca::soft::SoftMode;

use super::stage::BenchStage;
use super::stats::{SampleSummary, time};
use crate::output::say;
use crate::table::{TextTable, reader_width};

/// Two figures of the bare line that differ by more than this factor show that the processors were
/// moved.
const MOVED: f64 = 1.3;

/// The name of the transport on a node.
const MEMORY: &str = "shm";

/// One line of `--json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    /// The variant of this row among those of its bench.
    variant: Cow<'static, str>,
    transport: Cow<'static, str>,
    ranks: u32,
    nodes: u32,
    bytes: usize,
    metric: &'static str,
    unit: &'static str,
    min: f64,
    p50: f64,
    p99: f64,
    samples: usize,
}

impl Row {
    /// Makes a row of ranks bound to processors. The report fills in their number.
    pub(crate) fn new(
        bench: &'static str,
        bytes: usize,
        metric: &'static str,
        unit: &'static str,
        summary: SampleSummary,
    ) -> Self {
        let SampleSummary { min, p50, p99, samples } = summary;
        let [min, p50, p99] = [short(min), short(p50), short(p99)];
        let (variant, transport) = (Cow::Borrowed("pinned"), Cow::Borrowed(MEMORY));
        let (ranks, nodes) = (0, 1);
        Self {
            bench,
            variant,
            transport,
            ranks,
            nodes,
            bytes,
            metric,
            unit,
            min,
            p50,
            p99,
            samples,
        }
    }

    /// Returns the row of another variant with the same values.
    pub(crate) fn of_variant(self, variant: impl Into<Cow<'static, str>>) -> Self {
        Self { variant: variant.into(), ..self }
    }

    /// Returns the row over another transport than shared memory.
    pub(crate) fn over(self, device: &DeviceChoice) -> Self {
        Self { transport: device.to_string().into(), ..self }
    }
}

/// Rounds to as many digits as are significant.
fn short(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// The destination of results. On ranks other than 0 it discards them.
#[derive(Debug)]
pub(crate) struct Report {
    speaks: bool,
    json: bool,
    ranks: u32,
    nodes: u32,
    /// The device between nodes.
    network: Option<DeviceChoice>,
    table: TextTable,
    bar: ProgressBar,
}

impl Report {
    /// Makes a report of `steps` measurements.
    pub(crate) fn new(stage: &BenchStage<'_>, json: bool, steps: usize) -> Self {
        let bar = match stage.reports() {
            // The bar goes to standard error, and only where that is a terminal.
            true => ProgressBar::new(steps as u64),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("measuring {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        let table = TextTable::new();
        bar.tick();
        let nodes = stage.endpoint.world().nodes().count();
        // A world does not start with an invalid value.
        let asked = env::hca().ok().flatten();
        let network = (nodes > 1).then(|| asked.unwrap_or(DeviceChoice::Soft(SoftMode::default())));
        Self { speaks: stage.reports(), json, ranks: stage.ranks(), nodes, network, table, bar }
    }

    /// Sets the names of the columns.
    pub(crate) fn columns(&mut self, names: &[&str]) {
        self.table.columns(names);
    }

    /// Adds one line to the table.
    pub(crate) fn line(&mut self, cells: impl Into<Vec<String>>) {
        if self.speaks {
            self.table.line(cells.into());
        }
    }

    /// Writes one row for programs at once.
    pub(crate) fn row(&self, row: Row) -> io::Result<()> {
        if !self.speaks || !self.json {
            return Ok(());
        }
        let is_message = row.transport == MEMORY;
        let transport = match &self.network {
            Some(device) if is_message => device.to_string().into(),
            _ => row.transport,
        };
        let row = Row { ranks: self.ranks, nodes: self.nodes, transport, ..row };
        let line = serde_json::to_string(&row)?;
        self.bar.suspend(|| say(&line))
    }

    /// Records the end of one measurement.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Ends the report with the bare line before and after, as rows or as a sentence below the
    /// table.
    pub(crate) fn finish(
        &mut self,
        before: Option<SampleSummary>,
        after: Option<SampleSummary>,
    ) -> io::Result<()> {
        self.bar.finish_and_clear();
        for (variant, line) in [("before", before), ("after", after)] {
            if let Some(line) = line {
                self.row(Row::new("cacheline", 8, "line", "ns", line).of_variant(variant))?;
            }
        }
        self.print(&format!("\n\n{}", bare_line(before, after)))
    }

    /// Ends the report of a bench that is not compared with the bare line.
    pub(crate) fn finish_without_line(&mut self) -> io::Result<()> {
        self.bar.finish_and_clear();
        self.print("")
    }

    /// Prints the table, this text, and the device between nodes.
    fn print(&mut self, text: &str) -> io::Result<()> {
        if !self.speaks || self.json {
            return Ok(());
        }
        say(&format!("{}{text}", self.table.text(reader_width())))?;
        self.name_device()
    }

    /// Prints the device between nodes, if there are several nodes.
    pub(crate) fn name_device(&self) -> io::Result<()> {
        if !self.speaks {
            return Ok(());
        }
        match &self.network {
            Some(DeviceChoice::Soft(mode)) => say(&format!("device between nodes: {mode}")),
            Some(choice) => say(&format!("device between nodes: {choice}")),
            None => Ok(()),
        }
    }
}

/// Returns a text with the bare line before and after, in lines of up to 80 columns.
fn bare_line(before: Option<SampleSummary>, after: Option<SampleSummary>) -> String {
    let (Some(before), Some(after)) = (before, after) else {
        return "bare cache line: not measured, both ranks of a pair share one processor\n\
                and take turns"
            .to_owned();
    };
    let (before, after) = (before.p50, after.p50);
    let moved = if before.max(after) > MOVED * before.min(after) {
        "\ncores moved, so trust the column × line, or measure again"
    } else {
        ""
    };
    format!("bare cache line, one way: {} before, {} after{moved}", time(before), time(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_disagree_are_reported() {
        let line = |p50| Some(SampleSummary { min: p50, p50, p99: p50, samples: 1 });
        assert!(!bare_line(line(45.0), line(55.0)).contains("moved"));
        let texts = [bare_line(None, None), bare_line(line(123_456.7), line(987_654.3))];
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(bare_line(line(45.0), line(60.0)).contains("moved"));
        assert!(bare_line(line(200.0), line(45.0)).contains("moved"));
        assert!(bare_line(None, None).contains("not measured"));
    }
}
