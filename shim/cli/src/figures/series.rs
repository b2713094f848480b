//! Points of a figure, and their origin.

use serde::Serialize;

/// The origin of a series.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    /// Measured or played by this run.
    Ours,
    /// Stated in the text of the paper.
    Paper,
    /// Another MPI library on this machine, from the record of `cargo xtask peers`.
    Peer,
}

/// A line of a figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) origin: Origin,
    /// Points by ascending x.
    pub(super) points: Vec<[f64; 2]>,
}

impl Series {
    /// Makes a series of this run.
    pub(super) fn ours(name: impl Into<String>, mut points: Vec<[f64; 2]>) -> Self {
        points.sort_by(|one, other| one[0].total_cmp(&other[0]));
        Self { name: name.into(), origin: Origin::Ours, points }
    }

    /// Makes a series of values at 0, 1, 2, …
    pub(super) fn of_cases(name: impl Into<String>, values: &[f64]) -> Self {
        Self::ours(name, (0..).map(f64::from).zip(values).map(|(x, y)| [x, *y]).collect())
    }

    /// Adds the points to those of the series with this name, or the series.
    pub(super) fn join(self, all: &mut Vec<Self>) {
        match all.iter_mut().find(|known| known.name == self.name) {
            Some(known) => {
                known.points.extend(self.points);
                known.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
            }
            None => all.push(self),
        }
    }

    /// Returns the value at `x`.
    pub(super) fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|[at, _]| (at - x).abs() < 1e-9).map(|[_, y]| *y)
    }
}
