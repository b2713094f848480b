//! `strait tune`: where one way of a message begins to beat another, on this machine.
//!
//! Each size goes both ways in turns, within one sample of [`measure`], so that the ratio survives a hypervisor that moves
//! the processors.

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use strait::boot::Config;
use strait::{Tuning, World};

use crate::bench::latency::PingPong;
use crate::bench::report::{Report, Row};
use crate::bench::sampling::{Batch, Effort, measure};
use crate::bench::stage::Stage;
use crate::bench::stats::{self, Summary};
use crate::payload::Mismatch;
use crate::{ranks, say};

/// A way that takes longer by less than this is as good.
const AS_GOOD: f64 = 1.02;

/// Sizes in a row at which the upper way must win before the search ends: one may be noise.
const BEATEN: usize = 2;

/// Measure where one way of a message begins to beat another, and print the settings for this machine
#[derive(Args, Debug)]
pub(crate) struct Tune {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// Samples of each measurement, at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,
}

/// A setting that parts two ways: messages up to it take the lower one.
struct Knob {
    name: &'static str,
    variable: &'static str,
    parts: &'static str,
    sizes: &'static [usize],
    field: fn(&mut Tuning) -> &mut usize,
    /// Whether messages go in parcels meanwhile; the other settings are for those that find none.
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
        // No more fit into those that a rank begins with.
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
    /// The last size at which the lower way is as good, bytes.
    crossover: usize,
    /// The setting in force.
    current: usize,
}

/// Messages there and back while a setting holds.
struct Under<'world> {
    world: &'world World,
    tuning: Tuning,
    messages: PingPong<'world>,
}

impl Batch for Under<'_> {
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
    /// Starts the ranks, which then [`Tune::run`].
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        ranks::start(Config::new(2), 1, Vec::new(), std::env::args_os().skip(1))
    }

    /// What each rank does.
    pub(crate) fn run(&self, stage: &Stage<'_>) -> Result<(), Box<dyn Error>> {
        let effort = Effort {
            samples: self.samples as usize,
            rounds: None,
            limit: Duration::from_millis(500),
        };
        let steps = KNOBS.iter().map(|knob| knob.sizes.len()).sum();
        let mut report = Report::new(stage, self.json, steps);
        report.columns(&["setting", "size", "lower way", "upper way", "upper / lower"]);
        let before = crate::bench::cacheline::probe(stage)?;
        let found = KNOBS.map(|knob| search(stage, effort, &knob, &mut report));
        let after = crate::bench::cacheline::probe(stage)?;
        report.finish(before, after)?;
        for (knob, crossover) in KNOBS.iter().zip(found) {
            tell(stage, self.json, knob, crossover?)?;
        }
        Ok(())
    }
}

/// The last size at which the lower way is as good; on ranks other than 0 any number.
fn search(
    stage: &Stage<'_>,
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

/// Time of the upper way by that of the lower one, for messages of `bytes` bytes; the median.
fn compare(
    stage: &Stage<'_>,
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
        Under { world, tuning, messages: PingPong::new(stage.endpoint, stage.partner, bytes) }
    };
    let (mut lower, mut upper) = (under(bytes), under(bytes - 1));
    let samples = measure(stage, effort, Some(&mut lower), &mut upper)?;
    world.retune(standing);
    let of = |what: fn(f64, f64) -> f64| {
        let of_all: Vec<f64> =
            samples.iter().map(|sample| what(sample.bare / 2.0, sample.work / 2.0)).collect();
        Summary::of_costs(&of_all)
    };
    let (Some(lower), Some(upper), Some(ratio)) =
        (of(|lower, _| lower), of(|_, upper| upper), of(|lower, upper| upper / lower))
    else {
        return Ok(1.0);
    };
    for (metric, unit, figures) in
        [("lower", "ns", lower), ("upper", "ns", upper), ("ratio", "x", ratio)]
    {
        report.row(Row::new("tune", bytes, metric, unit, figures).of_variant(knob.name))?;
    }
    report.line([
        format!("{} ({})", knob.name, knob.parts),
        stats::bytes(bytes),
        stats::time(lower.p50),
        stats::time(upper.p50),
        stats::ratio(ratio.p50),
    ]);
    Ok(ratio.p50)
}

/// The last size, going up, before the upper way wins [`BEATEN`] times in a row; half the first one when it always wins.
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

fn tell(
    stage: &Stage<'_>,
    json: bool,
    knob: &Knob,
    crossover: usize,
) -> Result<(), Box<dyn Error>> {
    if !stage.reports() {
        return Ok(());
    }
    let current = *(knob.field)(&mut stage.endpoint.world().tuning());
    let Knob { name, variable, .. } = *knob;
    if json {
        let found = Crossover { tune: name, variable, crossover, current };
        return Ok(say(&serde_json::to_string(&found)?)?);
    }
    Ok(say(&format!("export {variable}={crossover}    # in force here: {current}"))?)
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
