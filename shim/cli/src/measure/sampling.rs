//! The method of measurement: many short samples, each of a bare batch followed by a batch of
//! messages.
//!
//! Hypervisors move processors, so that they share a cache at one time and not at another. The
//! difference is a factor of four. Within one sample the processors stay in place, so the ratio of
//! its two halves is meaningful.
//!
//! Between two clock readings, only the measured code may allocate or enter the kernel.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use super::stage::{BenchStage, RoundOrder, StageSide};
use super::stats::{SampleSummary, sum};
use crate::payload::Mismatch;

/// Target time of one half of a sample: long against a clock reading, short against the changes of
/// a hypervisor.
const TARGET: Duration = Duration::from_micros(200);

/// Number of samples before those that count, and of rounds before any sample.
const WARM_UP: u32 = 10;

/// A repeatable action of a leader and a follower together.
pub(crate) trait Batch {
    /// Returns the minimum number of rounds of a sample. The first round differs where it begins
    /// with a wait for a rank that starts later.
    fn least(&self) -> u64 {
        1
    }

    /// Prepares a sample. Its data carry the pattern of `seed`. It is not timed.
    fn prepare(&mut self, _seed: u64) {}

    /// Performs the leader's part of `rounds` rounds. It is timed.
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error>;

    /// Performs the follower's part of `rounds` rounds.
    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error>;

    /// Checks all of the last received data. It is not timed.
    fn verify(&self, _seed: u64) -> Result<(), Mismatch> {
        Ok(())
    }
}

/// The effort of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Maximum number of samples.
    pub(crate) samples: usize,
    /// Number of rounds in a sample. `None`: as many as take 200 µs.
    pub(crate) rounds: Option<u64>,
    /// Time after which no sample starts except the first, and no warm-up.
    pub(crate) limit: Duration,
}

impl Effort {
    /// Returns this number of nanoseconds, limited to the time of a measurement. Without the limit,
    /// a computation beside messages would never end on a machine that is busy with other work.
    pub(crate) fn at_most(self, nanoseconds: f64) -> f64 {
        nanoseconds.min(self.limit.as_nanos() as f64)
    }

    /// Returns an effort that suffices for a time by which further measurements are planned.
    pub(crate) fn rough(self) -> Self {
        Self { samples: self.samples.min(20), limit: self.limit / 4, ..self }
    }
}

/// The time of one round, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The time of the bare batch, or 0 without one.
    pub(crate) bare: f64,
    /// The time of the measured batch.
    pub(crate) work: f64,
}

/// Measures `work` beside `bare`. All ranks call it; only leaders get samples, at least one.
///
/// # Errors
///
/// A call failed, or a payload arrived damaged.
pub(crate) fn measure<'a>(
    stage: &'a BenchStage<'a>,
    effort: Effort,
    bare: Option<&'a mut dyn Batch>,
    work: &'a mut dyn Batch,
) -> Result<Vec<Sample>, Box<dyn Error>> {
    stage.barrier()?;
    let mut both = Both { stage, bare, work, seed: 0 };
    match stage.side {
        StageSide::Leader => both.lead(effort),
        StageSide::Follower => both.follow().map(|()| Vec::new()),
        StageSide::Idle => Ok(Vec::new()),
    }
}

/// The two halves of a sample.
struct Both<'a> {
    stage: &'a BenchStage<'a>,
    bare: Option<&'a mut dyn Batch>,
    work: &'a mut dyn Batch,
    /// The seed of the last sample.
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
        self.stage.give_order(RoundOrder::STOP)?;
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

    /// Takes one sample, and returns the time of each half.
    fn sample(
        &mut self,
        bare_rounds: u64,
        rounds: u64,
    ) -> Result<(Duration, Duration), Box<dyn Error>> {
        self.seed += 1;
        self.work.prepare(self.seed);
        self.stage.give_order(RoundOrder::new(self.seed, bare_rounds, rounds))?;
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

    /// Returns the number of rounds that take [`TARGET`], at least `least`.
    fn calibrate(
        &mut self,
        least: u64,
        deadline: Instant,
        mut once: impl FnMut(&mut Self, u64) -> Result<Duration, Box<dyn Error>>,
    ) -> Result<u64, Box<dyn Error>> {
        // The first rounds touch memory, open connections and try transfers.
        for _ in (0..WARM_UP).take_while(|_| Instant::now() < deadline) {
            once(self, 1)?;
        }
        let mut rounds = least;
        // The doubling terminates: every round takes some time.
        while once(self, rounds)? < TARGET {
            rounds *= 2;
        }
        Ok(rounds)
    }
}

/// The samples of all pairs, for the report of rank 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairFigures {
    pub(crate) work: SampleSummary,
    /// The bare batch, and the ratio of the work to it, for each sample. `None` without a bare
    /// batch.
    pub(crate) against: Option<(SampleSummary, SampleSummary)>,
}

impl PairFigures {
    /// Returns the time in nanoseconds of one of `parts` parts of a round, over all pairs. `None`
    /// on ranks other than 0.
    pub(crate) fn of_costs(
        stage: &BenchStage<'_>,
        samples: &[Sample],
        parts: f64,
    ) -> Result<Option<Self>, strait::Error> {
        let all = gather(stage, samples)?.concat();
        let of = |what: &dyn Fn(&[f64; 2]) -> f64| {
            SampleSummary::of_costs(&all.iter().map(what).collect::<Vec<_>>())
        };
        let against = of(&|[bare, _]| bare / parts).zip(of(&|[bare, work]| work / bare));
        let against = against.filter(|(bare, _)| bare.min > 0.0);
        Ok(of(&|[_, work]| work / parts).map(|work| Self { work, against }))
    }

    /// Returns the rate of all pairs together, or `None` on ranks other than 0. `bare` and `work`
    /// are the rates of the two batches at one round per nanosecond.
    pub(crate) fn of_rates(
        stage: &BenchStage<'_>,
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
        let against = SampleSummary::of_gains(&bare).zip(SampleSummary::of_gains(&ratios));
        let against = against.filter(|(bare, _)| bare.p50.is_finite());
        Ok(SampleSummary::of_gains(&work).map(|work| Self { work, against }))
    }
}

/// Returns bare batch and work of each pair's samples, on rank 0.
fn gather(stage: &BenchStage<'_>, samples: &[Sample]) -> Result<Vec<Vec<[f64; 2]>>, strait::Error> {
    let both: Vec<f64> = samples.iter().flat_map(|sample| [sample.bare, sample.work]).collect();
    let all = stage.gather(&both, stage.pairs())?;
    Ok(all.iter().map(|both| both.as_chunks::<2>().0.to_vec()).collect())
}

/// Returns the time of one of `rounds` rounds, in nanoseconds.
fn per(time: Duration, rounds: u64) -> f64 {
    time.as_nanos() as f64 / rounds.max(1) as f64
}
