//! What the benches of windows share: the windows, the verbs and the report.

use core::error::Error;
use std::borrow::Cow;

use strait::{Window, WindowDesign};

use crate::measure::memory::MemoryKind;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Sample;
use crate::measure::stage::BenchStage;
use crate::measure::stats::{self, SampleSummary, time};

/// Number of operations between two flushes in a bandwidth measurement (`[OneSided04]` §3.4.3).
pub(super) const BURST: usize = 16;

/// The operation on the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WindowVerb {
    Put,
    Get,
    Accumulate,
}

impl WindowVerb {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Accumulate => "accumulate",
        }
    }
}

/// Makes a window over one kind of memory, with `bytes` bytes at each rank.
pub(crate) fn window<'a>(
    stage: &BenchStage<'a>,
    memory: MemoryKind,
    bytes: usize,
    design: WindowDesign,
) -> Result<Window<'a>, strait::Error> {
    let all: Vec<_> = (0..stage.ranks()).collect();
    let all = stage.endpoint.group(&all)?;
    match memory {
        MemoryKind::Segment => Window::builder(&all).options(design).allocate(bytes),
        MemoryKind::Private => {
            Window::builder(&all).options(design).over(vec![0_u64; bytes.div_ceil(8)])
        }
    }
}

/// Reports the rows and the line of one measurement of all pairs.
pub(super) fn tell(
    stage: &BenchStage<'_>,
    report: &mut Report,
    bench: &'static str,
    name: impl Into<Cow<'static, str>>,
    bytes: usize,
    limit: Option<&'static str>,
    samples: &[Sample],
) -> Result<(), Box<dyn Error>> {
    let both: Vec<f64> = samples.iter().flat_map(|sample| [sample.bare, sample.work]).collect();
    let both = stage.gather(&both, stage.pairs())?.concat();
    let (pairs, _) = both.as_chunks::<2>();
    let of = |what: fn(&[f64; 2]) -> f64| {
        SampleSummary::of_costs(&pairs.iter().map(what).collect::<Vec<_>>())
    };
    let name = name.into();
    let Some(SampleSummary { min, p50, p99, .. }) = of(|[_, work]| *work) else {
        report.step();
        return Ok(());
    };
    let row = |metric, unit, figures| {
        Row::new(bench, bytes, metric, unit, figures).of_variant(name.clone())
    };
    report.row(row("time", "ns", SampleSummary { min, p50, p99, samples: pairs.len() }))?;
    let (mut bare, mut times) = Default::default();
    let against = of(|[bare, _]| *bare).zip(of(|[bare, work]| work / bare));
    if let Some(((cost, ratio), limit)) = against.zip(limit) {
        report.row(row(limit, "ns", cost))?;
        report.row(row("ratio", "x", ratio))?;
        (bare, times) = (time(cost.p50), stats::ratio(ratio.p50));
    }
    report.line([name.into_owned(), time(min), time(p50), time(p99), bare, times]);
    report.step();
    Ok(())
}
