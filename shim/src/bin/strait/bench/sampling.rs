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
use super::stats::{Summary, sum};
use crate::payload::Mismatch;

/// How long one half of a sample should take: long against the watch, short against the moods of a hypervisor.
const TARGET: Duration = Duration::from_micros(200);

/// Samples that are taken before those that count, and rounds before any.
const WARM_UP: u32 = 10;

/// Something that can be repeated, by a leader and a follower at once.
pub(crate) trait Batch {
    /// Rounds of a sample, at least. The first is not as the others are, where it begins with a wait for who was told to begin later.
    fn least(&self) -> u64 {
        1
    }

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

impl Effort {
    /// So many nanoseconds, but no more than a measurement may take: what is computed beside messages of a machine that is busy
    /// with something else would otherwise have no end.
    pub(super) fn at_most(self, nanoseconds: f64) -> f64 {
        nanoseconds.min(self.limit.as_nanos() as f64)
    }

    /// Enough to learn how long something takes that further measurements are planned by.
    pub(super) fn rough(self) -> Self {
        Self { samples: self.samples.min(20), limit: self.limit / 4, ..self }
    }
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
        let bare_rounds = match &self.bare {
            Some(bare) => self
                .calibrate(bare.least(), deadline, |both, rounds| Ok(both.sample(rounds, 0)?.0))?,
            None => 0,
        };
        let rounds = match effort.rounds {
            Some(rounds) => rounds,
            None => self.calibrate(self.work.least(), deadline, |both, rounds| {
                Ok(both.sample(0, rounds)?.1)
            })?,
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

    /// The number of rounds that take [`TARGET`]; `least` at least.
    fn calibrate(
        &mut self,
        least: u64,
        deadline: Instant,
        mut once: impl FnMut(&mut Self, u64) -> Result<Duration, Box<dyn Error>>,
    ) -> Result<u64, Box<dyn Error>> {
        // The first rounds touch memory, open ways and try transfers out.
        for _ in (0..WARM_UP).take_while(|_| Instant::now() < deadline) {
            once(self, 1)?;
        }
        let mut rounds = least;
        // Doubling ends: every round takes some time.
        while once(self, rounds)? < TARGET {
            rounds *= 2;
        }
        Ok(rounds)
    }
}

/// The samples of all pairs, for rank 0 to tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) work: Summary,
    /// The bare batch, and the work in parts of it, sample by sample; `None` where there was none.
    pub(crate) against: Option<(Summary, Summary)>,
}

impl Figures {
    /// Nanoseconds of one of `parts` parts of a round, of whichever pair. `None` on ranks other than 0.
    pub(crate) fn of_costs(
        stage: &Stage<'_>,
        samples: &[Sample],
        parts: f64,
    ) -> Result<Option<Self>, strait::Error> {
        let all = gather(stage, samples)?.concat();
        let of = |what: &dyn Fn(&[f64; 2]) -> f64| {
            Summary::of_costs(&all.iter().map(what).collect::<Vec<_>>())
        };
        let against = of(&|[bare, _]| bare / parts).zip(of(&|[bare, work]| work / bare));
        let against = against.filter(|(bare, _)| bare.min > 0.0);
        Ok(of(&|[_, work]| work / parts).map(|work| Self { work, against }))
    }

    /// What is done in a unit of time by all pairs together, if a round of the bare batch and one of the work do so much times
    /// a nanosecond in that unit. `None` on ranks other than 0.
    pub(crate) fn of_rates(
        stage: &Stage<'_>,
        samples: &[Sample],
        [bare, work]: [f64; 2],
    ) -> Result<Option<Self>, strait::Error> {
        let all = gather(stage, samples)?;
        let rates = |what: &dyn Fn(&[f64; 2]) -> f64| {
            let of_pair = |samples: &Vec<[f64; 2]>| samples.iter().map(what).collect::<Vec<_>>();
            sum(&all.iter().map(of_pair).collect::<Vec<_>>())
        };
        let (bare, work) = (rates(&|sample| bare / sample[0]), rates(&|sample| work / sample[1]));
        let ratios: Vec<f64> = work.iter().zip(&bare).map(|(work, bare)| work / bare).collect();
        let against = Summary::of_gains(&bare).zip(Summary::of_gains(&ratios));
        let against = against.filter(|(bare, _)| bare.p50.is_finite());
        Ok(Summary::of_gains(&work).map(|work| Self { work, against }))
    }
}

/// Bare batch and work of each pair's samples, for rank 0.
fn gather(stage: &Stage<'_>, samples: &[Sample]) -> Result<Vec<Vec<[f64; 2]>>, strait::Error> {
    let both: Vec<f64> = samples.iter().flat_map(|sample| [sample.bare, sample.work]).collect();
    let all = stage.gather(&both, stage.pairs())?;
    Ok(all.iter().map(|both| both.as_chunks::<2>().0.to_vec()).collect())
}

/// Nanoseconds of one of `rounds` rounds.
fn per(time: Duration, rounds: u64) -> f64 {
    time.as_nanos() as f64 / rounds.max(1) as f64
}
