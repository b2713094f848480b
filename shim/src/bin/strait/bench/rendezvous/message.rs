//! One message whose ends come to their calls in a given order, and of whose ends one computes before it waits.
//!
//! The order does not depend on luck: the end that is to be first makes its call and then says, in a line of memory that is none
//! of Strait's, at what time the other is to make its own, later than whatever the first call sends can take. Until then
//! nobody is in the library who would not be there in a program, so that what has arrived is seen by nobody too early.

use core::error::Error;
use core::time::Duration;
use std::thread;

use strait::{Endpoint, Op, Rank, Request, Scope};
use strait_core::sync::Ordering;

use super::super::cacheline::{ONE_PROCESSOR, spin_until};
use super::super::computation::{Processor, Spent, common_time};
use super::super::lane::Lane;
use super::super::stage::{Stage, TAG};
use super::{device, setting};
use crate::payload;

/// From the first call to the second on one node, where what is sent is there at once, nanoseconds.
const LEAD_ON_NODE: u64 = 5_000;

/// The same between nodes: many times a short message's way, and that of a device whose thread has to wait for a processor.
const LEAD_BETWEEN_NODES: u64 = 5_000_000;

/// For how long an end looks at the clock before its call, nanoseconds; before that it leaves its processor to the devices.
const WATCH: u64 = 200_000;

/// An end of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    Sender,
    Receiver,
}

impl End {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// Who does what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Roles {
    /// The end that computes between its call and its wait; the other waits in the library. It is the leader's.
    pub(super) computes: End,
    /// The end whose call comes first; `None`: both at the same time.
    pub(super) first: Option<End>,
}

impl Roles {
    /// The four cases of the paper's figures 13 and 14.
    pub(super) const ALL: [Self; 4] = [
        Self { computes: End::Receiver, first: Some(End::Sender) },
        Self { computes: End::Receiver, first: Some(End::Receiver) },
        Self { computes: End::Sender, first: Some(End::Sender) },
        Self { computes: End::Sender, first: Some(End::Receiver) },
    ];

    /// In the words of the paper.
    pub(super) fn name(self) -> String {
        let first = self.first.map_or("both", End::name);
        format!("{} computes, {first} first", self.computes.name())
    }
}

/// A pair of ranks with a message between them.
pub(super) struct Message<'a> {
    stage: &'a Stage<'a>,
    lane: &'static Lane,
    processor: Processor,
    roles: Roles,
    own: End,
    /// The measurement, for [`setting::endpoint`].
    number: u32,
    /// What is sent, or what arrives.
    data: Vec<u8>,
    /// What the line said last.
    said: u64,
}

/// What came of one message, nanoseconds, of the pair that took longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// From the later call until both ends know that it is over.
    pub(super) time: f64,
    /// The computation meanwhile.
    pub(super) spent: Spent,
}

impl Passed {
    /// The figures of all ranks.
    pub(super) fn of_all(self, stage: &Stage<'_>) -> Result<Self, strait::Error> {
        let Self { time, spent } = self;
        let mut figures = [time, spent.amount, spent.time];
        stage.endpoint.allreduce(&mut figures, Op::Max)?;
        let [time, amount, computed] = figures;
        Ok(Self { time, spent: Spent { amount, time: computed } })
    }
}

impl<'a> Message<'a> {
    /// Both ends make theirs while the line is at rest.
    pub(super) fn new(
        stage: &'a Stage<'a>,
        processor: Processor,
        roles: Roles,
        number: u32,
        bytes: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let lane = stage.lane.ok_or(ONE_PROCESSOR)?;
        device::leave_to_computation(stage)?;
        let own = match (roles.computes, stage.leads()) {
            (own, true) => own,
            (End::Sender, false) => End::Receiver,
            (End::Receiver, false) => End::Sender,
        };
        let said = lane.line.0.load(Ordering::Acquire);
        Ok(Self { stage, lane, processor, roles, own, number, data: vec![0; bytes], said })
    }

    /// One message, with a computation of `amount` nanoseconds beside it. The figures are those of all ranks.
    pub(super) fn pass(
        &mut self,
        setting: usize,
        amount: f64,
        seed: u64,
    ) -> Result<Passed, Box<dyn Error>> {
        let endpoint = setting::endpoint(self.stage, setting, self.number);
        if self.own == End::Sender {
            payload::fill(&mut self.data, seed);
        }
        self.stage.endpoint.barrier()?;
        let passed = self.exchange(endpoint, amount)?;
        if self.own == End::Receiver {
            payload::verify(&self.data, seed)?;
        }
        Ok(passed.of_all(self.stage)?)
    }

    /// Who does what, and the length of the message.
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
    own: End,
    data: &'scope mut [u8],
    peer: Rank,
) -> Result<Request<'scope>, strait::Error> {
    match own {
        End::Sender => scope.isend(&*data, peer, TAG),
        End::Receiver => scope.irecv(data, peer, TAG),
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

/// How long the second call comes after the first, nanoseconds.
pub(super) fn lead(stage: &Stage<'_>) -> u64 {
    if stage.crosses() { LEAD_BETWEEN_NODES } else { LEAD_ON_NODE }
}
