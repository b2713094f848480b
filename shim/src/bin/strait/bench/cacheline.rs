//! What the bare hardware does, with nothing of Strait in between: the limits that everything else is held against.

use core::error::Error;
use core::time::Duration;

use strait_core::sync::{AtomicU64, Ordering, spin_hint};

use super::lane::{COPY_MAX, Lane, SLOTS};
use super::report::{Report, Row};
use super::sampling::{Batch, Effort, Sample, measure};
use super::stage::Stage;
use super::stats::{Summary, time};

/// Messages in one round of a [`SlotStream`].
pub(crate) const STREAM_ROUND: u64 = 64;

/// Looks before the processor is offered to others. With a processor each this never happens within a measurement.
const PATIENCE: u32 = 1 << 16;

/// The effort for a bare line before and after a bench.
const PROBE: Effort = Effort { samples: 50, rounds: None, limit: Duration::from_millis(200) };

/// Why what two ranks do at the same time may not be measured.
pub(super) const ONE_PROCESSOR: &str = "this bench needs two processors, one for each rank of a pair, and this process may \
                                        use only 1 (see taskset, or the limits of the container)";

/// How a line is handed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HandOver {
    /// Load until the value is there, then store the next.
    Store,
    /// The same, with `pause` between two looks.
    StorePause,
    /// Compare-and-swap until it succeeds.
    CompareAndSwap,
}

impl HandOver {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Store, "store + spin"),
        (Self::StorePause, "store + spin with pause"),
        (Self::CompareAndSwap, "compare-and-swap"),
    ];
}

/// One line bounced between two processors. A round is there and back.
#[derive(Debug)]
pub(crate) struct Bounce {
    line: &'static AtomicU64,
    hand_over: HandOver,
    /// The line's value when it is the leader's turn.
    turn: u64,
}

impl Bounce {
    /// Both sides make theirs while the line is at rest.
    pub(crate) fn new(lane: &'static Lane, hand_over: HandOver) -> Self {
        let line = &lane.line.0;
        Self { line, hand_over, turn: line.load(Ordering::Acquire) }
    }

    /// `rounds` times: waits for `mine` and replaces it by the next value; then the other side does so.
    #[inline(always)]
    fn bounce(&self, mut mine: u64, rounds: u64, take: impl Fn(&AtomicU64, u64)) {
        for _ in 0..rounds {
            take(self.line, mine);
            mine += 2;
        }
    }

    fn turns(&mut self, offset: u64, rounds: u64) {
        let mine = self.turn + offset;
        match self.hand_over {
            HandOver::Store => self.bounce(mine, rounds, by_store::<false>),
            HandOver::StorePause => self.bounce(mine, rounds, by_store::<true>),
            HandOver::CompareAndSwap => self.bounce(mine, rounds, by_swap),
        }
        self.turn += 2 * rounds;
    }
}

impl Batch for Bounce {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.turns(0, rounds);
        // The last hand-over is over when it has been seen.
        spin_until::<false>(|| self.line.load(Ordering::Acquire) == self.turn);
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.turns(1, rounds);
        Ok(())
    }
}

#[inline(always)]
fn by_store<const PAUSE: bool>(line: &AtomicU64, mine: u64) {
    spin_until::<PAUSE>(|| line.load(Ordering::Acquire) == mine);
    line.store(mine + 1, Ordering::Release);
}

