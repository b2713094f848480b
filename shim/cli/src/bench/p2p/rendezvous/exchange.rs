//! `strait bench exchange`: iterations of ranks that produce data, exchange them and consume the
//! received data ([SpecRndv09] §4.2.3, figures 15 and 16), by the ratio of communication to
//! computation.

use core::error::Error;
use std::ffi::OsString;
use std::time::Instant;

use clap::{Args, ValueEnum};
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

/// Default number of iterations of a sample.
const ITERATIONS: u64 = 20;

/// Default ratios of the time of communication to that of computation.
const RATIOS: [f64; 6] = [4.0, 2.0, 1.0, 0.8, 0.5, 0.2];

/// Iterations that produce data, exchange them and consume the received data
#[derive(Args, Debug)]
pub(crate) struct ExchangeBench {
    #[command(flatten)]
    messages: RendezvousOptions,
    /// Orders of an iteration's calls
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    #[arg(default_values_t = ExchangeModel::ALL)]
    models: Vec<ExchangeModel>,
    /// Ratios of communication time to computation time, besides no computation at all
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_ratio)]
    #[arg(default_values_t = RATIOS)]
    ratios: Vec<f64>,
}

impl ExchangeBench {
    fn sizes(&self) -> Vec<usize> {
        self.messages.sizes([128 << 10])
    }
}

impl Benchmark for ExchangeBench {
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
        Ok(self.models.len() * (1 + self.ratios.len()) * self.sizes().len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.messages.common.effort(), &self.sizes(), self, report)
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio: &f64| ratio.is_finite() && *ratio > 0.0);
    ratio.ok_or_else(|| "expected numbers above 0 such as 4 or 0.5".into())
}

/// The order of an iteration's calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum ExchangeModel {
    /// The paper's first: the receive is posted before the send
    #[value(name = "1")]
    ReceiveFirst,
    /// The paper's second: the send is posted first, and the last received data are consumed
    /// meanwhile
    #[value(name = "2")]
    SendFirst,
    /// A halo of two sides: both receives, both sends, the inner points, the waits, the outer
    /// points
    Halo,
}

impl ExchangeModel {
    const ALL: [Self; 3] = [Self::ReceiveFirst, Self::SendFirst, Self::Halo];

    const fn name(self) -> &'static str {
        match self {
            Self::ReceiveFirst => "model 1",
            Self::SendFirst => "model 2",
            Self::Halo => "halo",
        }
    }

    /// Returns the parts of an iteration's computation that produce, and that consume each message.
    const fn parts(self) -> [f64; 2] {
        match self {
            Self::ReceiveFirst | Self::SendFirst => [0.5, 0.5],
            // Few of a tile's points are on its rim, half of them on either side.
            Self::Halo => [0.875, 0.0625],
        }
    }
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sizes: &[usize],
    ExchangeBench { models, ratios, .. }: &ExchangeBench,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let rtrs = rtrs::columns();
    let rtrs: Vec<&str> = rtrs.iter().map(String::as_str).collect();
    let names = ["exchange", "bytes", "comm./comp."];
    report.columns(&[&names, &setting::columns()[..], &rtrs].concat());
    let processor = Processor::new();
    let iterations = effort.rounds.unwrap_or(ITERATIONS);
    // The first ratio has no computation, and determines the computation of the others.
    let ratios: Vec<f64> = [f64::INFINITY].into_iter().chain(ratios.iter().copied()).collect();
    let mut numbers = 0..;
    for &model in models {
        for &bytes in sizes {
            let mut exchange = DataExchange::new(stage, model, processor, bytes);
            let mut communication = 0.0;
            // The library must not carry its estimates from one program to the next.
            for (&ratio, number) in ratios.iter().zip(&mut numbers) {
                let computation = effort.at_most(communication / ratio);
                exchange.work.amounts = model.parts().map(|part| part * computation);
                let samples = in_turn::measure(stage, effort, setting::ALL.len(), |way, seed| {
                    let endpoint = setting::endpoint(stage, way, number);
                    RtrCounts::during(stage, || exchange.sample(endpoint, iterations, seed))
                })?;
                let (samples, counts) = setting::apart(samples);
                let ratio = if ratio.is_finite() {
                    ratio.to_string()
                } else {
                    // Every rank has the same figures.
                    communication =
                        SampleSummary::of_costs(&samples[0]).map_or(0.0, |alone| alone.p50);
                    "no computation".to_owned()
                };
                let row = |setting: Rendezvous, metric, unit, figures| {
                    let variant = format!("{}, {ratio}, {}", model.name(), setting.name());
                    Row::new("exchange", bytes, metric, unit, figures).of_variant(variant)
                };
                let cells = setting::compare(report, &samples, row)?;
                let rtrs = rtrs::tell(report, &counts, iterations, row)?;
                let names = vec![model.name().to_owned(), stats::bytes(bytes), ratio.clone()];
                report.line([names, cells, rtrs].concat());
                report.step();
            }
        }
    }
    Ok(())
}

