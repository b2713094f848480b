//! `strait bench depth`: how long it takes to find one message's partner among many that wait.
//!
//! Sender and receiver are two ranks of a world inside rank 0, on one thread: no cache line travels, so that what the
//! queue costs can be seen. A round is one message sent and received, by the same calls at every depth.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use strait::{ANY_SOURCE, ANY_TAG, Endpoint, Rank, Tag, World};

use super::report::{Report, Row};
use super::sampling::Effort;
use super::stage::Stage;
use super::stats::{Summary, ratio, time};

/// How many receives or messages wait, with the one that is measured.
const DEPTHS: [u32; 5] = [1, 10, 100, 1_000, 10_000];

/// How long a sample should take.
const TARGET: Duration = Duration::from_micros(200);

/// Samples that are taken before those that count.
const WARM_UP: usize = 3;

const SENDER: Rank = 0;
const RECEIVER: usize = 1;
/// Sends nothing: what is posted for it stays.
const SILENT: Rank = 2;

/// The tag of measured messages; the others have those above.
const TAG: Tag = 0;

/// What waits, and how the measured receive asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Queue {
    /// Receives that name source and tag; the measured one was posted last.
    Posted,
    /// Receives that name both, the tag alone or the source alone, in turn; the measured one takes any source.
    PostedWildcards,
    /// Messages; the measured receive names source and tag of the one that came last.
    Unexpected,
    /// The same from any source.
    UnexpectedAnySource,
    /// Messages; the measured receive takes any tag, and so the oldest.
    UnexpectedAnyTag,
}

impl Queue {
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

    /// What the receives that wait ask for, none of which is a measured message.
    const fn bystander(self, number: u32) -> (Rank, Tag) {
        match (self, number % 3) {
            (Self::PostedWildcards, 1) => (ANY_SOURCE, TAG + number),
            (Self::PostedWildcards, 2) => (SILENT, ANY_TAG),
            _ => (SENDER, TAG + number),
        }
    }

    /// What the measured receive asks for.
    const fn wanted(self) -> (Rank, Tag) {
        match self {
            Self::Posted | Self::Unexpected => (SENDER, TAG),
            Self::PostedWildcards | Self::UnexpectedAnySource => (ANY_SOURCE, TAG),
            Self::UnexpectedAnyTag => (SENDER, ANY_TAG),
        }
    }
}

/// Number of measurements.
pub(super) const STEPS: usize = DEPTHS.len() * Queue::ALL.len();

/// The two ends, with the queue of one of them as deep as it is to be.
struct Match<'world> {
    sender: Endpoint<'world>,
    receiver: Endpoint<'world>,
    queue: Queue,
    /// Messages sent so far; each carries its number.
    sent: u64,
    /// Number of the next message to receive.
    next: u64,
}

impl Match<'_> {
    /// Fills the queue but for one place.
    fn deepen(&mut self, depth: u32) -> Result<(), Box<dyn Error>> {
        for number in 1..depth {
            self.send(TAG + number)?;
            self.receiver.progress()?;
        }
        let arrived = self.receiver.iprobe(SENDER, TAG + depth - 1)?;
        if depth > 1 && arrived.is_none() {
            return Err(format!("{depth} unexpected messages do not wait at once").into());
        }
        if self.queue != Queue::UnexpectedAnyTag {
            self.next = self.sent;
        }
        Ok(())
    }

    fn send(&mut self, tag: Tag) -> Result<(), strait::Error> {
        self.sender.send(&[self.sent], RECEIVER as Rank, tag)?;
        self.sent += 1;
        Ok(())
    }

    /// One message; its number.
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

    /// How long `rounds` messages took.
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

    /// Nanoseconds of one message, sample by sample.
    fn measure(&mut self, effort: Effort) -> Result<Vec<f64>, Box<dyn Error>> {
        let mut rounds = effort.rounds.unwrap_or(1);
        // Doubling ends: every round takes some time.
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

/// The samples of one queue at one depth, in a world of their own.
fn measure(effort: Effort, queue: Queue, depth: u32) -> Result<Vec<f64>, Box<dyn Error>> {
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
            scope.irecv::<u8>(&mut [], source, tag)
        });
        // Held to the end: a request that is dropped leaves the queue.
        let _waiting = waiting.collect::<Result<Vec<_>, _>>()?;
        ends.measure(effort)
    })
}

pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["queue", "depth", "min", "p50", "p99", "× depth 1"]);
    for (queue, name) in Queue::ALL {
        let mut shallow = None;
        for depth in DEPTHS.into_iter().filter(|_| stage.rank() == 0) {
            let Some(figures) = Summary::of_costs(&measure(effort, queue, depth)?) else {
                continue;
            };
            let variant = format!("{name}, depth {depth}");
            report.row(Row::new("depth", 8, "time", "ns", figures).of_variant(variant))?;
            let Summary { min, p50, p99, .. } = figures;
            let times = ratio(p50 / *shallow.get_or_insert(p50));
            let figures = [min, p50, p99].map(time);
            let [min, p50, p99] = figures;
            report.line([name.to_owned(), depth.to_string(), min, p50, p99, times]);
            report.step();
        }
    }
    Ok(stage.barrier()?)
}
