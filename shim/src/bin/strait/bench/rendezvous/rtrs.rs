//! How many RTRs a measurement sends and what becomes of them: the usage of [SpecRndv09] §3.6 and §4.3.

use core::error::Error;
use std::io;

use strait::{Op, Rendezvous};

use super::super::report::{Report, Row};
use super::super::stage::Stage;
use super::super::stats::Summary;
use super::setting;

/// RTRs of all ranks in one sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    sent: f64,
    heard: f64,
    used: f64,
}

impl Counts {
    /// Counts while `once` measures.
    pub(super) fn during<F>(
        stage: &Stage<'_>,
        once: impl FnOnce() -> Result<F, Box<dyn Error>>,
    ) -> Result<(F, Self), Box<dyn Error>> {
        let before = stage.endpoint.world().rtrs();
        let figures = once()?;
        // What came with the last messages is looked at.
        stage.endpoint.progress()?;
        let after = stage.endpoint.world().rtrs();
        let mut counts =
            [after.sent - before.sent, after.heard - before.heard, after.used - before.used]
                .map(|count| count as f64);
        stage.endpoint.allreduce(&mut counts, Op::Sum)?;
        let [sent, heard, used] = counts;
        Ok((figures, Self { sent, heard, used }))
    }

    /// RTRs that came and were of no use.
    fn dropped(self) -> f64 {
        (self.heard - self.used).max(0.0)
    }
}

/// The columns of [`tell`]: one for each setting with RTRs.
pub(super) fn columns() -> Vec<String> {
    setting::ALL[1..].iter().map(|setting| format!("RTRs used, {}", setting.name())).collect()
}

/// Reports the counts of each setting, RTRs of an iteration, in rows made by `row` of setting, metric, unit and figures; gives
/// the cells under [`columns`].
pub(super) fn tell(
    report: &Report,
    samples: &[Vec<Counts>],
    iterations: u64,
    row: impl Fn(Rendezvous, &'static str, &'static str, Summary) -> Row,
) -> io::Result<Vec<String>> {
    let mut cells = Vec::new();
    for (setting, own) in setting::ALL.into_iter().zip(samples).skip(1) {
        let of = |what: &dyn Fn(&Counts) -> f64| -> Vec<f64> { own.iter().map(what).collect() };
        let [sent, heard, used, dropped] = [
            of(&|all| all.sent),
            of(&|all| all.heard),
            of(&|all| all.used),
            of(&|all| all.dropped()),
        ];
        let metrics = [("sent", &sent), ("heard", &heard), ("used", &used), ("dropped", &dropped)];
        for (metric, counts) in metrics {
            let of_iteration: Vec<_> = counts.iter().map(|all| all / iterations as f64).collect();
            if let Some(figures) = Summary::of_costs(&of_iteration) {
                report.row(row(setting, metric, "RTRs", figures))?;
            }
        }
        let factors =
            own.iter().filter(|all| all.heard > 0.0).map(|all| 100.0 * all.used / all.heard);
        if let Some(figures) = Summary::of_gains(&factors.collect::<Vec<_>>()) {
            report.row(row(setting, "usage", "%", figures))?;
        }
        let [heard, used] = [heard, used].map(|counts| counts.iter().sum::<f64>());
        cells.push(match heard > 0.0 {
            true => format!("{used} of {heard}, {:.0} %", 100.0 * used / heard),
            false => "none sent".to_owned(),
        });
    }
    Ok(cells)
}
