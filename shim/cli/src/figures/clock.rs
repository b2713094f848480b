//! Figures that the clock of this machine measures: runs of `strait bench --json`.

use core::error::Error;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::data::{BenchRun, RowFilter};
use super::series::Series;

/// A row of a bench.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BenchRow {
    variant: String,
    bytes: f64,
    metric: String,
    min: f64,
    p50: f64,
}

/// Number of runs of each bench in a full run. Of each row the best run counts, or of medians the
/// median.
const ROUNDS: usize = 3;

/// Runs benches, each once in a run of this program.
#[derive(Debug)]
pub(super) struct BenchRunner {
    quick: bool,
    done: BTreeMap<(Vec<String>, Option<String>), Vec<BenchRow>>,
}

impl BenchRunner {
    /// Makes a runner. `quick`: less time for each measurement, and fewer points.
    pub(super) const fn new(quick: bool) -> Self {
        Self { quick, done: BTreeMap::new() }
    }

    /// Runs a bench, and returns the series that its rows make.
    ///
    /// # Errors
    ///
    /// The bench fails, or prints something else than rows.
    pub(super) fn series(&mut self, run: &BenchRun) -> Result<Vec<Series>, Box<dyn Error>> {
        let args = if self.quick { run.quick.as_ref().unwrap_or(&run.args) } else { &run.args };
        let rows = self.rows(args, run.device.as_deref())?;
        let mut all: Vec<Series> = Vec::new();
        run.series.iter().for_each(|filter| filter.series(rows).join(&mut all));
        Ok(all)
    }

    fn rows(
        &mut self,
        args: &[String],
        device: Option<&str>,
    ) -> Result<&[BenchRow], Box<dyn Error>> {
        let key = (args.to_vec(), device.map(str::to_owned));
        if !self.done.contains_key(&key) {
            let rounds = if self.quick { 1 } else { ROUNDS };
            let runs =
                (0..rounds).map(|_| self.run(args, device)).collect::<Result<Vec<_>, _>>()?;
            self.done.insert(key.clone(), best(runs));
        }
        Ok(&self.done[&key])
    }

    fn run(&self, args: &[String], device: Option<&str>) -> Result<Vec<BenchRow>, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bench").args(args).arg("--json");
        if !args.iter().any(|word| word == "--seconds") {
            command.args(["--seconds", if self.quick { "0.05" } else { "1" }]);
        }
        command.envs(device.map(|device| ("STRAIT_HCA", device)));
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or("no message");
            return Err(format!("strait bench {}: {last}", args.join(" ")).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let rows = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(rows)
    }
}

/// Joins the rows of several runs.
fn best(runs: Vec<Vec<BenchRow>>) -> Vec<BenchRow> {
    let mut all: Vec<(BenchRow, Vec<f64>)> = Vec::new();
    for row in runs.into_iter().flatten() {
        let is_same = |known: &BenchRow| {
            (&known.variant, &known.metric, known.bytes) == (&row.variant, &row.metric, row.bytes)
        };
        match all.iter_mut().find(|(known, _)| is_same(known)) {
            Some((known, medians)) => {
                known.min = known.min.min(row.min);
                medians.push(row.p50);
            }
            None => {
                let median = row.p50;
                all.push((row, vec![median]));
            }
        }
    }
    let joined = all.into_iter().map(|(mut row, mut medians)| {
        medians.sort_by(f64::total_cmp);
        row.p50 = medians[medians.len() / 2];
        row
    });
    joined.collect()
}

impl RowFilter {
    /// Makes the series of these rows.
    fn series(&self, rows: &[BenchRow]) -> Series {
        let whole = |name: &String| {
            let row = rows.iter().find(|row| row.variant == *name && row.metric == "time");
            row.map_or(f64::NAN, |row| self.taken(row))
        };
        let whole = self.over.as_ref().map_or(1.0, whole);
        let points = rows.iter().filter_map(|row| Some([self.x(row)?, self.y(row)? / whole]));
        let points = points.filter(|[_, y]| y.is_finite()).collect();
        Series::ours(self.name.clone(), points)
    }

    fn x(&self, row: &BenchRow) -> Option<f64> {
        let is_wanted =
            row.metric == self.metric && self.bytes.is_none_or(|bytes| bytes == row.bytes);
        let in_variant =
            match self.variant.as_deref().map(|pattern| (pattern, pattern.split_once("{}"))) {
                Some((_, Some((before, after)))) => {
                    let rest = row.variant.strip_prefix(before)?.strip_suffix(after)?;
                    return rest.parse().ok().filter(|_| is_wanted);
                }
                Some((name, None)) => name == row.variant,
                None => true,
            };
        (is_wanted && in_variant).then_some(self.at.unwrap_or(row.bytes))
    }

    /// Returns the value of a row that counts.
    const fn taken(&self, row: &BenchRow) -> f64 {
        if self.median { row.p50 } else { row.min }
    }

    fn y(&self, row: &BenchRow) -> Option<f64> {
        let value = self.taken(row) - f64::from(u8::from(self.change));
        match self.burst {
            Some(messages) => (value > 0.0).then(|| messages * row.bytes * 1e3 / value),
            None => Some(value * self.scale),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> RowFilter {
        toml::from_str(text).unwrap()
    }

    fn row(variant: &str, bytes: f64, min: f64) -> BenchRow {
        BenchRow { variant: variant.into(), bytes, metric: "time".into(), min, p50: 2.0 * min }
    }

    #[test]
    fn rows_become_points() {
        let rows = [row("a", 64.0, 1000.0), row("a", 8.0, 500.0), row("b", 8.0, 1.0)];
        let all = filter("name = 'A'\nmetric = 'time'\nvariant = 'a'\nscale = 0.001").series(&rows);
        assert_eq!(all.points, [[8.0, 0.5], [64.0, 1.0]]);
        let rate = filter("name = 'A'\nmetric = 'time'\nvariant = 'a'\nburst = 16").series(&rows);
        assert_eq!(rate.points[1], [64.0, 1024.0]);
        let none = filter("name = 'A'\nmetric = 'rate'").series(&rows);
        assert_eq!(none.points, Vec::<[f64; 2]>::new());
    }

    #[test]
    fn of_several_runs_the_best_counts() {
        let runs = [3.0, 1.0, 2.0].map(|min| vec![row("a", 8.0, min), row("b", 8.0, 5.0)]);
        let rows = best(runs.into());
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].min, rows[0].p50), (1.0, 4.0));
    }

    #[test]
    fn a_variant_may_contain_x() {
        let rows = [row("3 origins", 0.0, 3.0), row("1 origins", 0.0, 1.5), row("x", 0.0, 9.0)];
        let all = filter(
            "name = 'A'\nmetric = 'time'\nvariant = '{} origins'\nmedian = true\nchange = true",
        );
        assert_eq!(all.series(&rows).points, [[1.0, 2.0], [3.0, 5.0]]);
    }
}
