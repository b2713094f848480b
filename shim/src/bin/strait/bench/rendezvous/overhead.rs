//! `strait bench overhead`: what the protocol costs messages that gain nothing by it ([SpecRndv09] §4.4, figure 19a).
//!
//! Messages there and back by blocking calls, of every size; and large messages whose ends make their calls at the same time, so
//! that what the receiver sends crosses with what the sender sends, and is of no use.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use strait::{Rendezvous, Tuning};

use super::super::computation::Processor;
use super::super::in_turn;
use super::super::latency::PingPong;
use super::super::report::{Report, Row};
use super::super::sampling::{Batch, Effort};
use super::super::stage::{Side, Stage};
use super::super::stats;
use super::message::{End, Message, Roles};
use super::setting;

/// How long the messages of one sample should take.
const TARGET: Duration = Duration::from_millis(1);

/// Two ends that come at the same time.
const CROSSING: Roles = Roles { computes: End::Receiver, first: None };

/// Number of measurements with these sizes.
pub(super) fn steps(stage: &Stage<'_>, sizes: &[usize]) -> usize {
    sizes.len() + large(stage, sizes).count()
}

pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[&["overhead", "bytes"], &setting::columns()[..]].concat());
    let mut tell = |name: &str, bytes, samples: &[Vec<f64>]| -> Result<(), Box<dyn Error>> {
        let row = |setting: Rendezvous, metric, unit, figures| {
            let variant = format!("{name}, {}", setting.name());
            Row::new("overhead", bytes, metric, unit, figures).of_variant(variant)
        };
        let cells = setting::compare(report, samples, row)?;
        report.line([vec![name.to_owned(), stats::bytes(bytes)], cells].concat());
        report.step();
        Ok(())
    };
    for &bytes in sizes {
        tell("there and back", bytes, &there_and_back(stage, effort, bytes)?)?;
    }
    for bytes in large(stage, sizes) {
        tell("crossing", bytes, &crossing(stage, effort, bytes)?)?;
    }
    Ok(())
}

/// Those of `sizes` that have ends that could cross.
fn large(stage: &Stage<'_>, sizes: &[usize]) -> impl Iterator<Item = usize> {
    let Tuning { eager_max, stream_max, .. } = stage.endpoint.world().tuning();
    let unasked_max = if stage.crosses() { stream_max } else { eager_max };
    sizes.iter().copied().filter(move |&bytes| bytes > unasked_max)
}

/// One way, nanoseconds, for each setting.
fn there_and_back(
    stage: &Stage<'_>,
    effort: Effort,
    bytes: usize,
) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    // In the same memory for all settings: where it lies makes more of a difference than they do.
    let mut way = PingPong::new(setting::endpoint(stage, 0, 0), stage.partner, bytes);
    let run = |way: &mut PingPong<'_>, rounds| match stage.side {
        Side::Leader => way.lead(rounds),
        Side::Follower => way.follow(rounds),
        Side::Idle => Ok(()),
    };
    let rounds = match effort.rounds {
        Some(rounds) => rounds,
        None => in_turn::rounds(stage, TARGET, |rounds| run(&mut way, rounds))?,
    };
    in_turn::measure(stage, effort, setting::ALL.len(), |setting, seed| {
        way.switch(setting::endpoint(stage, setting, 0));
        way.prepare(seed);
        stage.endpoint.barrier()?;
        let start = Instant::now();
        run(&mut way, rounds)?;
        let took = start.elapsed();
        if stage.side != Side::Idle {
            way.verify(seed)?;
        }
        Ok(took.as_nanos() as f64 / (2 * rounds) as f64)
    })
}

/// One way, nanoseconds, for each setting.
fn crossing(
    stage: &Stage<'_>,
    effort: Effort,
    bytes: usize,
) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    let mut message = Message::new(stage, Processor::new(), CROSSING, 1, bytes)?;
    in_turn::measure(stage, effort, setting::ALL.len(), |way, seed| {
        Ok(message.pass(way, 0.0, seed)?.time)
    })
}
