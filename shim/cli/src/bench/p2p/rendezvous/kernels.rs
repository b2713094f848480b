//! `strait bench kernels`: the communication of CG, BT, LU and RADIX ([SpecRndv09] §4.3, figures 17
//! and 18), and the time in calls that wait: waits for requests, and blocking sends.
//!
//! An iteration sends and receives one message, RADIX's four. Its computation takes as long as its
//! communication alone. RADIX computes nothing between its calls.

use core::error::Error;
use std::ffi::OsString;
use std::time::Instant;

use clap::Args;
use strait::raw::ANY_SOURCE;
use strait::{Endpoint, Op, Rank, Rendezvous, wait_all};

use super::options::{self, RendezvousOptions};
use super::rtrs::{self, RtrCounts};
use super::setting;
use super::work::ExchangeWork;
use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::computation::Processor;
use crate::measure::in_turn;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Effort;
use crate::measure::stage::{BenchStage, TAG};
use crate::measure::stats::{self, SampleSummary};

/// Communication patterns of CG, BT, LU and RADIX, and their time in waits
#[derive(Args, Debug)]
pub(crate) struct KernelsBench {
    #[command(flatten)]
    messages: RendezvousOptions,
}

impl KernelsBench {
    fn sizes(&self) -> Vec<usize> {
        self.messages.sizes([128 << 10])
    }
}

impl Benchmark for KernelsBench {
    fn common(&self) -> Common {
        self.messages.common
    }

    fn needs_two_processors(&self) -> bool {
        true
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        options::environment(self.messages.common.ranks)
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(CallPattern::ALL.len() * self.sizes().len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.messages.common.effort(), &self.sizes(), report)
    }
}

/// Default number of iterations of a sample.
const ITERATIONS: u64 = 20;

/// Number of receives that RADIX waits for together.
const RECEIVES: usize = 4;

/// A pattern of calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CallPattern {
    /// Receive posted, blocking send, wait, without computation meanwhile.
    Cg,
    /// Send and receive posted, the next data produced, both waited for.
    Bt,
    /// Receive from any source posted, data produced, blocking send, wait.
    Lu,
    /// Four receives posted and waited for together, repeatedly; then as many blocking sends.
    Radix,
}

impl CallPattern {
    const ALL: [Self; 4] = [Self::Cg, Self::Bt, Self::Lu, Self::Radix];

    const fn name(self) -> &'static str {
        match self {
            Self::Cg => "CG",
            Self::Bt => "BT",
            Self::Lu => "LU",
            Self::Radix => "RADIX",
        }
    }
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let rtrs = rtrs::columns();
    let rtrs: Vec<&str> = rtrs.iter().map(String::as_str).collect();
    report.columns(&[&["kernel", "bytes", "of it"], &setting::columns()[..], &rtrs].concat());
    let processor = Processor::new();
    let iterations = effort.rounds.unwrap_or(ITERATIONS);
    for (number, pattern) in (0..).zip(CallPattern::ALL) {
        for &bytes in sizes {
            let mut kernel = Kernel::new(stage, pattern, processor, bytes);
            let alone = in_turn::measure(stage, effort.rough(), 1, |_, seed| {
                kernel.sample(setting::endpoint(stage, 0, number), iterations, seed)
            })?;
            let alone = alone[0].iter().map(|[time, _]| *time).collect::<Vec<_>>();
            // Every rank has the same figures.
            let alone =
                SampleSummary::of_costs(&alone).map_or(0.0, |alone| effort.at_most(alone.p50));
            if pattern != CallPattern::Radix {
                kernel.work.amounts = [alone / 2.0; 2];
            }
            let samples = in_turn::measure(stage, effort, setting::ALL.len(), |way, seed| {
                let endpoint = setting::endpoint(stage, way, number);
                RtrCounts::during(stage, || kernel.sample(endpoint, iterations, seed))
            })?;
            let (samples, counts) = setting::apart(samples);
            for (at, what) in ["iteration", "waits"].into_iter().enumerate() {
                let of = |samples: &Vec<[f64; 2]>| samples.iter().map(|both| both[at]).collect();
                let samples: Vec<Vec<f64>> = samples.iter().map(of).collect();
                let row = |setting: Rendezvous, metric, unit, figures| {
                    let variant = format!("{}, {what}, {}", pattern.name(), setting.name());
                    Row::new("kernels", bytes, metric, unit, figures).of_variant(variant)
                };
                let cells = setting::compare(report, &samples, row)?;
                let rtrs = match at {
                    0 => rtrs::tell(report, &counts, iterations, row)?,
                    _ => vec![String::new(); rtrs.len()],
                };
                let names = vec![pattern.name().to_owned(), stats::bytes(bytes), what.to_owned()];
                report.line([names, cells, rtrs].concat());
            }
            report.step();
        }
    }
    Ok(())
}

/// A rank of a program with this pattern.
struct Kernel<'a> {
    stage: &'a BenchStage<'a>,
    pattern: CallPattern,
    work: ExchangeWork,
    out: Vec<u8>,
    arrived: [Vec<u8>; RECEIVES],
    /// Time in calls that wait, in nanoseconds.
    waited: f64,
}

impl<'a> Kernel<'a> {
    fn new(
        stage: &'a BenchStage<'a>,
        pattern: CallPattern,
        processor: Processor,
        bytes: usize,
    ) -> Self {
        let work = ExchangeWork::new(processor, bytes);
        let (out, arrived) = (work.room(), core::array::from_fn(|_| work.room()));
        Self { stage, pattern, work, out, arrived, waited: 0.0 }
    }

