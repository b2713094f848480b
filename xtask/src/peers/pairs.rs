//! The table that compares each MPI with itself behind Strait's front.

use core::fmt::Write as _;

use serde_json::json;

use super::figures::{Comparison, Figures, Measured, aligned, line_shown, ratio_shown};
use super::install;
use super::rows::{Cores, Unit};

/// The columns of the table.
const COLUMNS: [&str; 9] =
    ["pattern", "host", "cores", "line", "alone", "front", "ratio", "best alone", "ratio"];

/// The head of the table in Markdown.
const MARKDOWN: &str = "| pattern | host | near: alone | with the front | ratio | of best | \
                        far: alone | with the front | ratio | of best |\n\
                        |---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n";

/// One row of one host where the processors are in one place.
struct Pair<'a> {
    row: &'a Measured,
    host: &'static str,
    cores: Cores,
    /// The bare line, in nanoseconds one way.
    line: f64,
    alone: f64,
    front: f64,
    /// The best of all hosts alone.
    best: (&'static str, f64),
}

/// Returns the hosts that were measured both ways, row by row.
fn pairs(figures: &Figures) -> Vec<Pair<'_>> {
    figures.comparisons().flat_map(of_row).collect()
}

fn of_row(comparison: Comparison<'_>) -> Vec<Pair<'_>> {
    let Comparison { row, cores, line, medians, best_peer, .. } = comparison;
    let of_host = |host: &'static str| {
        let front = *medians.get(install::fronted(host)?)?;
        let (alone, best) = (*medians.get(host)?, best_peer?);
        Some(Pair { row, host, cores, line, alone, front, best })
    };
    install::names().into_iter().filter_map(of_host).collect()
}

impl Pair<'_> {
    /// Returns the time with the front as a part of `time`.
    fn ratio_to(&self, time: f64) -> Option<f64> {
        (self.row.unit == Unit::Nanoseconds).then(|| self.front / time)
    }

    /// Returns whether the front makes it faster, or hides more.
    fn is_ahead(&self) -> bool {
        self.row.unit.is_as_good(self.front, self.alone)
    }

    fn cells(&self) -> [String; 9] {
        let (name, best) = self.best;
        [
            self.row.name.clone(),
            self.host.into(),
            self.cores.name().into(),
            line_shown(self.line),
            self.row.shown(self.alone),
            self.row.shown(self.front),
            ratio_shown(self.ratio_to(self.alone)),
            format!("{} {name}", self.row.shown(best)),
            ratio_shown(self.ratio_to(best)),
        ]
    }

    /// Returns both figures, of which the better is bold, and both ratios.
    fn markdown(&self) -> String {
        let bold = |value: f64, is_bold: bool| {
            let value = self.row.shown(value);
            if is_bold { format!("**{value}**") } else { value }
        };
        let (alone, front) =
            (bold(self.alone, !self.is_ahead()), bold(self.front, self.is_ahead()));
        let (own, best) = (self.ratio_to(self.alone), self.ratio_to(self.best.1));
        format!("{alone} | {front} | {} | {}", ratio_shown(own), ratio_shown(best))
    }
}

/// Returns the table.
pub(super) fn table(figures: &Figures) -> String {
    let mut lines = vec![COLUMNS.map(str::to_owned)];
    lines.extend(pairs(figures).iter().map(Pair::cells));
    let mut text = aligned(&lines, &[0, 1, 2, 7]);
    let _ = writeln!(text, "\n{}", figures.note());
    text
}

/// Returns the table of `docs/front-speed.md`: a line for each pattern and host, near beside far.
/// "of best" is the ratio to the best of all hosts alone.
pub(super) fn markdown(figures: &Figures) -> String {
    let pairs = pairs(figures);
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for pair in &pairs {
        let line = (pair.row.name.as_str(), pair.host);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let mut text = MARKDOWN.to_owned();
    for (name, host) in lines {
        let at = |cores: &[Cores]| {
            let is_here = |pair: &&Pair<'_>| {
                pair.row.name == name && pair.host == host && cores.contains(&pair.cores)
            };
            pairs.iter().find(is_here).map_or_else(|| " | | | ".to_owned(), Pair::markdown)
        };
        // Ranks that take turns on the processors have no bare line.
        let (near, far) = (at(&[Cores::Near, Cores::Unknown]), at(&[Cores::Far]));
        let _ = writeln!(text, "| `{name}` | {host} | {near} | {far} |");
    }
    text
}

/// Returns one JSON object a line.
pub(super) fn json(figures: &Figures) -> String {
    let mut text = String::new();
    for pair in pairs(figures) {
        let Pair { row, host, cores, line, alone, front, best } = pair;
        let object = json!({
            "pattern": row.name,
            "unit": row.unit.name(),
            "host": host,
            "cores": cores.name(),
            "line_ns": line,
            "alone": alone,
            "front": front,
            "ratio": pair.ratio_to(alone),
            "best_alone": best.0,
            "ratio_to_best": pair.ratio_to(best.1),
        });
        let _ = writeln!(text, "{object}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::default();
        let mut add = |library, said: &str| figures.add(library, said).unwrap();
        let row = |time| format!("row pp_8 8 ns {time},45,45 {time},45,45 {time},45,45\n");
        add("mpich5", &row(200));
        add("mpich5+front", &row(60));
        add("intel", &row(120));
        add("intel+front", "row pp_8 8 ns 80,160,160 81,160,160 80,160,160\n");
        add("mpich5", "row ovl_1M 1048576 % 90,45,45\n");
        add("mpich5+front", "row ovl_1M 1048576 % 40,45,45\n");
        figures
    }

    #[test]
    fn a_host_is_compared_with_itself_and_with_the_best() {
        let table = table(&figures());
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        let (pair, best) = (["200", "ns", "60", "ns", "0.30"], ["120", "ns", "intel", "0.50"]);
        assert_eq!(lines[1][..5], ["pp_8", "mpich5", "near", "45", "ns"]);
        assert_eq!((&lines[1][5..10], &lines[1][10..]), (&pair[..], &best[..]));
        // Intel MPI alone has no figures where those with the front are.
        assert_eq!(lines[2][..3], ["ovl_1M", "mpich5", "near"]);
    }

    #[test]
    fn near_and_far_are_beside_each_other_in_markdown() {
        let text = markdown(&figures());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "| `pp_8` | mpich5 | 200 ns | **60 ns** | 0.30 | 0.50 |  | | |  |");
        assert_eq!(lines[3], "| `ovl_1M` | mpich5 | **90 %** | 40 % |  |  |  | | |  |");
        let columns = |line: &&str| line.matches('|').count();
        assert!(lines.iter().all(|line| columns(line) == 11), "{text}");
    }

    #[test]
    fn the_json_has_both_ratios() {
        let text = json(&figures());
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["host"], "mpich5");
        assert_eq!((&first["ratio"], &first["ratio_to_best"]), (&0.3.into(), &0.5.into()));
        assert_eq!(text.lines().count(), 2);
    }
}
