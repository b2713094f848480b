//! Counts of RTRs in a measurement, by their outcome: the usage of [SpecRndv09] §3.6 and §4.3.

use core::error::Error;
use std::io;

use strait::{Op, Rendezvous};

use super::setting;
use crate::measure::report::{Report, Row};
use crate::measure::stage::BenchStage;
use crate::measure::stats::SampleSummary;

/// The RTRs of all ranks in one sample.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::bench) struct RtrCounts {
    sent: f64,
    heard: f64,
    used: f64,
}

impl RtrCounts {
    /// Counts RTRs while `once` measures.
    pub(in crate::bench) fn during<F>(
        stage: &BenchStage<'_>,
        once: impl FnOnce() -> Result<F, Box<dyn Error>>,
    ) -> Result<(F, Self), Box<dyn Error>> {
        let before = stage.endpoint.world().rtrs();
        let figures = once()?;
        // Packets that came with the last messages are handled first.
        stage.endpoint.progress()?;
        let after = stage.endpoint.world().rtrs();
        let mut counts =
            [after.sent - before.sent, after.heard - before.heard, after.used - before.used]
                .map(|count| count as f64);
        stage.endpoint.allreduce(&mut counts, Op::Sum)?;
        let [sent, heard, used] = counts;
        Ok((figures, Self { sent, heard, used }))
    }

    /// Returns the number of RTRs that arrived and were not used.
    fn dropped(self) -> f64 {
        (self.heard - self.used).max(0.0)
    }
}

/// Returns the columns of [`tell`]: one for each setting with RTRs.
pub(in crate::bench) fn columns() -> Vec<String> {
    setting::ALL[1..].iter().map(|setting| format!("RTRs used, {}", setting.name())).collect()
}

/// Reports the counts of each setting in RTRs of an iteration. `row` makes each row from setting,
/// metric, unit and figures. Returns the cells under [`columns`].
pub(in crate::bench) fn tell(
    report: &Report,
    samples: &[Vec<RtrCounts>],
    iterations: u64,
    row: impl Fn(Rendezvous, &'static str, &'static str, SampleSummary) -> Row,
) -> io::Result<Vec<String>> {
    let mut cells = Vec::new();
    for (setting, own) in setting::ALL.into_iter().zip(samples).skip(1) {
        let of = |what: &dyn Fn(&RtrCounts) -> f64| -> Vec<f64> { own.iter().map(what).collect() };
        let [sent, heard, used, dropped] = [
            of(&|all| all.sent),
            of(&|all| all.heard),
            of(&|all| all.used),
            of(&|all| all.dropped()),
        ];
        let metrics = [("sent", &sent), ("heard", &heard), ("used", &used), ("dropped", &dropped)];
        for (metric, counts) in metrics {
            let of_iteration: Vec<_> = counts.iter().map(|all| all / iterations as f64).collect();
            if let Some(figures) = SampleSummary::of_costs(&of_iteration) {
                report.row(row(setting, metric, "RTRs", figures))?;
            }
        }
        let factors =
            own.iter().filter(|all| all.heard > 0.0).map(|all| 100.0 * all.used / all.heard);
        if let Some(figures) = SampleSummary::of_gains(&factors.collect::<Vec<_>>()) {
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