    /// Returns the time of an iteration in nanoseconds: the whole of the slowest rank, and the
    /// average time in calls that wait.
    fn sample(
        &mut self,
        endpoint: Endpoint<'_>,
        iterations: u64,
        seed: u64,
    ) -> Result<[f64; 2], Box<dyn Error>> {
        let BenchStage { partner, .. } = *self.stage;
        let ranks = u64::from(self.stage.ranks());
        let own = self.stage.rank();
        self.work.prepare([own, partner].map(|rank| seed * ranks + u64::from(rank)));
        self.waited = 0.0;
        self.stage.endpoint.barrier()?;
        let start = Instant::now();
        let received = match self.pattern {
            CallPattern::Cg => self.cg(endpoint, iterations, partner),
            CallPattern::Bt => self.bt(endpoint, iterations, partner),
            CallPattern::Lu => self.lu(endpoint, iterations, partner),
            CallPattern::Radix => self.radix(endpoint, iterations, partner),
        }?;
        let time = start.elapsed().as_nanos() as f64;
        for (arrived, iteration) in self.arrived.iter().zip(received) {
            self.work.verify(arrived, iteration)?;
        }
        let (mut time, mut waited) = ([time], [self.waited]);
        self.stage.endpoint.allreduce(&mut time, Op::Max)?;
        self.stage.endpoint.allreduce(&mut waited, Op::Sum)?;
        let rounds = iterations as f64;
        Ok([time[0] / rounds, waited[0] / rounds / f64::from(self.stage.ranks())])
    }

    fn cg(&mut self, endpoint: Endpoint<'_>, iterations: u64, peer: Rank) -> KernelResult {
        let Self { work, out, arrived: [arrived, ..], waited, .. } = self;
        for iteration in 0..iterations {
            work.produce(iteration);
            work.pack(out);
            endpoint.scope(|scope| {
                let receive = scope.irecv(&mut arrived[..], peer, TAG)?;
                timed(waited, || endpoint.send(&out[..], peer, TAG))?;
                timed(waited, || wait_all(&mut [receive]))
            })?;
            work.consume(arrived, iteration)?;
        }
        Ok(vec![iterations - 1])
    }

    fn bt(&mut self, endpoint: Endpoint<'_>, iterations: u64, peer: Rank) -> KernelResult {
        let Self { work, out, arrived: [arrived, ..], waited, .. } = self;
        work.produce(0);
        for iteration in 0..iterations {
            work.pack(out);
            endpoint.scope(|scope| {
                let send = scope.isend(&out[..], peer, TAG)?;
                let receive = scope.irecv(&mut arrived[..], peer, TAG)?;
                work.produce(iteration + 1);
                timed(waited, || wait_all(&mut [send, receive]))
            })?;
            work.consume(arrived, iteration)?;
        }
        Ok(vec![iterations - 1])
    }

    fn lu(&mut self, endpoint: Endpoint<'_>, iterations: u64, peer: Rank) -> KernelResult {
        let Self { work, out, arrived: [arrived, ..], waited, .. } = self;
        for iteration in 0..iterations {
            endpoint.scope(|scope| {
                let receive = scope.irecv(&mut arrived[..], ANY_SOURCE, TAG)?;
                work.produce(iteration);
                work.pack(out);
                timed(waited, || endpoint.send(&out[..], peer, TAG))?;
                timed(waited, || wait_all(&mut [receive]))
            })?;
            work.consume(arrived, iteration)?;
        }
        Ok(vec![iterations - 1])
    }

    /// Exchanges RADIX's messages. A blocking send needs a rank that receives, so one partner sends
    /// first.
    fn radix(&mut self, endpoint: Endpoint<'_>, iterations: u64, peer: Rank) -> KernelResult {
        if self.stage.leads() {
            self.radix_receives(endpoint, iterations, peer)?;
            self.radix_sends(endpoint, iterations, peer)?;
        } else {
            self.radix_sends(endpoint, iterations, peer)?;
            self.radix_receives(endpoint, iterations, peer)?;
        }
        let messages = iterations * RECEIVES as u64;
        Ok((messages - RECEIVES as u64..messages).collect())
    }

    fn radix_receives(
        &mut self,
        endpoint: Endpoint<'_>,
        iterations: u64,
        peer: Rank,
    ) -> Result<(), Box<dyn Error>> {
        let Self { work, arrived, waited, .. } = self;
        for iteration in 0..iterations {
            endpoint.scope(|scope| {
                let receives =
                    arrived.iter_mut().map(|arrived| scope.irecv(&mut arrived[..], peer, TAG));
                let mut receives = receives.collect::<Result<Vec<_>, _>>()?;
                timed(waited, || wait_all(&mut receives))
            })?;
            for (number, arrived) in (iteration * RECEIVES as u64..).zip(&*arrived) {
                work.consume(arrived, number)?;
            }
        }
        Ok(())
    }

    fn radix_sends(
        &mut self,
        endpoint: Endpoint<'_>,
        iterations: u64,
        peer: Rank,
    ) -> Result<(), strait::Error> {
        let Self { work, out, waited, .. } = self;
        for number in 0..iterations * RECEIVES as u64 {
            work.produce(number);
            work.pack(out);
            timed(waited, || endpoint.send(&out[..], peer, TAG))?;
        }
        Ok(())
    }
}

/// The numbers of the last received data, by buffer.
type KernelResult = Result<Vec<u64>, Box<dyn Error>>;

/// Performs an action that may wait for the peer, and adds its time.
fn timed(
    waited: &mut f64,
    call: impl FnOnce() -> Result<(), strait::Error>,
) -> Result<(), strait::Error> {
    let start = Instant::now();
    let result = call();
    *waited += start.elapsed().as_nanos() as f64;
    result
}