/// A rank that exchanges data.
struct DataExchange<'a> {
    stage: &'a BenchStage<'a>,
    model: ExchangeModel,
    work: ExchangeWork,
    packed: Vec<u8>,
    /// The received data, by side. With one neighbour there is one side.
    arrived: [Vec<u8>; 2],
}

impl<'a> DataExchange<'a> {
    fn new(
        stage: &'a BenchStage<'a>,
        model: ExchangeModel,
        processor: Processor,
        bytes: usize,
    ) -> Self {
        let work = ExchangeWork::new(processor, bytes);
        let (packed, arrived) = (work.room(), [work.room(), work.room()]);
        Self { stage, model, work, packed, arrived }
    }

    /// Returns the time of an iteration of the slowest rank, in nanoseconds.
    fn sample(
        &mut self,
        endpoint: Endpoint<'_>,
        iterations: u64,
        seed: u64,
    ) -> Result<f64, Box<dyn Error>> {
        let ranks = u64::from(self.stage.ranks());
        let [own, other] = [self.stage.rank(), self.stage.partner].map(u64::from);
        // All ranks of a halo have the same data.
        let seeds = match self.model {
            ExchangeModel::Halo => [seed * ranks; 2],
            ExchangeModel::ReceiveFirst | ExchangeModel::SendFirst => {
                [own, other].map(|rank| seed * ranks + rank)
            }
        };
        self.work.prepare(seeds);
        self.stage.endpoint.barrier()?;
        let start = Instant::now();
        match self.model {
            ExchangeModel::ReceiveFirst => self.receive_first(endpoint, iterations),
            ExchangeModel::SendFirst => self.send_first(endpoint, iterations),
            ExchangeModel::Halo => self.halo(endpoint, iterations),
        }?;
        let mut time = [start.elapsed().as_nanos() as f64 / iterations as f64];
        let [one, both] = [&self.arrived[..1], &self.arrived];
        for arrived in if self.model == ExchangeModel::Halo { both } else { one } {
            self.work.verify(arrived, iterations - 1)?;
        }
        self.stage.endpoint.allreduce(&mut time, Op::Max)?;
        Ok(time[0])
    }

    fn receive_first(
        &mut self,
        endpoint: Endpoint<'_>,
        iterations: u64,
    ) -> Result<(), Box<dyn Error>> {
        let Self { stage: BenchStage { partner, .. }, work, packed, arrived: [arrived, _], .. } =
            self;
        work.produce(0);
        for iteration in 0..iterations {
            endpoint.scope(|scope| {
                let receive = scope.irecv(&mut arrived[..], *partner, TAG)?;
                work.pack(packed);
                let send = scope.isend(&packed[..], *partner, TAG)?;
                work.produce(iteration + 1);
                send.wait()?;
                receive.wait()
            })?;
            work.consume(arrived, iteration)?;
        }
        Ok(())
    }

    fn send_first(
        &mut self,
        endpoint: Endpoint<'_>,
        iterations: u64,
    ) -> Result<(), Box<dyn Error>> {
        let Self { stage: BenchStage { partner, .. }, work, packed, arrived: [arrived, _], .. } =
            self;
        work.produce(0);
        for iteration in 0..iterations {
            endpoint.scope(|scope| -> Result<(), Box<dyn Error>> {
                work.pack(packed);
                let send = scope.isend(&packed[..], *partner, TAG)?;
                if let Some(before) = iteration.checked_sub(1) {
                    work.consume(arrived, before)?;
                }
                let receive = scope.irecv(&mut arrived[..], *partner, TAG)?;
                work.produce(iteration + 1);
                send.wait()?;
                receive.wait()?;
                Ok(())
            })?;
        }
        Ok(work.consume(arrived, iterations - 1)?)
    }

    /// Exchanges with the ranks in a ring. Messages to the north have one tag, messages to the
    /// south another.
    fn halo(&mut self, endpoint: Endpoint<'_>, iterations: u64) -> Result<(), Box<dyn Error>> {
        let Self { stage, work, packed, arrived: [from_north, from_south], .. } = self;
        let (rank, ranks): (Rank, _) = (stage.rank(), stage.ranks());
        let [north, south] = [(rank + ranks - 1) % ranks, (rank + 1) % ranks];
        let [northward, southward] = [TAG, TAG + 1];
        work.produce(0);
        for iteration in 0..iterations {
            endpoint.scope(|scope| {
                work.pack(packed);
                let mut requests = [
                    scope.irecv(&mut from_north[..], north, southward)?,
                    scope.irecv(&mut from_south[..], south, northward)?,
                    scope.isend(&packed[..], north, northward)?,
                    scope.isend(&packed[..], south, southward)?,
                ];
                work.produce(iteration + 1);
                wait_all(&mut requests)
            })?;
            for arrived in [&from_north, &from_south] {
                work.consume(arrived, iteration)?;
            }
        }
        Ok(())
    }
}
