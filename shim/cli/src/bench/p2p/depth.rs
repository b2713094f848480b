//! `strait bench depth`: the time to match one message among many queue entries.
//!
//! Sender and receiver are two ranks of a world inside rank 0, on one thread. No cache line moves
//! between processors, so that the cost of the queue is visible. A round is one message sent and
//! received, by the same calls at every depth.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use clap::Args;
use strait::raw::ANY_SOURCE;
use strait::{ANY_TAG, Endpoint, Rank, Tag, World};

use crate::bench::benchmark::Benchmark;
use crate::bench::options::Common;
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Effort;
use crate::measure::stage::BenchStage;
use crate::measure::stats::{SampleSummary, ratio, time};

/// One message matched while up to 10,000 receives or messages wait
#[derive(Args, Debug)]
pub(crate) struct DepthBench {
    #[command(flatten)]
    common: Common,
}

impl Benchmark for DepthBench {
    fn common(&self) -> Common {
        self.common
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(DEPTHS.len() * QueueKind::ALL.len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.common.effort(), report)
    }
}

/// Number of queue entries, including the measured one.
const DEPTHS: [u32; 5] = [1, 10, 100, 1_000, 10_000];

/// Target time of a sample.
const TARGET: Duration = Duration::from_micros(200);

/// Number of samples before those that count.
const WARM_UP: usize = 3;

const SENDER: Rank = 0;
const RECEIVER: usize = 1;
/// A rank that sends nothing, so that receives posted for it stay in the queue.
const SILENT: Rank = 2;

/// The tag of measured messages. The others have larger tags.
const TAG: Tag = 0;

/// The kind of queue entries, and the arguments of the measured receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum QueueKind {
    /// Receives that name source and tag. The measured one was posted last.
    Posted,
    /// Receives that name both, the tag alone or the source alone, in turn. The measured one takes
    /// any source.
    PostedWildcards,
    /// Messages. The measured receive names source and tag of the newest.
    Unexpected,
    /// Messages. The measured receive takes any source, and names the tag of the newest.
    UnexpectedAnySource,
    /// Messages. The measured receive takes any tag, and so the oldest.
    UnexpectedAnyTag,
}

impl QueueKind {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Posted, "posted"),
        (Self::PostedWildcards, "posted, wildcards"),
        (Self::Unexpected, "unexpected"),
        (Self::UnexpectedAnySource, "unexpected, any source"),
        (Self::UnexpectedAnyTag, "unexpected, any tag"),
    ];

    const fn is_posted(self) -> bool {
        matches!(self, Self::Posted | Self::PostedWildcards)
    }

    /// Returns source and tag of a waiting receive, which no measured message matches.
    const fn bystander(self, number: u32) -> (Rank, Tag) {
        match (self, number % 3) {
            (Self::PostedWildcards, 1) => (ANY_SOURCE, TAG + number),
            (Self::PostedWildcards, 2) => (SILENT, ANY_TAG),
            _ => (SENDER, TAG + number),
        }
    }

    /// Returns source and tag of the measured receive.
    const fn wanted(self) -> (Rank, Tag) {
        match self {
            Self::Posted | Self::Unexpected => (SENDER, TAG),
            Self::PostedWildcards | Self::UnexpectedAnySource => (ANY_SOURCE, TAG),
            Self::UnexpectedAnyTag => (SENDER, ANY_TAG),
        }
    }
}

/// The two ends. The queue of one of them is filled to the measured depth.
struct Match<'world> {
    sender: Endpoint<'world>,
    receiver: Endpoint<'world>,
    queue: QueueKind,
    /// Number of messages sent so far. Each carries its number.
    sent: u64,
    /// Number of the next message to receive.
    next: u64,
}

