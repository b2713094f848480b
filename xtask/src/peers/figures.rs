//! The figures of all libraries, and the table that says which is first.

use core::fmt::Write as _;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::install::{self, STRAIT};
use super::rows::{self, Batch, Cores, Unit};
use crate::stop::Stop;

/// The columns of the table.
const COLUMNS: [&str; 8] =
    ["pattern", "cores", "line", "strait", "best peer", "", "strait / peer", "first"];

/// The least number of batches of which a median counts. Where a run has one batch, it is itself a
/// median.
const BATCHES_MIN: usize = 3;

/// All batches so far.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// In the order in which they were measured first.
    rows: Vec<Measured>,
    /// Number of batches, and of those in which the processors were moved.
    batches: usize,
    moved: usize,
}

/// One row with the batches of each library.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) name: String,
    bytes: u64,
    pub(super) unit: Unit,
    least_batches: usize,
    batches: BTreeMap<Cores, BTreeMap<&'static str, Vec<Batch>>>,
}

/// What the table says of one row where the processors are in one place.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    pub(super) row: &'a Measured,
    pub(super) cores: Cores,
    /// The bare line during all these batches, in nanoseconds one way.
    pub(super) line: f64,
    pub(super) medians: BTreeMap<&'static str, f64>,
    /// Number of libraries that have the row, here or elsewhere.
    libraries: usize,
    /// The best of the peers without a front.
    pub(super) best_peer: Option<(&'static str, f64)>,
}

impl Figures {
    /// Adds the output of one run.
    pub(super) fn add(&mut self, library: &'static str, said: &str) -> Result<(), Stop> {
        for rows::Row { name, bytes, unit, batches } in rows::parse(said)? {
            let place = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
                let least_batches = BATCHES_MIN.min(batches.len());
                let (name, batches) = (name.to_owned(), BTreeMap::new());
                self.rows.push(Measured { name, bytes, unit, least_batches, batches });
                self.rows.len() - 1
            });
            for batch in batches {
                self.batches += 1;
                match batch.cores() {
                    None => self.moved += 1,
                    Some(cores) => {
                        let of_cores = self.rows[place].batches.entry(cores).or_default();
                        of_cores.entry(library).or_default().push(batch);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the comparisons in the order in which the rows were measured first.
    pub(super) fn comparisons(&self) -> impl Iterator<Item = Comparison<'_>> {
        let of_row = |row| Cores::ALL.into_iter().filter_map(move |cores| compare(row, cores));
        self.rows.iter().flat_map(of_row)
    }

    /// Returns the table.
    pub(super) fn table(&self) -> String {
        let mut lines = vec![COLUMNS.map(str::to_owned)];
        lines.extend(self.comparisons().map(|comparison| comparison.cells()));
        let mut text = aligned(&lines, &[0, 1, 5, 7]);
        let _ = writeln!(text, "\n{}", self.note());
        text
    }

    /// Returns the line below a table, which says what its figures are.
    pub(super) fn note(&self) -> String {
        let Self { batches, moved, .. } = self;
        format!("medians; {moved} of {batches} batches are left out: their bare lines disagree")
    }

    /// Returns the table of `docs/patterns.md`: a line for each pattern, near beside far. It has
    /// only comparisons with all peers.
    pub(super) fn markdown(&self) -> String {
        let mut text = "| pattern | near: Strait | best peer | ratio | far: Strait | best peer | \
                        ratio |\n|---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
        for row in &self.rows {
            let cells = [Cores::Near, Cores::Far].map(|cores| {
                let complete = |cores| compare(row, cores).filter(Comparison::is_complete);
                let unknown = || complete(Cores::Unknown).filter(|_| cores == Cores::Near);
                complete(cores)
                    .or_else(unknown)
                    .map_or_else(|| " | | ".to_owned(), |comparison| comparison.markdown())
            });
            let _ = writeln!(text, "| `{}` | {} | {} |", row.name, cells[0], cells[1]);
        }
        text
    }

    /// Returns one JSON object a line.
    pub(super) fn json(&self) -> String {
        let mut text = String::new();
        for comparison in self.comparisons() {
            let Comparison { row, cores, line, medians, libraries, best_peer } = &comparison;
            let object = json!({
                "pattern": row.name,
                "bytes": row.bytes,
                "unit": row.unit.name(),
                "cores": cores.name(),
                "line_ns": line,
                "medians": medians,
                "best_peer": best_peer.map(|(name, _)| name),
                "ratio": comparison.ratio(),
                "first": comparison.first(),
                "libraries": libraries,
            });
            let _ = writeln!(text, "{object}");
        }
        text
    }
}

/// Compares the libraries that have enough batches, or returns `None` if there are none.
fn compare(row: &Measured, cores: Cores) -> Option<Comparison<'_>> {
    let mut batches = row.batches.get(&cores)?.clone();
    batches.retain(|_, batches| batches.len() >= row.least_batches);
    if batches.is_empty() {
        return None;
    }
    let everywhere = row.batches.values().flat_map(BTreeMap::keys);
    let libraries = everywhere.collect::<BTreeSet<_>>().len();
    let of = |batches: &Vec<Batch>| median(batches.iter().map(|batch| batch.value));
    let medians: BTreeMap<_, _> = batches.iter().map(|(name, all)| (*name, of(all))).collect();
    let names = install::names();
    let peers = medians.iter().filter(|(name, _)| names.contains(name));
    let best = peers.min_by(|(_, one), (_, other)| match row.unit {
        Unit::Nanoseconds => one.total_cmp(other),
        Unit::Percent => other.total_cmp(one),
    });
    let best_peer = best.map(|(name, value)| (*name, *value));
    let line = median(batches.values().flatten().map(|batch| batch.mean_line()));
    Some(Comparison { row, cores, line, medians, libraries, best_peer })
}

impl Measured {
    /// Returns a value for readers: bandwidths in GB/s.
    pub(super) fn shown(&self, value: f64) -> String {
        match self.unit {
            // Without the sum a small negative value would be shown as -0.
            Unit::Percent => format!("{:.0} %", value.round() + 0.0),
            // Bytes per nanosecond are gigabytes per second.
            Unit::Nanoseconds if self.name.starts_with("bw") => {
                format!("{:.1} GB/s", self.bytes as f64 / value)
            }
            Unit::Nanoseconds if value < 10.0 => format!("{value:.1} ns"),
            Unit::Nanoseconds if value < 9_999.5 => format!("{value:.0} ns"),
            Unit::Nanoseconds => format!("{:.1} µs", value / 1e3),
        }
    }
}

impl Comparison<'_> {
    /// Returns whether every library has a figure. The processors may have been elsewhere when the
    /// others ran.
    fn is_complete(&self) -> bool {
        self.medians.len() == self.libraries
    }

