//! `strait bench scale`: the start of many ranks, the first messages between all of them, and the
//! memory that each rank then has.

use core::cell::OnceCell;
use core::error::Error;
use std::ffi::OsString;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use strait::{Request, Scope, World, wait_all};

use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::footprint::Footprint;
use crate::measure::report::{Report, Row};
use crate::measure::stage::{BenchStage, TAG};
use crate::measure::stats::{SampleSummary, time};

/// Time from the launcher to the last rank, a barrier, messages between all pairs, and the memory
/// of each rank
#[derive(Args, Debug)]
pub(crate) struct ScaleBench {
    #[command(flatten)]
    common: Common,
    /// What this rank saw when it had joined.
    #[arg(skip)]
    joined: OnceCell<Joined>,
}

/// The end of a rank's start.
#[derive(Clone, Copy, Debug)]
struct Joined {
    /// Nanoseconds since the launcher began.
    after_ns: f64,
    footprint: Footprint,
}

/// The variable that tells the ranks when the launcher began, in nanoseconds of the system's
/// monotonic clock.
const LAUNCHED: &str = "BENCH_LAUNCHED_NS";

/// The measured times, in order.
const TIMES: [&str; 4] = ["start", "first barrier", "first all-to-all", "second all-to-all"];

/// The measured memory, in order.
const MEMORY: [&str; 5] = [
    "private, joined",
    "private, after all-to-all",
    "mapped of the segment, after all-to-all",
    "share of the segment, joined",
    "share of the segment, after all-to-all",
];

impl Benchmark for ScaleBench {
    fn common(&self) -> Common {
        self.common
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![(LAUNCHED.into(), now_ns().to_string().into())]
    }

    fn prepare(&self, world: &World) {
        let launched = std::env::var(LAUNCHED).ok().and_then(|text| text.parse().ok());
        let after_ns =
            launched.map_or(f64::NAN, |launched: u64| now_ns().saturating_sub(launched) as f64);
        // A second start in this process does not exist.
        let _ = self.joined.set(Joined { after_ns, footprint: Footprint::of_rank(world) });
    }

    fn needs_line(&self) -> bool {
        false
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(TIMES.len() + MEMORY.len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let world = stage.endpoint.world();
        let joined = *self.joined.get().ok_or("this rank was not prepared")?;
        let mut times = vec![joined.after_ns];
        let timed = |work: &dyn Fn() -> Result<(), strait::Error>| {
            let before = now_ns();
            work().map(|()| (now_ns() - before) as f64)
        };
        times.push(timed(&|| stage.endpoint.everyone().barrier())?);
        times.push(timed(&|| all_to_all(stage))?);
        stage.endpoint.everyone().barrier()?;
        times.push(timed(&|| all_to_all(stage))?);
        stage.endpoint.everyone().barrier()?;
        let after = Footprint::of_rank(world);
        let memory = [
            joined.footprint.private,
            after.private,
            after.mapped_of_segment,
            joined.footprint.share_of_segment,
            after.share_of_segment,
        ];
        stage.endpoint.everyone().barrier()?;
        let all = stage.gather(&[&times[..], &memory].concat(), stage.ranks())?;
        report.columns(&["of all ranks", "min", "p50", "p99", "max"]);
        let names = TIMES.iter().map(|name| (name, "time", "ns"));
        let names = names.chain(MEMORY.iter().map(|name| (name, "memory", "bytes")));
        for (place, (name, metric, unit)) in names.enumerate() {
            let samples: Vec<f64> = all.iter().map(|numbers| numbers[place]).collect();
            if let Some(summary) = SampleSummary::of_costs(&samples) {
                let SampleSummary { min, p50, p99, .. } = summary;
                let max = samples.iter().copied().fold(0.0, f64::max);
                let text = |number| if unit == "ns" { time(number) } else { kib(number) };
                report.line(
                    [vec![(*name).to_owned()], [min, p50, p99, max].map(text).to_vec()].concat(),
                );
                report.row(Row::new("scale", 8, metric, unit, summary).of_variant(*name))?;
            }
            report.step();
        }
        Ok(())
    }
}

/// Sends 8 bytes to every other rank, and receives as many from each.
fn all_to_all(stage: &BenchStage<'_>) -> Result<(), strait::Error> {
    let (rank, ranks) = (stage.rank(), stage.ranks());
    let out = [u64::from(rank)];
    let mut into = vec![[0_u64]; ranks as usize];
    stage.endpoint.scope(|scope: &Scope<'_, '_>| {
        let receives = (0..).zip(&mut into).filter(|(peer, _)| *peer != rank);
        let mut requests: Vec<Request<'_>> = receives
            .map(|(peer, place)| scope.irecv(place, peer, TAG))
            .collect::<Result<_, _>>()?;
        for distance in 1..ranks {
            requests.push(scope.isend(&out, (rank + distance) % ranks, TAG)?);
        }
        wait_all(&mut requests)
    })
}

/// Returns the time of the system's monotonic clock, which all processes share.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn kib(bytes: f64) -> String {
    format!("{:.0} KiB", bytes / 1024.0)
}
