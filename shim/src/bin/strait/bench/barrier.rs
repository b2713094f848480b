//! `strait bench barrier`: how long a barrier takes, by each way that it can go.

use core::error::Error;

use strait::Group;
use strait_core::shm::{FLAGS, Way};

use super::report::{Report, Row};
use super::sampling::Effort;
use super::stage::Stage;
use super::stats::Summary;
use super::together::{self, COLUMNS, Together};

/// The first context of the groups that are measured.
const CONTEXT: u32 = 100;

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Variant {
    /// What `Endpoint::barrier` does.
    Chosen,
    By(Way),
    Messages,
}

/// Every variant, under its name.
const VARIANTS: [(Variant, &str); 5] = [
    (Variant::Chosen, "as chosen"),
    (Variant::By(Way::Word), "counter, one word"),
    (Variant::By(Way::Flags), "flags"),
    (Variant::By(Way::Signal), "counter and signal"),
    (Variant::Messages, "messages"),
];

/// Number of measurements.
pub(super) const STEPS: usize = VARIANTS.len();

/// One variant, among all ranks.
struct Meeting<'a> {
    group: Group<'a>,
    variant: Variant,
}

impl<'a> Meeting<'a> {
    fn new(stage: &'a Stage<'a>, number: u32, variant: Variant) -> Result<Self, Box<dyn Error>> {
        let all: Vec<_> = (0..stage.ranks()).collect();
        let group = stage.endpoint.with_context(CONTEXT + number).group(&all)?;
        if variant == Variant::Messages {
            group.meet_by_messages();
        }
        Ok(Self { group, variant })
    }
}

impl Together for Meeting<'_> {
    fn run(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            match self.variant {
                Variant::By(way) => self.group.barrier_by(way)?,
                Variant::Chosen | Variant::Messages => self.group.barrier()?,
            }
        }
        Ok(())
    }
}

pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[&["barrier"], &COLUMNS[..]].concat());
    for (number, (variant, name)) in (0..).zip(VARIANTS) {
        if variant == Variant::By(Way::Flags) && stage.ranks() as usize > FLAGS {
            report.step();
            continue;
        }
        let mut meeting = Meeting::new(stage, number, variant)?;
        let samples = together::measure(stage, effort, &mut meeting)?;
        let row = |metric, unit, summary: Summary| {
            Row::new("barrier", 0, metric, unit, summary).of_variant(name)
        };
        if let Some([min, p50, p99, bare, times]) = together::tell(report, &samples, row)? {
            report.line([name.to_owned(), min, p50, p99, bare, times]);
        }
        report.step();
    }
    Ok(())
}
