//! The settings of the rendezvous that are measured beside each other.

use std::io;

use strait::Endpoint;

use super::super::report::{Report, Row};
use super::super::stage::Stage;
use super::super::stats::{Summary, time};

/// The first context of measured messages.
const CONTEXT: u32 = 1000;

/// A way to begin a rendezvous ([SpecRndv09]).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Setting {
    /// The sender begins.
    Plain,
}

impl Setting {
    /// Every setting; what the others are held against comes first.
    pub(super) const ALL: [Self; 1] = [Self::Plain];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
        }
    }

    /// Puts the setting in force for what this rank begins from now on. The endpoint is that of the measurement `number`: what
    /// the library learns of its messages it learns for this setting and this measurement alone.
    pub(super) fn endpoint<'world>(self, stage: &Stage<'world>, number: u32) -> Endpoint<'world> {
        let place = Self::ALL.len() as u32 * number + self as u32;
        stage.endpoint.with_context(CONTEXT + place)
    }
}

/// The columns of [`compare`]: a time for each setting, and by how much it differs from the first.
pub(super) fn columns() -> Vec<&'static str> {
    let changes = [&[][..], &["change"]];
    let columns = Setting::ALL.into_iter().enumerate();
    columns.flat_map(|(at, setting)| [&[setting.name()], changes[at.min(1)]].concat()).collect()
}

/// Reports the samples of each setting in nanoseconds, in rows made by `row` of setting, metric, unit and figures; gives the
/// cells under [`columns`]. Samples of one number were taken in a row, so that each is compared with that of the first setting.
pub(super) fn compare(
    report: &Report,
    samples: &[Vec<f64>],
    row: impl Fn(Setting, &'static str, &'static str, Summary) -> Row,
) -> io::Result<Vec<String>> {
    let mut cells = Vec::new();
    for (setting, own) in Setting::ALL.into_iter().zip(samples) {
        let Some(figures) = Summary::of_costs(own) else { continue };
        report.row(row(setting, "time", "ns", figures))?;
        cells.push(time(figures.p50));
        let ratios = own.iter().zip(&samples[0]).map(|(own, first)| own / first);
        let ratios = Summary::of_costs(&ratios.collect::<Vec<_>>());
        if let Some(ratio) = ratios.filter(|_| setting != Setting::ALL[0]) {
            report.row(row(setting, "ratio", "x", ratio))?;
            cells.push(format!("{:+.1} %", 100.0 * (ratio.p50 - 1.0)));
        }
    }
    Ok(cells)
}
