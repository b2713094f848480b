//! `strait bench cacheline`: the hardware's own limits.

use core::error::Error;

use clap::Args;

use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::line::{
    Bounce, LineTransfer, ONE_PROCESSOR, STREAM_ROUND, SlotStream, one_way,
};
use crate::measure::report::{Report, Row};
use crate::measure::sampling::measure;
use crate::measure::stage::BenchStage;
use crate::measure::stats::{SampleSummary, time};

/// The hardware's own limits: one cache line bounced, and messages through bare slots
#[derive(Args, Debug)]
pub(crate) struct CachelineBench {
    #[command(flatten)]
    common: Common,
}

impl Benchmark for CachelineBench {
    fn common(&self) -> Common {
        self.common
    }

    fn needs_two_processors(&self) -> bool {
        true
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(LineTransfer::ALL.len() + 1)
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        report.columns(&["bare hardware, 8 bytes", "min", "p50", "p99"]);
        let (lane, effort) = (stage.lane.ok_or(ONE_PROCESSOR)?, self.common.effort());
        for (hand_over, name) in LineTransfer::ALL {
            let samples = measure(stage, effort, None, &mut Bounce::new(lane, hand_over))?;
            tell(stage, report, name, "line", &one_way(&samples))?;
        }
        let samples = measure(stage, effort, None, &mut SlotStream::new(lane))?;
        let each = samples.iter().map(|sample| sample.work / STREAM_ROUND as f64);
        tell(stage, report, "slot stream, per message", "gap", &each.collect::<Vec<_>>())
    }
}

fn tell(
    stage: &BenchStage<'_>,
    report: &mut Report,
    name: &'static str,
    metric: &'static str,
    costs: &[f64],
) -> Result<(), Box<dyn Error>> {
    let all = stage.gather(costs, stage.pairs())?.concat();
    if let Some(summary) = SampleSummary::of_costs(&all) {
        report.row(Row::new("cacheline", 8, metric, "ns", summary).of_variant(name))?;
        report.line([name.to_owned(), time(summary.min), time(summary.p50), time(summary.p99)]);
    }
    report.step();
    Ok(())
}
