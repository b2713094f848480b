//! Kernels under every setting of the rendezvous in turn, in one run ([SpecRndv09] figure 17).

use core::error::Error;

use strait::Rendezvous;

use super::kernel::{NpbClass, NpbKernel};
use super::run::KernelRun;
use crate::bench::p2p::rendezvous::rtrs::{self, RtrCounts};
use crate::bench::p2p::rendezvous::setting;
use crate::measure::in_turn;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Effort;
use crate::measure::stage::BenchStage;

/// Measures each problem under every setting.
pub(super) fn compare(
    stage: &BenchStage<'_>,
    report: &mut Report,
    effort: Effort,
    problems: &[(NpbKernel, NpbClass)],
) -> Result<(), Box<dyn Error>> {
    let rtrs = rtrs::columns();
    let rtrs: Vec<&str> = rtrs.iter().map(String::as_str).collect();
    report.columns(&[&["kernel", "of it"], &setting::columns()[..], &rtrs].concat());
    for (number, (kernel, class)) in (0..).zip(problems) {
        let samples = in_turn::measure(stage, effort, setting::ALL.len(), |way, _| {
            let endpoint = setting::endpoint(stage, way, number);
            RtrCounts::during(stage, || {
                KernelRun::measure(stage, endpoint, *kernel, *class).map(|(run, _)| run)
            })
        })?;
        let (runs, counts) = setting::apart(samples);
        tell(report, &format!("{kernel}.{class}"), &runs, &counts)?;
        report.step();
    }
    Ok(())
}

/// Writes the numbers of a problem, by setting.
fn tell(
    report: &mut Report,
    name: &str,
    runs: &[Vec<KernelRun>],
    counts: &[Vec<RtrCounts>],
) -> Result<(), Box<dyn Error>> {
    for what in ["run", "waits"] {
        let is_run = what == "run";
        let value = |run: &KernelRun| if is_run { run.time_ns } else { run.waited_ns };
        let samples: Vec<Vec<f64>> =
            runs.iter().map(|runs| runs.iter().map(value).collect()).collect();
        let row = |setting: Rendezvous, metric, unit, figures| {
            let variant = format!("{name}, {what}, {}", setting.name());
            Row::new("npb", 0, metric, unit, figures).of_variant(variant)
        };
        let cells = setting::compare(report, &samples, row)?;
        let rtrs = match is_run {
            true => rtrs::tell(report, counts, 1, row)?,
            false => vec![String::new(); rtrs::columns().len()],
        };
        report.line([vec![name.to_owned(), what.to_owned()], cells, rtrs].concat());
    }
    Ok(())
}
