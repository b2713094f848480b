//! One message. Its ends make their calls in a given order, and one end computes before it waits.
//!
//! The order does not depend on chance. The first end makes its call. Then it writes, in a line of
//! memory outside Strait, the time at which the other end makes its own call. That time is later
//! than anything that the first call sends can take.
//!
//! Until then no rank is in the library that would not be there in a program. So no rank handles an
//! arrived packet too early.

use core::error::Error;
use core::time::Duration;
use std::thread;

use strait::{Endpoint, Op, Rank, Request, Scope};
use strait_core::sync::Ordering;

use super::{device, setting};
use crate::measure::computation::{Processor, Spent, common_time};
use crate::measure::lane::PairMemory;
use crate::measure::line::{ONE_PROCESSOR, spin_until};
use crate::measure::stage::{BenchStage, TAG};
use crate::payload;

/// Time from the first call to the second on one node, where packets arrive at once, in
/// nanoseconds.
const LEAD_ON_NODE: u64 = 5_000;

/// Time from the first call to the second between nodes, in nanoseconds. It is many times the
/// latency of a short message, and of a device with a thread that has to wait for a processor.
const LEAD_BETWEEN_NODES: u64 = 5_000_000;

/// Time before its call for which an end polls the clock, in nanoseconds. Before that it leaves its
/// processor to the devices.
const WATCH: u64 = 200_000;

/// An end of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MessageSide {
    Sender,
    Receiver,
}

impl MessageSide {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// The roles of the ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Roles {
    /// The end that computes between its call and its wait, while the other waits in the library.
    /// It is the leader's.
    pub(super) computes: MessageSide,
    /// The end that makes its call first. `None`: both at the same time.
    pub(super) first: Option<MessageSide>,
}

impl Roles {
    /// The four cases of the paper's figures 13 and 14.
    pub(super) const ALL: [Self; 4] = [
        Self { computes: MessageSide::Receiver, first: Some(MessageSide::Sender) },
        Self { computes: MessageSide::Receiver, first: Some(MessageSide::Receiver) },
        Self { computes: MessageSide::Sender, first: Some(MessageSide::Sender) },
        Self { computes: MessageSide::Sender, first: Some(MessageSide::Receiver) },
    ];

    /// Returns the name of the case in the paper's words.
    pub(super) fn name(self) -> String {
        let first = self.first.map_or("both", MessageSide::name);
        format!("{} computes, {first} first", self.computes.name())
    }
}

/// A pair of ranks with a message between them.
pub(super) struct RendezvousPair<'a> {
    stage: &'a BenchStage<'a>,
    lane: &'static PairMemory,
    processor: Processor,
    roles: Roles,
    own: MessageSide,
    /// The number of the measurement, for [`setting::endpoint`].
    number: u32,
    /// The bytes that are sent or received.
    data: Vec<u8>,
    /// The last value of the line.
    said: u64,
}

/// The times of one message in nanoseconds, of the slowest pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// Time from the later call until both ends know that the message is complete.
    pub(super) time: f64,
    /// The computation meanwhile.
    pub(super) spent: Spent,
}

impl Passed {
    /// Returns the figures of all ranks.
    pub(super) fn of_all(self, stage: &BenchStage<'_>) -> Result<Self, strait::Error> {
        let Self { time, spent } = self;
        let mut figures = [time, spent.amount, spent.time];
        stage.endpoint.allreduce(&mut figures, Op::Max)?;
        let [time, amount, computed] = figures;
        Ok(Self { time, spent: Spent { amount, time: computed } })
    }
}

impl<'a> RendezvousPair<'a> {
    /// Makes one end. Both ends make theirs while the line is at rest.
    pub(super) fn new(
        stage: &'a BenchStage<'a>,
        processor: Processor,
        roles: Roles,
        number: u32,
        bytes: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let lane = stage.lane.ok_or(ONE_PROCESSOR)?;
        device::leave_to_computation(stage)?;
        let own = match (roles.computes, stage.leads()) {
            (own, true) => own,
            (MessageSide::Sender, false) => MessageSide::Receiver,
            (MessageSide::Receiver, false) => MessageSide::Sender,
        };
        let said = lane.line.0.load(Ordering::Acquire);
        Ok(Self { stage, lane, processor, roles, own, number, data: vec![0; bytes], said })
    }

    /// Sends one message beside a computation of `amount` nanoseconds. The figures are those of all
    /// ranks.
    pub(super) fn pass(
        &mut self,
        setting: usize,
        amount: f64,
        seed: u64,
    ) -> Result<Passed, Box<dyn Error>> {
        let endpoint = setting::endpoint(self.stage, setting, self.number);
        if self.own == MessageSide::Sender {
            payload::fill(&mut self.data, seed);
        }
        self.stage.endpoint.barrier()?;
        let passed = self.exchange(endpoint, amount)?;
        if self.own == MessageSide::Receiver {
            payload::verify(&self.data, seed)?;
        }
        Ok(passed.of_all(self.stage)?)
    }

    /// Returns the roles of the ends, and the length of the message.
    pub(super) const fn case(&self) -> (Roles, usize) {
        (self.roles, self.data.len())
    }

    fn exchange(&mut self, endpoint: Endpoint<'_>, amount: f64) -> Result<Passed, strait::Error> {
        let Self { stage, lane, processor, roles, own, data, said, .. } = self;
        let (line, lead) = (&lane.line.0, lead(stage));
        let is_first = roles.first == Some(*own);
        endpoint.scope(|scope| {
            let begin = |data| begin(scope, *own, data, stage.partner);
            let mut data = Some(&mut data[..]);
            let early = if is_first { data.take().map(begin).transpose()? } else { None };
            if is_first || roles.first.is_none() && stage.leads() {
                *said = common_time() + lead;
                line.store(*said, Ordering::Release);
            } else {
                let before = *said;
                let mut is_said = || {
                    *said = line.load(Ordering::Acquire);
                    *said != before
                };
                while stage.crosses() && !is_said() {
                    thread::sleep(Duration::from_nanos(WATCH));
                }
                spin_until::<false>(is_said);
            }
            let start = *said;
            if !is_first || stage.leads() {
                wait_until(start);
            }
            let late = data.take().map(begin).transpose()?;
            let spent = match stage.leads() {
                true => processor.compute(amount),
                false => Spent::default(),
            };
            for request in [early, late].into_iter().flatten() {
                request.wait()?;
            }
            Ok(Passed { time: common_time().saturating_sub(start) as f64, spent })
        })
    }
}

/// Makes the call of this end.
fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    own: MessageSide,
    data: &'scope mut [u8],
    peer: Rank,
) -> Result<Request<'scope>, strait::Error> {
    match own {
        MessageSide::Sender => scope.isend(&*data, peer, TAG),
        MessageSide::Receiver => scope.irecv(data, peer, TAG),
    }
}

/// Waits until a common time, outside the library.
pub(super) fn wait_until(time: u64) {
    let rest = time.saturating_sub(common_time()).saturating_sub(WATCH);
    if rest > 0 {
        thread::sleep(Duration::from_nanos(rest));
    }
    spin_until::<false>(|| common_time() >= time);
}

/// Returns the time from the first call to the second, in nanoseconds.
pub(super) fn lead(stage: &BenchStage<'_>) -> u64 {
    if stage.crosses() { LEAD_BETWEEN_NODES } else { LEAD_ON_NODE }
}
