//! Blocking sends in one direction, with an answer after some number of them.

use core::error::Error;

use strait::Endpoint;

use super::table::{Make, PatternRow, Unit};
use crate::measure::sampling::Batch;
use crate::measure::stage::{BenchStage, TAG};
use crate::payload::{self, Mismatch};

/// Number of messages in a long stream.
const LONG: u32 = 6400;

/// The patterns of the group `streams`.
pub(super) const STREAMS: [PatternRow; 6] = [
    stream("stream of 64", 8, 64),
    stream("stream of 64", 64, 64),
    stream("stream of 64", 1 << 10, 64),
    stream("stream of 6400", 8, LONG),
    stream("stream of 6400", 64, LONG),
    stream("stream of 6400", 1 << 10, LONG),
];

/// The patterns of the group `cliff`. Where a ring is full, a second speed shows.
pub(super) const CLIFF: [PatternRow; 27] = [
    stream("stream of 8", 8, 8),
    stream("stream of 32", 8, 32),
    stream("stream of 48", 8, 48),
    stream("stream of 64", 8, 64),
    stream("stream of 96", 8, 96),
    stream("stream of 128", 8, 128),
    stream("stream of 256", 8, 256),
    stream("stream of 1024", 8, 1024),
    stream("stream of 4096", 8, 4096),
    stream("stream of 8", 64, 8),
    stream("stream of 32", 64, 32),
    stream("stream of 48", 64, 48),
    stream("stream of 64", 64, 64),
    stream("stream of 96", 64, 96),
    stream("stream of 128", 64, 128),
    stream("stream of 256", 64, 256),
    stream("stream of 1024", 64, 1024),
    stream("stream of 4096", 64, 4096),
    stream("stream of 8", 1024, 8),
    stream("stream of 32", 1024, 32),
    stream("stream of 48", 1024, 48),
    stream("stream of 64", 1024, 64),
    stream("stream of 96", 1024, 96),
    stream("stream of 128", 1024, 128),
    stream("stream of 256", 1024, 256),
    stream("stream of 1024", 1024, 1024),
    stream("stream of 4096", 1024, 4096),
];

/// Returns a stream of which a round is `messages` messages and an answer.
const fn stream(name: &'static str, bytes: usize, messages: u32) -> PatternRow {
    let make: Make = make;
    PatternRow { name, bytes, operations: messages, unit: Unit::Time, make }
}

fn make<'a>(
    stage: &'a BenchStage<'a>,
    _: &'a strait::Window<'a>,
    pattern: &PatternRow,
) -> Result<Box<dyn Batch + 'a>, Box<dyn Error>> {
    let BenchStage { endpoint, partner, .. } = *stage;
    let (data, leads) = (vec![0; pattern.bytes], stage.leads());
    Ok(Box::new(StreamPattern { endpoint, partner, messages: pattern.operations, data, leads }))
}

/// One side of a stream.
struct StreamPattern<'world> {
    endpoint: Endpoint<'world>,
    partner: u32,
    messages: u32,
    /// The bytes that the leader sends, or that the follower received.
    data: Vec<u8>,
    leads: bool,
}

impl Batch for StreamPattern<'_> {
    fn prepare(&mut self, seed: u64) {
        if self.leads {
            payload::fill(&mut self.data, seed);
        }
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            for _ in 0..self.messages {
                self.endpoint.send(&self.data, self.partner, TAG)?;
            }
            self.endpoint.recv::<[u8]>(&mut [], self.partner, TAG)?;
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            for _ in 0..self.messages {
                self.endpoint.recv(&mut self.data, self.partner, TAG)?;
            }
            self.endpoint.send::<[u8]>(&[], self.partner, TAG)?;
        }
        Ok(())
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        payload::verify(&self.data, seed)
    }
}
