//! The applications of `[SpecRndv09]` figure 17 on four nodes, in virtual time.

use strait_core::rndv::Rendezvous;
use strait_sim::engines::{Application, ApplicationCosts, Machine, run};

use super::series::Series;

/// The settings that the paper compares with the plain rendezvous.
const SETTINGS: [Rendezvous; 2] = [Rendezvous::Speculative, Rendezvous::Adaptive];

/// The assumptions that count. They have no name.
const MAIN: (&str, Machine) = ("", Machine::OF_2005);

/// A card on which a read waits until the read before it on the connection has ended.
const ONE_READ: (&str, Machine) =
    (", one read at a time", Machine { reads: 1, ..Machine::OF_2005 });

/// Less and more skew.
const SKEWS: [(&str, Machine); 2] = [
    (", skew 0.1 %", Machine { skew: 0.001, ..Machine::OF_2005 }),
    (", skew 1 %", Machine { skew: 0.01, ..Machine::OF_2005 }),
];

/// The costs of each application under each setting of the rendezvous.
#[derive(Clone, Debug)]
pub(super) struct PlayedApplications {
    /// The end of the names of its series.
    name: &'static str,
    plain: Vec<ApplicationCosts>,
    changed: [Vec<ApplicationCosts>; 2],
}

impl PlayedApplications {
    /// Plays all applications, in full also with other assumptions.
    pub(super) fn play(quick: bool) -> Vec<Self> {
        let others = if quick { &[][..] } else { &SKEWS };
        [MAIN, ONE_READ].iter().chain(others).map(|assumed| Self::with(*assumed)).collect()
    }

    fn with((name, machine): (&'static str, Machine)) -> Self {
        let all = |rendezvous: Rendezvous| {
            let costs = Application::ALL.map(|application| run(application, rendezvous, machine));
            costs.to_vec()
        };
        Self { name, plain: all(Rendezvous::Plain), changed: SETTINGS.map(all) }
    }

    /// Makes a series of each setting. An application without a value has no point.
    fn series(
        &self,
        what: &str,
        of: impl Fn(&ApplicationCosts, &ApplicationCosts) -> f64,
    ) -> [Series; 2] {
        [0, 1].map(|at| {
            let values = self.plain.iter().zip(&self.changed[at]);
            let values = (0..).map(f64::from).zip(values.map(|(plain, other)| of(plain, other)));
            let points = values.filter(|(_, y)| y.is_finite()).map(|(x, y)| [x, y]);
            let name = format!("{}{what}{}", SETTINGS[at].name(), self.name);
            Series::ours(name, points.collect())
        })
    }

    /// Returns the changes of the waits in percent, without and with blocking calls.
    pub(super) fn waits(&self) -> Vec<Series> {
        let change = |plain: f64, other: f64| 100.0 * (other / plain - 1.0);
        let waits = self.series("", |plain, other| change(plain.waits_ms, other.waits_ms));
        let all = |costs: &ApplicationCosts| costs.waits_ms + costs.blocking_ms;
        let with_blocking =
            self.series(", with blocking calls", |plain, other| change(all(plain), all(other)));
        waits.into_iter().chain(with_blocking).collect()
    }

    /// Returns the parts of the RTRs that were used, in percent, and the numbers of RTRs.
    pub(super) fn rtrs(&self) -> Vec<Series> {
        let used = self.series("", |_, ApplicationCosts { rtrs: [sent, used], .. }| {
            100.0 * *used as f64 / *sent as f64
        });
        let sent = self.series(", sent", |_, costs| costs.rtrs[0] as f64);
        used.into_iter().chain(sent).collect()
    }
}
