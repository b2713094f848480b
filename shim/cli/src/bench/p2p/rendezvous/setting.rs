//! The settings of the rendezvous ([SpecRndv09]) that are compared.

use std::io;

use strait::{Endpoint, Rendezvous, Transfer, Tuning};

use crate::measure::report::{Report, Row};
use crate::measure::stage::BenchStage;
use crate::measure::stats::{SampleSummary, time};

/// The first context of measured messages.
const CONTEXT: u32 = 1000;

/// All settings. The first is the reference for the others.
pub(in crate::bench) const ALL: [Rendezvous; 3] = Rendezvous::ALL;

const _: () = assert!(matches!(ALL[0], Rendezvous::Plain));

/// Name of the forced setting: the default rendezvous, and one copy made by both sides in place of
/// the transfer that the library chooses. Its place is behind those of [`ALL`].
pub(super) const FORCED: &str = "cma_shared";

/// Activates the setting at this place in [`ALL`], or [`FORCED`], for later operations of this
/// rank. Returns the endpoint of the measurement `number`.
///
/// The library's estimates from these messages apply to this setting and this measurement alone.
pub(in crate::bench) fn endpoint<'world>(
    stage: &BenchStage<'world>,
    setting: usize,
    number: u32,
) -> Endpoint<'world> {
    let world = stage.endpoint.world();
    let tuning = world.tuning();
    let transfer = match ALL.get(setting) {
        None => Transfer::CmaShared,
        // The user's choice stays.
        Some(_) if std::env::var_os("STRAIT_LMT").is_some() => tuning.transfer,
        Some(_) => Transfer::Auto,
    };
    let rendezvous = ALL.get(setting).copied().unwrap_or_default();
    world.retune(Tuning { rendezvous, transfer, ..tuning });
    stage.endpoint.with_context(CONTEXT + (ALL.len() as u32 + 1) * number + setting as u32)
}

/// Returns the columns of [`compare`]: a time for each setting, and its difference from the first.
pub(in crate::bench) fn columns() -> Vec<&'static str> {
    let changes = [&[][..], &["change"]];
    let columns = ALL.into_iter().enumerate();
    columns.flat_map(|(at, setting)| [&[setting.name()], changes[at.min(1)]].concat()).collect()
}

/// Reports the samples of each setting in nanoseconds. `row` makes each row from setting, metric,
/// unit and figures. Returns the cells under [`columns`].
///
/// Samples of one number were taken in sequence, so each is compared with that of the first
/// setting.
pub(in crate::bench) fn compare(
    report: &Report,
    samples: &[Vec<f64>],
    row: impl Fn(Rendezvous, &'static str, &'static str, SampleSummary) -> Row,
) -> io::Result<Vec<String>> {
    let mut cells = Vec::new();
    for (setting, own) in ALL.into_iter().zip(samples) {
        let Some(figures) = SampleSummary::of_costs(own) else { continue };
        report.row(row(setting, "time", "ns", figures))?;
        cells.push(time(figures.p50));
        let ratios = own.iter().zip(&samples[0]).map(|(own, first)| own / first);
        let ratios = SampleSummary::of_costs(&ratios.collect::<Vec<_>>());
        if let Some(ratio) = ratios.filter(|_| setting != ALL[0]) {
            report.row(row(setting, "ratio", "x", ratio))?;
            cells.push(format!("{:+.1} %", 100.0 * (ratio.p50 - 1.0)));
        }
    }
    Ok(cells)
}

/// Separates the figures of each setting from the counts beside them.
pub(in crate::bench) fn apart<F, C>(samples: Vec<Vec<(F, C)>>) -> (Vec<Vec<F>>, Vec<Vec<C>>) {
    samples.into_iter().map(|own| own.into_iter().unzip()).unzip()
}
