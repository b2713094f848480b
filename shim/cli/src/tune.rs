//! `strait tune`: the sizes from which one path of a message is faster than another on this
//! machine.
//!
//! Each size takes both paths in turn, within one sample of [`measure`], so that the ratio survives
//! a hypervisor that moves the processors.
//!
//! With `--profile` it runs a program instead, and finds how that program's messages are best
//! negotiated.

mod channel;
mod profile;

use core::error::Error;
use core::time::Duration;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use strait::boot::SegmentConfig;
use strait::{Tuning, World};

use crate::bench::p2p::latency::PingPong;
use crate::job;
use crate::measure::line;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::{Batch, Effort, measure};
use crate::measure::stage::BenchStage;
use crate::measure::stats::{self, SampleSummary};
use crate::output::say;
use crate::payload::Mismatch;

/// The factor up to which a slower path counts as equally good.
const AS_GOOD: f64 = 1.02;

/// Number of consecutive sizes at which the upper path must win before the search ends: one may be
/// noise.
const BEATEN: usize = 2;

/// Measure the sizes from which one path of a message is faster than another, and print the
/// settings for this machine
///
/// With --profile, run a program's job instead and write its rendezvous profile:
/// strait tune --profile DIR strait run -n 4 ./program
#[derive(Args, Debug)]
pub(crate) struct Tune {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Maximum number of samples of each measurement
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,
    /// Run the command, have its ranks write their rendezvous profiles into this directory, and
    /// print the setting for later runs. With --json, the command prints to standard error
    #[arg(long, value_name = "DIR", requires = "command", conflicts_with = "samples")]
    profile: Option<PathBuf>,
    /// The command that starts the job
    #[arg(requires = "profile", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// A setting that divides two paths: messages up to it take the lower one.
struct Knob {
    name: &'static str,
    variable: &'static str,
    parts: &'static str,
    sizes: &'static [usize],
    field: fn(&mut Tuning) -> &mut usize,
    /// Whether messages use parcels meanwhile. The other settings are for messages that find none.
    parcels: bool,
}

const KNOBS: [Knob; 3] = [
    Knob {
        name: "fastbox_max",
        variable: "STRAIT_FASTBOX_MAX",
        parts: "fastbox, then cells",
        sizes: &[128, 256, 512, 768, 1024, 1536, 2048, 3072, 4095],
        field: |tuning| &mut tuning.fastbox_max,
        parcels: false,
    },
    Knob {
        name: "eager_max",
        variable: "STRAIT_EAGER_MAX",
        parts: "eager, then announced",
        sizes: &[
            4 << 10,
            8 << 10,
            12 << 10,
            16 << 10,
            24 << 10,
            32 << 10,
            48 << 10,
            64 << 10,
            96 << 10,
            128 << 10,
            256 << 10,
        ],
        field: |tuning| &mut tuning.eager_max,
        parcels: false,
    },
    Knob {
        name: "parcel_max",
        variable: "STRAIT_PARCEL_MAX",
        parts: "parcels, then without",
        // Larger messages do not fit into the parcels with which a rank starts.
        sizes: &[2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10],
        field: |tuning| &mut tuning.parcel_max,
        parcels: true,
    },
];

/// One crossover, for programs.
#[derive(Serialize)]
struct Crossover {
    tune: &'static str,
    variable: &'static str,
    /// The last size in bytes at which the lower path is as good.
    crossover: usize,
    /// The setting in force.
    current: usize,
}

/// Messages there and back while a setting is in force.
struct TunedPingPong<'world> {
    world: &'world World,
    tuning: Tuning,
    messages: PingPong<'world>,
}

impl Batch for TunedPingPong<'_> {
    fn prepare(&mut self, seed: u64) {
        self.messages.prepare(seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.world.retune(self.tuning);
        self.messages.lead(rounds)
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.world.retune(self.tuning);
        self.messages.follow(rounds)
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        self.messages.verify(seed)
    }
}

impl Tune {
    /// Runs the command of `--profile`, or starts the ranks, which then call [`Tune::run`].
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        if let Some(directory) = &self.profile {
            return profile::record(directory, &self.command, self.json);
        }
        job::start(SegmentConfig::new(2), 1, Vec::new(), std::env::args_os().skip(1))
    }

    /// Runs the measurements on each rank.
    pub(crate) fn run(&self, stage: &BenchStage<'_>) -> Result<(), Box<dyn Error>> {
        let effort = Effort {
            samples: self.samples as usize,
            rounds: None,
            limit: Duration::from_millis(500),
        };
        let steps = KNOBS.iter().map(|knob| knob.sizes.len()).sum::<usize>();
        let steps = steps + channel::SIZES.len() + channel::LONG_SIZES.len();
        let mut report = Report::new(stage, self.json, steps);
        report.columns(&["setting", "size", "lower way", "upper way", "upper / lower"]);
        let before = line::probe(stage)?;
        let found = KNOBS.map(|knob| search(stage, effort, &knob, &mut report));
        let in_channel = channel::search(stage, effort, &mut report);
        let design = channel::choose(stage, effort, &mut report);
        let after = line::probe(stage)?;
        report.finish(before, after)?;
        for (knob, crossover) in KNOBS.iter().zip(found) {
            let current = *(knob.field)(&mut stage.endpoint.world().tuning());
            let Knob { name, variable, .. } = *knob;
            let crossover = crossover?;
            tell(stage, self.json, &Crossover { tune: name, variable, crossover, current })?;
        }
        tell(stage, self.json, &in_channel?)?;
        tell_design(stage, self.json, &design?)
    }
}