impl Match<'_> {
    /// Fills the queue up to one entry less than `depth`.
    fn deepen(&mut self, depth: u32) -> Result<(), Box<dyn Error>> {
        for number in 1..depth {
            self.send(TAG + number)?;
            self.receiver.progress()?;
        }
        let arrived = self.receiver.iprobe(SENDER, TAG + depth - 1)?;
        if depth > 1 && arrived.is_none() {
            return Err(format!("{depth} unexpected messages do not wait at once").into());
        }
        if self.queue != QueueKind::UnexpectedAnyTag {
            self.next = self.sent;
        }
        Ok(())
    }

    fn send(&mut self, tag: Tag) -> Result<(), strait::Error> {
        self.sender.send(&[self.sent], RECEIVER as Rank, tag)?;
        self.sent += 1;
        Ok(())
    }

    /// Sends and receives one message, and returns its number.
    #[inline]
    fn one(&mut self) -> Result<u64, strait::Error> {
        let (source, tag) = self.queue.wanted();
        let mut number = [u64::MAX];
        let receiver = self.receiver;
        if self.queue.is_posted() {
            receiver.scope(|scope| {
                let request = scope.irecv(&mut number, source, tag)?;
                self.send(TAG)?;
                request.wait()
            })?;
        } else {
            self.send(TAG)?;
            receiver.progress()?;
            receiver.recv(&mut number, source, tag)?;
        }
        Ok(number[0])
    }

    /// Measures the time of `rounds` messages.
    fn run(&mut self, rounds: u64) -> Result<Duration, Box<dyn Error>> {
        let start = Instant::now();
        for _ in 0..rounds {
            let (found, expected) = (self.one()?, self.next);
            if found != expected {
                let wrong = format!("message {found} was received in place of {expected}");
                return Err(format!("{wrong}; this is a defect of strait").into());
            }
            self.next += 1;
        }
        Ok(start.elapsed())
    }

    /// Returns the time of one message in nanoseconds, for each sample.
    fn measure(&mut self, effort: Effort) -> Result<Vec<f64>, Box<dyn Error>> {
        let mut rounds = effort.rounds.unwrap_or(1);
        // The doubling terminates: every round takes some time.
        while self.run(rounds)? < TARGET && effort.rounds.is_none() {
            rounds *= 2;
        }
        for _ in 0..WARM_UP {
            self.run(rounds)?;
        }
        let deadline = Instant::now() + effort.limit;
        let mut samples = Vec::with_capacity(effort.samples);
        while samples.is_empty() || samples.len() < effort.samples && Instant::now() < deadline {
            samples.push(self.run(rounds)?.as_nanos() as f64 / rounds as f64);
        }
        Ok(samples)
    }
}

/// Takes the samples of one queue at one depth, in a separate world.
fn measure(effort: Effort, queue: QueueKind, depth: u32) -> Result<Vec<f64>, Box<dyn Error>> {
    let worlds = World::in_process(SILENT + 1)?;
    let [sender, receiver] = [SENDER as usize, RECEIVER].map(|rank| worlds[rank].endpoint());
    let mut ends = Match { sender, receiver, queue, sent: 0, next: 0 };
    if !queue.is_posted() {
        ends.deepen(depth)?;
        return ends.measure(effort);
    }
    receiver.scope(|scope| {
        let waiting = (1..depth).map(|number| {
            let (source, tag) = queue.bystander(number);
            scope.irecv::<[u8]>(&mut [], source, tag)
        });
        // The requests live to the end: a dropped request leaves the queue.
        let _waiting = waiting.collect::<Result<Vec<_>, _>>()?;
        ends.measure(effort)
    })
}

fn run(stage: &BenchStage<'_>, effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    report.columns(&["queue", "depth", "min", "p50", "p99", "× depth 1"]);
    for (queue, name) in QueueKind::ALL {
        let mut shallow = None;
        for depth in DEPTHS.into_iter().filter(|_| stage.rank() == 0) {
            let Some(figures) = SampleSummary::of_costs(&measure(effort, queue, depth)?) else {
                continue;
            };
            let variant = format!("{name}, depth {depth}");
            report.row(Row::new("depth", 8, "time", "ns", figures).of_variant(variant))?;
            let SampleSummary { min, p50, p99, .. } = figures;
            let times = ratio(p50 / *shallow.get_or_insert(p50));
            let figures = [min, p50, p99].map(time);
            let [min, p50, p99] = figures;
            report.line([name.to_owned(), depth.to_string(), min, p50, p99, times]);
            report.step();
        }
    }
    Ok(stage.barrier()?)
}