#[inline(always)]
fn by_swap(line: &AtomicU64, mine: u64) {
    spin_until::<false>(|| {
        line.compare_exchange(mine, mine + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
}

/// Messages of 8 bytes through a ring of lines, one way: the least that any queue has to do. A round is
/// [`STREAM_ROUND`] messages.
#[derive(Debug)]
pub(crate) struct SlotStream {
    lane: &'static Lane,
    /// Messages that went through the ring.
    done: u64,
}

impl SlotStream {
    /// Both sides make theirs while the ring is at rest.
    pub(crate) fn new(lane: &'static Lane) -> Self {
        Self { lane, done: lane.taken.0.load(Ordering::Acquire) }
    }
}

impl Batch for SlotStream {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let (slots, taken) = (&self.lane.slots, &self.lane.taken.0);
        let mut room_until = self.done + SLOTS;
        let last = self.done + rounds * STREAM_ROUND;
        for number in self.done + 1..=last {
            if number > room_until {
                spin_until::<false>(|| {
                    room_until = taken.load(Ordering::Acquire) + SLOTS;
                    number <= room_until
                });
            }
            let slot = &slots[(number % SLOTS) as usize];
            slot.value.store(number, Ordering::Relaxed);
            slot.number.store(number, Ordering::Release);
        }
        self.done = last;
        spin_until::<false>(|| taken.load(Ordering::Acquire) == last);
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let (slots, taken) = (&self.lane.slots, &self.lane.taken.0);
        let last = self.done + rounds * STREAM_ROUND;
        for number in self.done + 1..=last {
            let slot = &slots[(number % SLOTS) as usize];
            spin_until::<false>(|| slot.number.load(Ordering::Acquire) == number);
            core::hint::black_box(slot.value.load(Ordering::Relaxed));
            if number % (SLOTS / 4) == 0 {
                taken.store(number, Ordering::Release);
            }
        }
        self.done = last;
        Ok(())
    }
}

/// Messages there and back by a copy in, a number that says that they are there, and a copy out: the least that a message of
/// many lines has to do. A round is both.
#[derive(Debug)]
pub(crate) struct CopyBounce {
    lane: &'static Lane,
    data: Vec<u8>,
    /// Messages each way so far.
    done: u64,
}

impl CopyBounce {
    /// Both sides make theirs while the parcels are at rest. `None` for messages that are longer than a parcel.
    pub(crate) fn new(lane: &'static Lane, bytes: usize) -> Option<Self> {
        let done = lane.parcels[1].number.load(Ordering::Acquire);
        (bytes <= COPY_MAX).then(|| Self { lane, data: vec![0; bytes], done })
    }

    #[inline(always)]
    fn send(&self, way: usize, number: u64) {
        let parcel = &self.lane.parcels[way];
        // SAFETY: the parcel holds `COPY_MAX` bytes, at least as many as the data; until the number is there, its receiver
        // does not look at them.
        unsafe { parcel.bytes().copy_from_nonoverlapping(self.data.as_ptr(), self.data.len()) };
        parcel.number.store(number, Ordering::Release);
    }

    #[inline(always)]
    fn receive(&mut self, way: usize, number: u64) {
        let parcel = &self.lane.parcels[way];
        spin_until::<false>(|| parcel.number.load(Ordering::Acquire) == number);
        // SAFETY: as in `send`; the sender writes the next only after our answer.
        unsafe { parcel.bytes().copy_to_nonoverlapping(self.data.as_mut_ptr(), self.data.len()) };
    }
}

impl Batch for CopyBounce {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for number in self.done + 1..=self.done + rounds {
            self.send(0, number);
            self.receive(1, number);
        }
        self.done += rounds;
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for number in self.done + 1..=self.done + rounds {
            self.receive(0, number);
            self.send(1, number);
        }
        self.done += rounds;
        Ok(())
    }
}

/// Looks until `done`.
#[inline(always)]
pub(super) fn spin_until<const PAUSE: bool>(mut done: impl FnMut() -> bool) {
    let mut looks = 0;
    while !done() {
        looks += 1;
        if looks == PATIENCE {
            looks = 0;
            std::thread::yield_now();
        } else if PAUSE {
            spin_hint();
        }
    }
}

/// The bare line now, one way, in nanoseconds; for rank 0, and where the partners have a processor each.
pub(crate) fn probe(stage: &Stage<'_>) -> Result<Option<Summary>, Box<dyn Error>> {
    let mut bounce = stage.lane.map(|lane| Bounce::new(lane, HandOver::Store));
    let samples = match &mut bounce {
        Some(bounce) => measure(stage, PROBE, None, bounce)?,
        None => stage.barrier().map(|()| Vec::new())?,
    };
    Ok(Summary::of_costs(&one_way(&samples)))
}

/// `strait bench cacheline`.
pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["bare hardware, 8 bytes", "min", "p50", "p99"]);
    let lane = stage.lane.ok_or(ONE_PROCESSOR)?;
    for (hand_over, name) in HandOver::ALL {
        let samples = measure(stage, effort, None, &mut Bounce::new(lane, hand_over))?;
        tell(stage, report, name, "line", &one_way(&samples))?;
    }
    let samples = measure(stage, effort, None, &mut SlotStream::new(lane))?;
    let each: Vec<f64> = samples.iter().map(|sample| sample.work / STREAM_ROUND as f64).collect();
    tell(stage, report, "slot stream, per message", "gap", &each)
}

fn tell(
    stage: &Stage<'_>,
    report: &mut Report,
    name: &'static str,
    metric: &'static str,
    costs: &[f64],
) -> Result<(), Box<dyn Error>> {
    let all = stage.gather(costs, stage.pairs())?.concat();
    if let Some(summary) = Summary::of_costs(&all) {
        report.row(Row::new("cacheline", 8, metric, "ns", summary).of_variant(name))?;
        report.line([name.to_owned(), time(summary.min), time(summary.p50), time(summary.p99)]);
    }
    report.step();
    Ok(())
}

/// One way of each round.
fn one_way(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.work / 2.0).collect()
}