/// Returns the last size at which the lower path is as good. The result is arbitrary on ranks other
/// than 0.
fn search(
    stage: &BenchStage<'_>,
    effort: Effort,
    knob: &Knob,
    report: &mut Report,
) -> Result<usize, Box<dyn Error>> {
    let mut ratios = Vec::with_capacity(knob.sizes.len());
    for &bytes in knob.sizes {
        let ratio = compare(stage, effort, knob, bytes, report)?;
        ratios.push((bytes, ratio));
        report.step();
    }
    Ok(crossover(&ratios))
}

/// Returns the median ratio of the upper path's time to the lower path's, for messages of `bytes`
/// bytes.
fn compare(
    stage: &BenchStage<'_>,
    effort: Effort,
    knob: &Knob,
    bytes: usize,
    report: &mut Report,
) -> Result<f64, Box<dyn Error>> {
    let world = stage.endpoint.world();
    let standing = world.tuning();
    let under = |limit| {
        let mut tuning = standing;
        if !knob.parcels {
            tuning.parcel_max = 0;
        }
        *(knob.field)(&mut tuning) = limit;
        TunedPingPong {
            world,
            tuning,
            messages: PingPong::new(stage.endpoint, stage.partner, bytes),
        }
    };
    let (mut lower, mut upper) = (under(bytes), under(bytes - 1));
    let ratio =
        judge(stage, effort, (knob.name, knob.parts, bytes), &mut lower, &mut upper, report);
    world.retune(standing);
    ratio
}

/// Returns the median ratio of the time of `upper` to that of `lower`. `what` is the name of the
/// setting, the two paths, and the length of the messages.
fn judge(
    stage: &BenchStage<'_>,
    effort: Effort,
    (name, parts, bytes): (&'static str, &'static str, usize),
    lower: &mut dyn Batch,
    upper: &mut dyn Batch,
    report: &mut Report,
) -> Result<f64, Box<dyn Error>> {
    let samples = measure(stage, effort, Some(lower), upper)?;
    let of = |what: fn(f64, f64) -> f64| {
        let of_all: Vec<f64> =
            samples.iter().map(|sample| what(sample.bare / 2.0, sample.work / 2.0)).collect();
        SampleSummary::of_costs(&of_all)
    };
    let (Some(lower), Some(upper), Some(ratio)) =
        (of(|lower, _| lower), of(|_, upper| upper), of(|lower, upper| upper / lower))
    else {
        return Ok(1.0);
    };
    for (metric, unit, figures) in
        [("lower", "ns", lower), ("upper", "ns", upper), ("ratio", "x", ratio)]
    {
        report.row(Row::new("tune", bytes, metric, unit, figures).of_variant(name))?;
    }
    report.line([
        format!("{name} ({parts})"),
        stats::bytes(bytes),
        stats::time(lower.p50),
        stats::time(upper.p50),
        stats::ratio(ratio.p50),
    ]);
    Ok(ratio.p50)
}

/// Returns the last size, in ascending order, before the upper path wins [`BEATEN`] times in
/// sequence. If it always wins, returns half of the first size.
fn crossover(ratios: &[(usize, f64)]) -> usize {
    let mut best = ratios.first().map_or(0, |(bytes, _)| bytes / 2);
    let mut beaten = 0;
    for &(bytes, ratio) in ratios {
        if ratio * AS_GOOD >= 1.0 {
            (best, beaten) = (bytes, 0);
        } else {
            beaten += 1;
        }
        if beaten == BEATEN {
            break;
        }
    }
    best
}

fn tell(stage: &BenchStage<'_>, json: bool, found: &Crossover) -> Result<(), Box<dyn Error>> {
    if !stage.reports() {
        return Ok(());
    }
    let Crossover { variable, crossover, current, .. } = *found;
    if json {
        return Ok(say(&serde_json::to_string(found)?)?);
    }
    Ok(say(&format!("export {variable}={crossover}    # in force here: {current}"))?)
}

fn tell_design(
    stage: &BenchStage<'_>,
    json: bool,
    found: &channel::DesignChoice,
) -> Result<(), Box<dyn Error>> {
    if !stage.reports() {
        return Ok(());
    }
    if json {
        return Ok(say(&serde_json::to_string(found)?)?);
    }
    let channel::DesignChoice { variable, choice, current, .. } = *found;
    Ok(say(&format!("export {variable}={choice}    # in force here: {current}"))?)
}

#[cfg(test)]
mod tests {
    use super::crossover;

    #[test]
    fn the_crossover_is_the_last_size_before_the_upper_way_wins_for_good() {
        assert_eq!(crossover(&[(8, 2.0), (16, 1.5), (32, 0.5), (64, 0.4), (128, 3.0)]), 16);
        assert_eq!(crossover(&[(8, 2.0), (16, 0.5), (32, 1.5), (64, 0.4)]), 32);
        assert_eq!(crossover(&[(8, 0.2), (16, 0.5)]), 4);
        assert_eq!(crossover(&[(8, 1.2), (16, 0.99)]), 16);
    }
}
