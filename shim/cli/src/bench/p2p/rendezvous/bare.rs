//! The bare device beside a computation: the hidden part of a message's time without Strait. No
//! protocol hides more on this device.
//!
//! The posted requests are those of the rendezvous. The end that makes its call later reads the
//! message, or writes it if it is the sender.

use core::error::Error;

use strait::{Op, env};

use super::message::{MessageSide, Passed, Roles, lead, wait_until};
use crate::measure::computation::{Processor, Spent, common_time};
use crate::measure::device::{DeviceBench, DeviceVerb, open};
use crate::measure::stage::BenchStage;

/// The name that replaces a setting's name.
pub(super) const NAME: &str = "bare device";

/// A device of a pair's rank, separate from the job's device.
pub(super) struct Bare<'a> {
    stage: &'a BenchStage<'a>,
    processor: Processor,
    bench: DeviceBench,
}

impl<'a> Bare<'a> {
    /// Opens a device with memory for `bytes` bytes. Returns `None` if there is no device between
    /// the ranks of a pair.
    pub(super) fn new(
        stage: &'a BenchStage<'a>,
        processor: Processor,
        bytes: usize,
    ) -> Result<Option<Self>, Box<dyn Error>> {
        let Some(choice) = env::hca()?.filter(|_| stage.crosses()) else { return Ok(None) };
        let bench = DeviceBench::connect(stage, open(stage, &choice)?, bytes)?;
        Ok(Some(Self { stage, processor, bench }))
    }

    /// Transfers `bytes` bytes once, beside a computation of `amount` nanoseconds. The figures are
    /// those of all ranks.
    pub(super) fn pass(
        &mut self,
        roles: Roles,
        bytes: usize,
        amount: f64,
    ) -> Result<Passed, Box<dyn Error>> {
        let Self { stage, processor, bench } = self;
        let verb = match roles.first {
            Some(MessageSide::Receiver) => DeviceVerb::Write,
            Some(MessageSide::Sender) | None => DeviceVerb::Read,
        };
        // The end that computes is the leader's.
        let posts = stage.leads() != (roles.first == Some(roles.computes));
        let mut start = [common_time() + lead(stage)];
        stage.endpoint.allreduce(&mut start, Op::Max)?;
        wait_until(start[0]);
        if posts {
            bench.post(verb, bytes)?;
        }
        let spent = match stage.leads() {
            true => processor.compute(amount),
            false => Spent::default(),
        };
        if posts {
            bench.next()?;
        }
        let time = common_time().saturating_sub(start[0]) as f64;
        Ok(Passed { time, spent }.of_all(stage)?)
    }

    pub(super) fn end(self) -> Result<(), Box<dyn Error>> {
        self.bench.end(self.stage)
    }
}
