//! One message at a time, and exchanges: blocking calls, requests, receives posted before, and
//! receives from any rank.

use strait::{Endpoint, Source, wait_all};

use super::table::{Make, PatternRow, Unit};
use crate::measure::sampling::Batch;
use crate::measure::stage::{BenchStage, TAG};
use crate::payload::{self, Mismatch};

/// The patterns of the group.
pub(super) const PATTERNS: [PatternRow; 16] = [
    blocking(0),
    blocking(8),
    blocking(64),
    blocking(128),
    blocking(512),
    blocking(1 << 10),
    blocking(8 << 10),
    pattern("isend + irecv", 8, |stage, _, p| make(stage, p, Calls::Requests)),
    pattern("isend + irecv", 1 << 10, |stage, _, p| make(stage, p, Calls::Requests)),
    pattern("isend + irecv", 64 << 10, |stage, _, p| make(stage, p, Calls::Requests)),
    pattern("posted before", 8, |stage, _, p| make(stage, p, Calls::PostedBefore)),
    pattern("posted before", 1 << 10, |stage, _, p| make(stage, p, Calls::PostedBefore)),
    pattern("posted before", 64 << 10, |stage, _, p| make(stage, p, Calls::PostedBefore)),
    pattern("any source", 8, |stage, _, p| make(stage, p, Calls::AnySource)),
    pattern("any source", 1 << 10, |stage, _, p| make(stage, p, Calls::AnySource)),
    pattern("any source", 64 << 10, |stage, _, p| make(stage, p, Calls::AnySource)),
];

/// Returns a ping-pong by blocking calls.
pub(super) const fn blocking(bytes: usize) -> PatternRow {
    pattern("ping-pong", bytes, |stage, _, p| make(stage, p, Calls::Blocking))
}

/// Returns an exchange by requests: a round is one message each way at the same time.
pub(super) const fn exchange(bytes: usize) -> PatternRow {
    let make: Make = |stage, _, pattern| make(stage, pattern, Calls::Exchange);
    PatternRow { name: "exchange", bytes, operations: 1, unit: Unit::Time, make }
}

/// Returns a pattern of which a round is a message there and one back.
const fn pattern(name: &'static str, bytes: usize, make: Make) -> PatternRow {
    PatternRow { name, bytes, operations: 2, unit: Unit::Time, make }
}

/// The calls of both sides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Calls {
    Blocking,
    AnySource,
    /// The leader posts both before it waits; the follower answers.
    Requests,
    /// Every receive is posted before its message can arrive; the sends are blocking.
    PostedBefore,
    /// Both sides post a receive and a send, and wait for both.
    Exchange,
}

/// One side.
struct PingPongPattern<'world> {
    endpoint: Endpoint<'world>,
    partner: u32,
    calls: Calls,
    out: Vec<u8>,
    arrived: Vec<u8>,
}

fn make<'a>(
    stage: &'a BenchStage<'a>,
    pattern: &PatternRow,
    calls: Calls,
) -> Result<Box<dyn Batch + 'a>, Box<dyn core::error::Error>> {
    let BenchStage { endpoint, partner, .. } = *stage;
    let (out, arrived) = (vec![0; pattern.bytes], vec![0; pattern.bytes]);
    Ok(Box::new(PingPongPattern { endpoint, partner, calls, out, arrived }))
}

impl PingPongPattern<'_> {
    fn send(&self) -> Result<(), strait::Error> {
        self.endpoint.send(&self.out, self.partner, TAG)
    }

    fn receive(&mut self) -> Result<(), strait::Error> {
        self.endpoint.recv(&mut self.arrived, self.partner, TAG).map(drop)
    }

    fn receive_any(&mut self) -> Result<(), strait::Error> {
        self.endpoint.recv(&mut self.arrived, Source::Any, TAG).map(drop)
    }

    /// Posts a receive, then sends, then waits for the receive.
    fn post_and_send(&mut self) -> Result<(), strait::Error> {
        let Self { endpoint, partner, out, arrived, .. } = self;
        endpoint.scope(|scope| {
            let receive = scope.irecv(arrived, *partner, TAG)?;
            endpoint.send(out, *partner, TAG)?;
            receive.wait().map(drop)
        })
    }

    /// Posts a receive and a send, and waits for both.
    fn post_both(&mut self) -> Result<(), strait::Error> {
        let Self { endpoint, partner, out, arrived, .. } = self;
        endpoint.scope(|scope| {
            let receive = scope.irecv(arrived, *partner, TAG)?;
            let send = scope.isend(out, *partner, TAG)?;
            wait_all(&mut [receive, send])
        })
    }

    /// Posts a receive and waits for it, then a send and waits for it.
    fn answer(&mut self) -> Result<(), strait::Error> {
        let Self { endpoint, partner, out, arrived, .. } = self;
        endpoint.scope(|scope| {
            scope.irecv(arrived, *partner, TAG)?.wait()?;
            scope.isend(out, *partner, TAG)?.wait().map(drop)
        })
    }

    fn receive_posted(&mut self) -> Result<(), strait::Error> {
        let Self { endpoint, partner, arrived, .. } = self;
        endpoint.scope(|scope| scope.irecv(arrived, *partner, TAG)?.wait().map(drop))
    }
}

impl Batch for PingPongPattern<'_> {
    fn prepare(&mut self, seed: u64) {
        payload::fill(&mut self.out, seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        match self.calls {
            Calls::Blocking => (0..rounds).try_for_each(|_| {
                self.send()?;
                self.receive()
            }),
            Calls::AnySource => (0..rounds).try_for_each(|_| {
                self.send()?;
                self.receive_any()
            }),
            Calls::PostedBefore => (0..rounds).try_for_each(|_| self.post_and_send()),
            Calls::Requests | Calls::Exchange => (0..rounds).try_for_each(|_| self.post_both()),
        }
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        match self.calls {
            Calls::Blocking => (0..rounds).try_for_each(|_| {
                self.receive()?;
                self.send()
            }),
            Calls::AnySource => (0..rounds).try_for_each(|_| {
                self.receive_any()?;
                self.send()
            }),
            Calls::PostedBefore if rounds > 0 => {
                // The receive of a round is posted before the answer of the round before.
                self.receive_posted()?;
                (1..rounds).try_for_each(|_| self.post_and_send())?;
                self.send()
            }
            Calls::PostedBefore => Ok(()),
            Calls::Requests => (0..rounds).try_for_each(|_| self.answer()),
            Calls::Exchange => (0..rounds).try_for_each(|_| self.post_both()),
        }
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        payload::verify(&self.arrived, seed)
    }
}
