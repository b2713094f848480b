//! How a measurement is taken: many short samples, each of a bare batch and a batch of messages, one after the other.
//!
//! Hypervisors move processors: now they share a cache, now they do not, and everything takes four times as long.
//! Within one sample the processors stay where they are, so the ratio of its two halves means something.
//!
//! Nothing between two looks at the watch allocates or enters the kernel, but for what is measured.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use super::stage::{Order, Side, Stage};
use crate::payload::Mismatch;

/// How long one half of a sample should take: long against the watch, short against the moods of a hypervisor.
const TARGET: Duration = Duration::from_micros(200);

/// Samples that are taken before those that count, and rounds before any.
const WARM_UP: u32 = 10;

/// Something that can be repeated, by a leader and a follower at once.
pub(crate) trait Batch {
    /// Gets ready for a sample: what is sent carries the pattern of `seed`. Not timed.
    fn prepare(&mut self, _seed: u64) {}

    /// The leader's part of `rounds` rounds. Timed.
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error>;

    /// The follower's part of `rounds` rounds.
    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error>;

    /// Checks what arrived last, all of it. Not timed.
    fn verify(&self, _seed: u64) -> Result<(), Mismatch> {
        Ok(())
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Samples, at most.
    pub(crate) samples: usize,
    /// Rounds in a sample; `None`: as many as take 200 µs.
    pub(crate) rounds: Option<u64>,
    /// No sample begins later than this, but for the first, and none to warm up.
    pub(crate) limit: Duration,
}

/// Nanoseconds of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Of the bare batch; 0 without one.
    pub(crate) bare: f64,
    /// Of the batch that is measured.
    pub(crate) work: f64,
}

/// Measures `work` beside `bare`. All ranks call it; only leaders get samples, at least one.
///
/// # Errors
///
/// A call failed, or a payload arrived damaged.
pub(crate) fn measure<'a>(
    stage: &'a Stage<'a>,
    effort: Effort,
    bare: Option<&'a mut dyn Batch>,
    work: &'a mut dyn Batch,
) -> Result<Vec<Sample>, Box<dyn Error>> {
    stage.barrier()?;
    let mut both = Both { stage, bare, work, seed: 0 };
    match stage.side {
        Side::Leader => both.lead(effort),
        Side::Follower => both.follow().map(|()| Vec::new()),
        Side::Idle => Ok(Vec::new()),
    }
}

/// The two halves of a sample.
struct Both<'a> {
    stage: &'a Stage<'a>,
    bare: Option<&'a mut dyn Batch>,
    work: &'a mut dyn Batch,
    /// Of the last sample.
    seed: u64,
}

impl Both<'_> {
    fn lead(&mut self, effort: Effort) -> Result<Vec<Sample>, Box<dyn Error>> {
        let deadline = Instant::now() + effort.limit;
        let bare_rounds = match self.bare {
            Some(_) => self.calibrate(deadline, |both, rounds| Ok(both.sample(rounds, 0)?.0))?,
            None => 0,
        };
        let rounds = match effort.rounds {
            Some(rounds) => rounds,
            None => self.calibrate(deadline, |both, rounds| Ok(both.sample(0, rounds)?.1))?,
        };
        for _ in (0..WARM_UP).take_while(|_| Instant::now() < deadline) {
            self.sample(bare_rounds, rounds)?;
        }
        let mut samples = Vec::with_capacity(effort.samples);
        while samples.is_empty() || samples.len() < effort.samples && Instant::now() < deadline {
            let (bare, work) = self.sample(bare_rounds, rounds)?;
            samples.push(Sample { bare: per(bare, bare_rounds), work: per(work, rounds) });
        }
        self.stage.give_order(Order::STOP)?;
        Ok(samples)
    }

    fn follow(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            let order = self.stage.take_order()?;
            self.work.prepare(order.seed());
            self.stage.be_ready()?;
            if order.is_stop() {
                return Ok(());
            }
            if let Some(bare) = &mut self.bare {
                bare.follow(order.bare_rounds())?;
            }
            self.work.follow(order.rounds())?;
            if order.rounds() > 0 {
                self.work.verify(order.seed())?;
            }
        }
    }

    /// One sample: how long each half took.
    fn sample(
        &mut self,
        bare_rounds: u64,
        rounds: u64,
    ) -> Result<(Duration, Duration), Box<dyn Error>> {
        self.seed += 1;
        self.work.prepare(self.seed);
        self.stage.give_order(Order::new(self.seed, bare_rounds, rounds))?;
        let start = Instant::now();
        if let Some(bare) = &mut self.bare {
            bare.lead(bare_rounds)?;
        }
        let middle = Instant::now();
        self.work.lead(rounds)?;
        let end = Instant::now();
        if rounds > 0 {
            self.work.verify(self.seed)?;
        }
        Ok((middle - start, end - middle))
    }

    /// The number of rounds that take [`TARGET`].
    fn calibrate(
        &mut self,
        deadline: Instant,
        mut once: impl FnMut(&mut Self, u64) -> Result<Duration, Box<dyn Error>>,
    ) -> Result<u64, Box<dyn Error>> {
        // The first rounds touch memory, open ways and try transfers out.
        for _ in (0..WARM_UP).take_while(|_| Instant::now() < deadline) {
            once(self, 1)?;
        }
        let mut rounds = 1;
        // Doubling ends: every round takes some time.
        while once(self, rounds)? < TARGET {
            rounds *= 2;
        }
        Ok(rounds)
    }
}

/// Nanoseconds of one of `rounds` rounds.
fn per(time: Duration, rounds: u64) -> f64 {
    time.as_nanos() as f64 / rounds.max(1) as f64
}
