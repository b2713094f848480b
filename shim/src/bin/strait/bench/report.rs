//! What rank 0 says: rows for programs, or a table for people; and a progress bar while they wait.

use std::borrow::Cow;
use std::io;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use strait::env;
use strait::hca::Choice;
use strait::hca::soft::Mode;

use super::stage::Stage;
use super::stats::{Summary, time};
use crate::say;

/// Two figures of the bare line that differ by more than this say that the processors were moved.
const MOVED: f64 = 1.3;

/// The transport on a node.
const MEMORY: &str = "shm";

/// One line of `--json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    /// What is special about this row among those of its bench.
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
    /// A row of ranks bound to processors, whose number the report fills in.
    pub(crate) const fn new(
        bench: &'static str,
        bytes: usize,
        metric: &'static str,
        unit: &'static str,
        summary: Summary,
    ) -> Self {
        let Summary { min, p50, p99, samples } = summary;
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

    /// The same of another variant.
    pub(crate) fn of_variant(self, variant: impl Into<Cow<'static, str>>) -> Self {
        Self { variant: variant.into(), ..self }
    }

    /// The same over another transport than shared memory.
    pub(crate) fn over(self, device: &Choice) -> Self {
        Self { transport: device.to_string().into(), ..self }
    }
}

/// With as many digits as mean something.
const fn short(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// Where results go. On ranks other than 0 nothing comes of it.
#[derive(Debug)]
pub(crate) struct Report {
    speaks: bool,
    json: bool,
    ranks: u32,
    nodes: u32,
    /// The device between nodes.
    network: Option<Choice>,
    table: Table,
    bar: ProgressBar,
}

impl Report {
    /// A report of `steps` measurements.
    pub(crate) fn new(stage: &Stage<'_>, json: bool, steps: usize) -> Self {
        let bar = match stage.reports() {
            // Draws on standard error, and only where that is a terminal.
            true => ProgressBar::new(steps as u64),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("measuring {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        bar.tick();
        let nodes = stage.endpoint.world().nodes().count();
        // A world with a bad one would not have begun.
        let asked = env::hca().ok().flatten();
        let network = (nodes > 1).then(|| asked.unwrap_or(Choice::Soft(Mode::default())));
        Self { speaks: stage.reports(), json, ranks: stage.ranks(), nodes, network, table, bar }
    }

    /// The names of the columns.
    pub(crate) fn columns(&mut self, names: &[&str]) {
        self.table.set_header(names);
        for column in self.table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }

    /// One line of the table.
    pub(crate) fn line(&mut self, cells: impl Into<Vec<String>>) {
        if self.speaks {
            self.table.add_row(cells.into());
        }
    }

    /// One row for programs, written at once.
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

    /// One measurement is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// The bare line before and after, as rows or as a sentence below the table; ends the report.
    pub(crate) fn finish(&self, before: Option<Summary>, after: Option<Summary>) -> io::Result<()> {
        self.bar.finish_and_clear();
        for (variant, line) in [("before", before), ("after", after)] {
            if let Some(line) = line {
                self.row(Row::new("cacheline", 8, "line", "ns", line).of_variant(variant))?;
            }
        }
        if !self.speaks || self.json {
            return Ok(());
        }
        say(&format!("{}\n\n{}", trimmed(&self.table), bare_line(before, after)))?;
        match &self.network {
            Some(Choice::Soft(mode)) => say(&format!("device between nodes: {mode}")),
            Some(choice) => say(&format!("device between nodes: {choice}")),
            None => Ok(()),
        }
    }
}

/// A table without the blanks at the ends of its lines, which only matter to whoever copies them.
fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The bare line before and after, in a sentence.
fn bare_line(before: Option<Summary>, after: Option<Summary>) -> String {
    let (Some(before), Some(after)) = (before, after) else {
        return "bare cache line: not measured, both ranks of a pair share one processor and take \
                turns"
            .to_owned();
    };
    let (before, after) = (before.p50, after.p50);
    let moved = if before.max(after) > MOVED * before.min(after) {
        ": cores moved, so trust the column × line, or measure again"
    } else {
        ""
    };
    format!("bare cache line, one way: {} before, {} after{moved}", time(before), time(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_disagree_are_told_of() {
        let line = |p50| Some(Summary { min: p50, p50, p99: p50, samples: 1 });
        assert!(!bare_line(line(45.0), line(55.0)).contains("moved"));
        assert!(bare_line(line(45.0), line(60.0)).contains("moved"));
        assert!(bare_line(line(200.0), line(45.0)).contains("moved"));
        assert!(bare_line(None, None).contains("not measured"));
    }
}