    fn strait(&self) -> Option<f64> {
        self.medians.get(STRAIT).copied()
    }

    /// Returns our time as a part of the best peer's.
    fn ratio(&self) -> Option<f64> {
        let (strait, (_, peer)) = self.strait().zip(self.best_peer)?;
        (self.row.unit == Unit::Nanoseconds).then_some(strait / peer)
    }

    /// Returns the best library, if there are figures of Strait and of a peer.
    fn first(&self) -> Option<&'static str> {
        let (strait, (name, peer)) = self.strait().zip(self.best_peer)?;
        Some(if self.row.unit.is_as_good(strait, peer) { STRAIT } else { name })
    }

    fn cells(&self) -> [String; 8] {
        let shown =
            |value: Option<f64>| value.map_or_else(String::new, |value| self.row.shown(value));
        [
            self.row.name.clone(),
            self.cores.name().into(),
            line_shown(self.line),
            shown(self.strait()),
            shown(self.best_peer.map(|(_, value)| value)),
            self.best_peer.map(|(name, _)| name.to_owned()).unwrap_or_default(),
            ratio_shown(self.ratio()),
            match self.first() {
                Some(first) if self.is_complete() => first.into(),
                Some(first) => format!("{first} ({} of {})", self.medians.len(), self.libraries),
                None => String::new(),
            },
        ]
    }

    /// Returns Strait's figure, the best peer's, and their ratio. The better one is bold.
    fn markdown(&self) -> String {
        let first = self.first();
        let shown = |value: Option<f64>, is_first: bool| {
            let value = value.map_or_else(String::new, |value| self.row.shown(value));
            if is_first { format!("**{value}**") } else { value }
        };
        let strait = shown(self.strait(), first == Some(STRAIT));
        let peer = self.best_peer.map(|(_, value)| value);
        let peer = shown(peer, first.is_some_and(|first| first != STRAIT));
        let name = self.best_peer.map(|(name, _)| name).unwrap_or_default();
        format!("{strait} | {peer} {name} | {}", ratio_shown(self.ratio()))
    }
}

