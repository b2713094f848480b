//! A remade figure: its series and its verdict.

use core::error::Error;

use serde::Serialize;

use super::clock::BenchRunner;
use super::counters;
use super::data::{How, PaperFigure};
use super::expect::{self, Finding};
use super::peers::PeerRecord;
use super::series::Series;
use super::virtual_time::Player;

/// What a remake says about its figure.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Everything that the paper states comes out.
    Holds,
    /// Everything that the remake shows comes out; it shows less than the figure.
    HoldsInPart,
    /// Something does not come out.
    Differs,
    /// Series or points are missing.
    NoData,
    /// The figure is not remade.
    NotRemade,
}

impl Verdict {
    /// All verdicts, in the order of the summary.
    pub(super) const ALL: [Self; 5] =
        [Self::Holds, Self::HoldsInPart, Self::Differs, Self::NoData, Self::NotRemade];

    /// Returns the words of the page.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsInPart => "holds in part",
            Self::Differs => "differs",
            Self::NoData => "no data",
            Self::NotRemade => "not remade",
        }
    }
}

/// A figure of a paper and its remake.
#[derive(Debug)]
pub(super) struct Remade {
    pub(super) figure: PaperFigure,
    pub(super) series: Vec<Series>,
    pub(super) findings: Vec<Finding>,
    pub(super) verdict: Verdict,
    /// Why the figure could not be measured in this run.
    pub(super) failure: Option<String>,
}

/// The means of remaking figures.
#[derive(Debug)]
pub(super) struct Workshop {
    pub(super) runner: BenchRunner,
    pub(super) player: Player,
    pub(super) peers: PeerRecord,
}

impl Workshop {
    /// Remakes a figure. A bench that fails leaves the figure without data.
    pub(super) fn remake(&mut self, figure: PaperFigure) -> Remade {
        let (mut series, failure) = match self.ours(&figure) {
            Ok(series) => (series, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let check = |expected| expect::check(expected, &series, figure.better);
        let findings: Vec<_> = figure.expect.iter().map(check).collect();
        let verdict = verdict(&figure, &findings);
        series.extend(figure.stated());
        series.extend(self.peers.series(&figure));
        Remade { figure, series, findings, verdict, failure }
    }

    fn ours(&mut self, figure: &PaperFigure) -> Result<Vec<Series>, Box<dyn Error>> {
        match (figure.how, figure.key().as_str()) {
            (How::None, _) => Ok(Vec::new()),
            (How::Virtual, _) => Ok(self.player.series(&figure.paper, &figure.name)),
            (_, "Nemesis07 T1") => counters::instructions(),
            (_, "SpecRndv09 19b") => {
                let run = figure.runs.first().ok_or("the figure has no run")?;
                counters::volume(&mut self.runner, run)
            }
            _ => self.measured(figure),
        }
    }

    /// Measures all runs of a figure. Series of one name become one.
    fn measured(&mut self, figure: &PaperFigure) -> Result<Vec<Series>, Box<dyn Error>> {
        let mut all: Vec<Series> = Vec::new();
        for run in &figure.runs {
            self.runner.series(run)?.into_iter().for_each(|series| series.join(&mut all));
        }
        Ok(all)
    }
}

fn verdict(figure: &PaperFigure, findings: &[Finding]) -> Verdict {
    let holds = || findings.iter().map(|finding| finding.holds);
    match () {
        () if figure.how == How::None => Verdict::NotRemade,
        () if holds().any(|holds| holds == Some(false)) => Verdict::Differs,
        () if holds().any(|holds| holds.is_none()) => Verdict::NoData,
        () if figure.part.is_some() => Verdict::HoldsInPart,
        () => Verdict::Holds,
    }
}
