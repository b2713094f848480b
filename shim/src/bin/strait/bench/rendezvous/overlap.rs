//! `strait bench overlap`: how much computation is hidden behind one message ([SpecRndv09] §4.2.1, §4.2.2, figure 13).
//!
//! The computation between a call and its wait is raised. As long as it is hidden the whole takes as long as without it; from
//! the amount on that is no more hidden, the whole grows as the computation does. Overlap is the most that was hidden, in
//! parts of the time of the message alone. Between nodes the [bare device](super::bare) is measured beside the settings.

use core::error::Error;

use strait::Rendezvous;

use super::super::computation::Processor;
use super::super::in_turn;
use super::super::report::{Report, Row};
use super::super::sampling::Effort;
use super::super::stage::Stage;
use super::super::stats::{self, Summary, time};
use super::bare::{self, Bare};
use super::message::{Message, Passed, Roles};
use super::setting;

/// The amounts of computation, in parts of the message's own time. The first is none.
pub(super) const RUNGS: [f64; 7] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0];

/// Number of measurements of one size.
pub(super) const STEPS: usize = Roles::ALL.len();

pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let processor = Processor::new();
    let mut bare = Bare::new(stage, processor, longest(sizes))?;
    let ways = ways(bare.as_ref());
    let figures: Vec<_> = ways.iter().map(|way| [*way, "overlap", "stolen"]).collect();
    report.columns(&[&["overlap", "bytes"], figures.as_flattened()].concat());
    for (number, roles) in (0..).zip(Roles::ALL) {
        for &bytes in sizes {
            let mut message = Message::new(stage, processor, roles, number, bytes)?;
            let samples = climb(stage, effort, &mut message, bare.as_mut())?;
            let mut line = vec![roles.name(), stats::bytes(bytes)];
            for (way, rungs) in ways.iter().zip(samples.chunks(RUNGS.len())) {
                let Some(Overlap { alone, hidden, stolen }) = Overlap::of(rungs) else { continue };
                for (metric, unit, figures) in
                    [("time", "ns", alone), ("overlap", "%", hidden), ("stolen", "%", stolen)]
                {
                    let variant = format!("{}, {way}", roles.name());
                    report.row(
                        Row::new("overlap", bytes, metric, unit, figures).of_variant(variant),
                    )?;
                }
                line.push(time(alone.p50));
                line.extend([hidden, stolen].map(|percent| format!("{:.0} %", percent.p50)));
            }
            report.line(line);
            report.step();
        }
    }
    bare.map_or(Ok(()), Bare::end)
}

/// The longest of these messages.
pub(super) fn longest(sizes: &[usize]) -> usize {
    sizes.iter().copied().max().unwrap_or(0)
}

/// The names of what [`climb`] measures, in its order: the settings, and the bare device if there is one.
pub(super) fn ways(bare: Option<&Bare<'_>>) -> Vec<&'static str> {
    setting::ALL.map(Rendezvous::name).into_iter().chain(bare.map(|_| bare::NAME)).collect()
}

/// Measures a message beside each amount of computation, in parts of the time that it takes alone and under the first setting:
/// for each of the [`ways`] the rungs in their order.
pub(super) fn climb(
    stage: &Stage<'_>,
    effort: Effort,
    message: &mut Message<'_>,
    mut bare: Option<&mut Bare<'_>>,
) -> Result<Vec<Vec<Passed>>, Box<dyn Error>> {
    let alone = in_turn::measure(stage, effort.rough(), 1, |_, seed| message.pass(0, 0.0, seed))?;
    // Every rank has the same figures.
    let alone = times(&alone[0]).map_or(0.0, |alone| effort.at_most(alone.min));
    let count = ways(bare.as_deref()).len();
    in_turn::measure(stage, effort, count * RUNGS.len(), |number, seed| {
        let (way, amount) = (number / RUNGS.len(), alone * RUNGS[number % RUNGS.len()]);
        match &mut bare {
            Some(bare) if way == setting::ALL.len() => {
                let (roles, bytes) = message.case();
                bare.pass(roles, bytes, amount)
            }
            _ => message.pass(way, amount, seed),
        }
    })
}

pub(super) fn times(samples: &[Passed]) -> Option<Summary> {
    Summary::of_costs(&samples.iter().map(|passed| passed.time).collect::<Vec<_>>())
}

/// What one setting does in one case.
struct Overlap {
    /// The time of the message alone, nanoseconds.
    alone: Summary,
    /// Hidden computation, in percent of that.
    hidden: Summary,
    /// What others had of the processor while the rank computed, in percent.
    stolen: Summary,
}

impl Overlap {
    fn of(rungs: &[Vec<Passed>]) -> Option<Self> {
        let alone = times(rungs.first()?)?;
        let hidden = |samples: &Vec<Passed>| {
            let hidden = samples.iter().map(|Passed { time, spent }| {
                // What the whole is shorter by than one after the other, both undisturbed.
                let hidden = alone.min + spent.amount - time;
                100.0 * (hidden / alone.min).clamp(0.0, 1.0)
            });
            Summary::of_gains(&hidden.collect::<Vec<_>>())
        };
        let hidden = rungs[1..].iter().filter_map(hidden);
        let stolen = rungs[1..].iter().flatten().map(|Passed { spent, .. }| spent.stolen());
        Some(Self {
            alone,
            hidden: hidden.max_by(|one, other| one.p50.total_cmp(&other.p50))?,
            stolen: Summary::of_costs(&stolen.collect::<Vec<_>>())?,
        })
    }
}
