//! The file of the papers' figures: `figures/papers.toml`.

use serde::Deserialize;

use super::series::{Origin, Series};

/// The text of the file.
const TEXT: &str = include_str!("../../figures/papers.toml");

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Papers {
    figure: Vec<PaperFigure>,
}

/// A figure or table of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperFigure {
    /// The key of the paper in `docs/papers.md`.
    pub(super) paper: String,
    /// The number of the figure; a table begins with `T`.
    pub(super) name: String,
    pub(super) title: String,
    /// Section and page or figure.
    pub(super) place: String,
    /// What the axes show.
    pub(super) x: String,
    pub(super) unit: String,
    #[serde(default)]
    pub(super) better: Better,
    pub(super) how: How,
    /// Whether both axes are logarithmic, or the vertical one alone.
    #[serde(default)]
    pub(super) log: bool,
    #[serde(default)]
    pub(super) log_y: bool,
    /// Names of the places 0, 1, 2, … of the horizontal axis.
    #[serde(default)]
    pub(super) labels: Vec<String>,
    /// What the paper's text says.
    pub(super) says: String,
    /// What is only in the drawing, so that the file has no value of it.
    pub(super) drawn: Option<String>,
    /// Values that the text states.
    #[serde(default)]
    pub(super) values: Vec<Stated>,
    #[serde(default)]
    pub(super) expect: Vec<Expectation>,
    /// Why an expectation may fail.
    pub(super) differs: Option<String>,
    /// What is missing from the remake.
    pub(super) part: Option<String>,
    /// Why the figure is not remade.
    pub(super) reason: Option<String>,
    /// The benches that measure it.
    #[serde(default)]
    pub(super) runs: Vec<BenchRun>,
}

/// Whether smaller or larger values are better.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    #[default]
    Lower,
    Higher,
}

/// How a figure is remade.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum How {
    /// The clock of this machine measures it.
    Clock,
    /// The shipping state machines play it in virtual time.
    Virtual,
    /// It is counted.
    Counters,
    /// It is not remade.
    None,
}

impl How {
    /// Returns the words of the page.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Clock => "by the clock",
            Self::Virtual => "in virtual time",
            Self::Counters => "by counters",
            Self::None => "not remade",
        }
    }
}

/// A value that the text of a paper states.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stated {
    pub(super) series: String,
    /// The series of this run beside it, where that has another name.
    pub(super) here: Option<String>,
    pub(super) x: f64,
    pub(super) value: f64,
    /// How the text states it, where not exactly.
    pub(super) bound: Option<String>,
}

/// An order or a factor that the text of a paper states. Exactly one of `order`, `ratio`, `flat`,
/// `grows` and `value` is given.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectation {
    pub(super) says: String,
    /// Series from the best to the worst, at every x that they share.
    pub(super) order: Option<Vec<String>>,
    /// The quotient of two series, at `x` and at `x2` or `x`.
    pub(super) ratio: Option<[String; 2]>,
    /// The quotient of the largest and smallest value of a series.
    pub(super) flat: Option<String>,
    /// The quotient of the last and first value of a series.
    pub(super) grows: Option<String>,
    /// A value of a series, at `x`.
    pub(super) value: Option<String>,
    pub(super) x: Option<f64>,
    pub(super) x2: Option<f64>,
    /// The range of x that counts.
    #[serde(alias = "from")]
    pub(super) x_above: Option<f64>,
    #[serde(alias = "to")]
    pub(super) x_below: Option<f64>,
    pub(super) at_least: Option<f64>,
    pub(super) at_most: Option<f64>,
    /// The factor by which a better series of `order` may be worse.
    pub(super) slack: Option<f64>,
}

/// A run of `strait bench`, and the series that its rows make.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BenchRun {
    /// Arguments, in full and with `--quick`.
    pub(super) args: Vec<String>,
    pub(super) quick: Option<Vec<String>>,
    /// The device between nodes.
    pub(super) device: Option<String>,
    pub(super) series: Vec<RowFilter>,
}

/// The rows of a bench that make a series.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowFilter {
    pub(super) name: String,
    pub(super) metric: String,
    /// The variant of the rows. A `{}` stands for the x of a point.
    pub(super) variant: Option<String>,
    /// The only x, where rows differ by nothing else. Without it x is the number of bytes.
    pub(super) at: Option<f64>,
    /// The number of bytes, where rows of others are left out.
    pub(super) bytes: Option<f64>,
    /// What a value is multiplied by.
    #[serde(default = "one")]
    pub(super) scale: f64,
    /// The variant of another row, by the time of which a value is divided.
    pub(super) over: Option<String>,
    /// Turns the time of an operation in nanoseconds into megabytes per second: the number of
    /// messages of `bytes` in one operation.
    pub(super) burst: Option<f64>,
    /// Subtracts 1 first: a quotient becomes a change.
    #[serde(default)]
    pub(super) change: bool,
    /// Whether the median counts, and not the least value.
    #[serde(default)]
    pub(super) median: bool,
}

const fn one() -> f64 {
    1.0
}

/// Returns every measured figure and table of the papers, in their order.
pub(super) fn figures() -> Result<Vec<PaperFigure>, toml::de::Error> {
    toml::from_str(TEXT).map(|Papers { figure }| figure)
}

impl PaperFigure {
    /// Returns the name of the figure in the whole file.
    pub(super) fn key(&self) -> String {
        format!("{} {}", self.paper, self.name)
    }

    /// Returns the values that the paper's text states, by series.
    pub(super) fn stated(&self) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for Stated { series, x, value, .. } in &self.values {
            match all.iter_mut().find(|known| known.name == *series) {
                Some(known) => known.points.push([*x, *value]),
                None => all.push(Series {
                    name: series.clone(),
                    origin: Origin::Paper,
                    points: vec![[*x, *value]],
                }),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn all_measured_figures_of_the_five_papers_are_there() {
        let figures = figures().unwrap();
        let mut count = BTreeMap::new();
        for figure in &figures {
            *count.entry(figure.paper.as_str()).or_insert(0) += 1;
        }
        let expected = [
            ("HybridLock09", 7),
            ("Nemesis07", 5),
            ("OneSided04", 15),
            ("RdmaChannel04", 12),
            // Two of them twice: on 2 ranks by the clock, and on 4 nodes in virtual time.
            ("SpecRndv09", 9),
            // Ours: `docs/scale.md`.
            ("Strait", 3),
        ];
        assert_eq!(count.into_iter().collect::<Vec<_>>(), expected);
        let keys: BTreeSet<_> = figures.iter().map(PaperFigure::key).collect();
        assert_eq!(keys.len(), figures.len(), "each once");
    }

    #[test]
    fn each_figure_is_remade_or_says_why_not() {
        for figure in figures().unwrap() {
            let key = figure.key();
            assert_eq!(figure.reason.is_some(), figure.how == How::None, "{key}");
            assert_eq!(figure.expect.is_empty(), figure.how == How::None, "{key}");
            for expected in &figure.expect {
                let Expectation { order, ratio, flat, grows, value, .. } = expected;
                let kinds = [
                    order.is_some(),
                    ratio.is_some(),
                    flat.is_some(),
                    grows.is_some(),
                    value.is_some(),
                ];
                assert_eq!(kinds.into_iter().filter(|given| *given).count(), 1, "{key}");
            }
        }
    }
}