/// Returns a ratio for readers.
pub(super) fn ratio_shown(ratio: Option<f64>) -> String {
    ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default()
}

/// Returns the bare line for readers. Ranks that take turns on the processors have none.
pub(super) fn line_shown(nanoseconds: f64) -> String {
    if nanoseconds > 0.0 { format!("{nanoseconds:.0} ns") } else { String::new() }
}

/// Returns the median, the lower one of two.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// Returns the lines with columns of equal width: the columns `names` on the left, numbers on the
/// right.
pub(super) fn aligned<const N: usize>(lines: &[[String; N]], names: &[usize]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: [usize; N] = core::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            let is_name = names.contains(&column);
            if is_name { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::default();
        let mut add = |library, said: &str| figures.add(library, said).unwrap();
        let (far, moved) = ("90,160,160 90,160,160 95,160,160", "99,45,160");
        add("strait", &format!("row pp_8 8 ns 30,45,45 32,45,45 31,44,46 {far} {moved}\n"));
        add("intel", "row pp_8 8 ns 140,45,45 150,45,45 130,45,45\n");
        add("mpich5", "row pp_8 8 ns 120,45,45 110,45,45 125,45,45 90,160,160\n");
        let bandwidth =
            |time| format!("row bw_1M 1048576 ns {time},45,45 {time},45,45 {time},45,45\n");
        add("intel", &bandwidth(40_000));
        add("strait", &bandwidth(80_000));
        add("mpich5", "row ovl_1M 1048576 % 99,45,45\n");
        add("strait", "row ovl_1M 1048576 % 40,45,45\n");
        figures
    }

    #[test]
    fn the_table_says_which_is_first() {
        let table = figures().table();
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[1],
            ["pp_8", "near", "45", "ns", "31", "ns", "120", "ns", "mpich5", "0.26", "strait"]
        );
        // One batch of a peer is too few.
        assert_eq!(lines[2], ["pp_8", "far", "160", "ns", "90", "ns"]);
        let bandwidth = ["13.1", "GB/s", "26.2", "GB/s", "intel", "2.00", "intel"];
        assert_eq!(lines[3][..4], ["bw_1M", "near", "45", "ns"]);
        assert_eq!(lines[3][4..], bandwidth);
        // More overlap is better.
        assert_eq!(lines[4][4..], ["40", "%", "99", "%", "mpich5", "mpich5"]);
        assert!(table.contains("1 of 22 batches are left out"), "{table}");
    }

    #[test]
    fn every_library_is_in_the_json() {
        let text = figures().json();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["pattern"], "pp_8");
        assert_eq!(first["medians"]["intel"], 140.0);
        assert_eq!(first["first"], "strait");
        assert_eq!(first["libraries"], 3);
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn near_and_far_are_beside_each_other_in_markdown() {
        let text = figures().markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "| `pp_8` | **31 ns** | 120 ns mpich5 | 0.26 |  | |  |");
        assert_eq!(lines[4], "| `ovl_1M` | 40 % | **99 %** mpich5 |  |  | |  |");
        let columns = |line: &&str| line.matches('|').count();
        assert!(lines.iter().all(|line| columns(line) == 8), "{text}");
    }

    #[test]
    fn a_comparison_with_some_peers_says_so() {
        let mut figures = figures();
        figures.add("mpich5", "row pp_8 8 ns 91,160,160 91,160,160\n").unwrap();
        assert!(figures.table().contains("strait (2 of 3)"), "{}", figures.table());
    }

    #[test]
    fn columns_are_aligned() {
        let table = figures().table();
        let at = |line: usize| table.lines().nth(line).unwrap().find(" ns").unwrap();
        assert_eq!(at(1), at(2));
    }
}
