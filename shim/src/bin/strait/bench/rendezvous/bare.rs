//! The bare device beside a computation: how much of the time of a message is hidden where nothing of Strait is in between. No
//! protocol hides more on this device.
//!
//! What is posted is what the rendezvous posts: the end whose call comes later reads the message, or writes it if it is the
//! sender.

use core::error::Error;

use strait::{Op, env};

use super::super::computation::{Processor, Spent, common_time};
use super::super::hca::{self, Bench, Verb};
use super::super::stage::Stage;
use super::message::{End, Passed, Roles, lead, wait_until};

/// What stands in the place of a setting's name.
pub(super) const NAME: &str = "bare device";

/// A device of a pair's rank, apart from the job's.
pub(super) struct Bare<'a> {
    stage: &'a Stage<'a>,
    processor: Processor,
    bench: Bench,
}

impl<'a> Bare<'a> {
    /// With memory for `bytes` bytes; `None` where there is no device between the ranks of a pair.
    pub(super) fn new(
        stage: &'a Stage<'a>,
        processor: Processor,
        bytes: usize,
    ) -> Result<Option<Self>, Box<dyn Error>> {
        let Some(choice) = env::hca()?.filter(|_| stage.crosses()) else { return Ok(None) };
        let bench = Bench::connect(stage, hca::open(stage, &choice)?, bytes)?;
        Ok(Some(Self { stage, processor, bench }))
    }

    /// One transfer of `bytes` bytes, with a computation of `amount` nanoseconds beside it. The figures are those of all ranks.
    pub(super) fn pass(
        &mut self,
        roles: Roles,
        bytes: usize,
        amount: f64,
    ) -> Result<Passed, Box<dyn Error>> {
        let Self { stage, processor, bench } = self;
        let verb = match roles.first {
            Some(End::Receiver) => Verb::Write,
            Some(End::Sender) | None => Verb::Read,
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
