//! Several messages in flight: exchanges, windows of 64 messages, and tags in reverse order.

use core::error::Error;

use strait::{Endpoint, Tag, wait_all};

use super::ping_pong::exchange;
use super::table::{self, PatternRow, Unit};
use crate::bench::options::WINDOW;
use crate::measure::sampling::Batch;
use crate::measure::stage::{BenchStage, TAG};
use crate::payload::{self, Mismatch};

/// The patterns of the group `requests`.
pub(super) const PATTERNS: [PatternRow; 8] = [
    exchange(8),
    exchange(1 << 10),
    exchange(8 << 10),
    table::windows("window of 64", 8, WINDOW as u32, Unit::Time),
    table::windows("window of 64", 64, WINDOW as u32, Unit::Time),
    table::windows("window of 64", 1 << 10, WINDOW as u32, Unit::Time),
    PatternRow {
        name: "reverse, recv",
        bytes: 8,
        operations: 2 * TAGS,
        unit: Unit::Time,
        make: |stage, _, pattern| make(stage, pattern, false),
    },
    PatternRow {
        name: "reverse, irecv",
        bytes: 8,
        operations: TAGS,
        unit: Unit::Time,
        make: |stage, _, pattern| make(stage, pattern, true),
    },
];

/// Number of messages before they are received, each with its own tag.
const TAGS: u32 = 16;

/// The tag of the first message. The answers have [`TAG`].
const FIRST: Tag = TAG + 1;

fn make<'a>(
    stage: &'a BenchStage<'a>,
    pattern: &PatternRow,
    requests: bool,
) -> Result<Box<dyn Batch + 'a>, Box<dyn Error>> {
    let BenchStage { endpoint, partner, .. } = *stage;
    let (out, arrived) = (vec![0; pattern.bytes], vec![0; pattern.bytes * TAGS as usize]);
    let receives = !requests || !stage.leads();
    Ok(Box::new(Reverse { endpoint, partner, requests, receives, out, arrived }))
}

/// One side: messages with ascending tags, received in descending order.
struct Reverse<'world> {
    endpoint: Endpoint<'world>,
    partner: u32,
    /// The follower posts all receives and sends one answer. Otherwise the receives are blocking,
    /// and the answers are as many messages.
    requests: bool,
    receives: bool,
    out: Vec<u8>,
    arrived: Vec<u8>,
}

impl Reverse<'_> {
    fn send_all(&self) -> Result<(), strait::Error> {
        (0..TAGS).try_for_each(|k| self.endpoint.send(&self.out, self.partner, FIRST + k))
    }

    fn receive_all(&mut self) -> Result<(), strait::Error> {
        let Self { endpoint, partner, out, arrived, .. } = self;
        let buffers = arrived.chunks_exact_mut(out.len());
        buffers
            .zip((0..TAGS).rev())
            .try_for_each(|(buffer, k)| endpoint.recv(buffer, *partner, FIRST + k).map(drop))
    }

    fn receive_posted(&mut self) -> Result<(), strait::Error> {
        let Self { endpoint, partner, out, arrived, .. } = self;
        endpoint.scope(|scope| {
            let mut buffers = arrived.chunks_exact_mut(out.len());
            let mut requests = Vec::with_capacity(TAGS as usize);
            for k in (0..TAGS).rev() {
                let Some(buffer) = buffers.next() else { break };
                requests.push(scope.irecv(buffer, *partner, FIRST + k)?);
            }
            wait_all(&mut requests)
        })
    }
}

impl Batch for Reverse<'_> {
    fn prepare(&mut self, seed: u64) {
        payload::fill(&mut self.out, seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| {
            self.send_all()?;
            match self.requests {
                true => self.endpoint.recv::<[u8]>(&mut [], self.partner, TAG).map(drop),
                false => self.receive_all(),
            }
        })
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| match self.requests {
            true => {
                self.receive_posted()?;
                self.endpoint.send::<[u8]>(&[], self.partner, TAG)
            }
            false => {
                self.receive_all()?;
                self.send_all()
            }
        })
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        if !self.receives {
            return Ok(());
        }
        let mut messages = self.arrived.chunks_exact(self.out.len());
        messages.try_for_each(|message| payload::verify(message, seed))
    }
}
