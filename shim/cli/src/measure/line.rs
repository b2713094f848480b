//! The speed of the bare hardware, without Strait: the limit for all other measurements.

use core::error::Error;
use core::time::Duration;

use strait_core::sync::{AtomicU64, Ordering, spin_hint};

use super::lane::{COPY_MAX, PairMemory, SLOTS};
use super::sampling::{Batch, Effort, Sample, measure};
use super::stage::BenchStage;
use super::stats::SampleSummary;

/// Number of messages in one round of a [`SlotStream`].
pub(crate) const STREAM_ROUND: u64 = 64;

/// Number of polls before the processor is yielded. When each rank has a processor, no measurement
/// reaches it.
const BACKOFF: u32 = 1 << 16;

/// The effort of a bare-line measurement before and after a bench.
const PROBE: Effort = Effort { samples: 50, rounds: None, limit: Duration::from_millis(200) };

/// The reason why simultaneous work of two ranks may not be measured.
pub(crate) const ONE_PROCESSOR: &str = "this bench needs two processors, one for each rank of a \
                                        pair, and this process may use only 1 (see taskset, or \
                                        the limits of the container)";

/// The way in which a line is handed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LineTransfer {
    /// Load until the value is there, then store the next.
    Store,
    /// Load until the value is there, with `pause` between two loads, then store the next.
    StorePause,
    /// Compare-and-swap until it succeeds.
    CompareAndSwap,
}

impl LineTransfer {
    pub(crate) const ALL: [(Self, &'static str); 3] = [
        (Self::Store, "store + spin"),
        (Self::StorePause, "store + spin with pause"),
        (Self::CompareAndSwap, "compare-and-swap"),
    ];
}

/// One line bounced between two processors. A round is there and back.
#[derive(Debug)]
pub(crate) struct Bounce {
    line: &'static AtomicU64,
    hand_over: LineTransfer,
    /// The line's value when the leader may write.
    turn: u64,
}

impl Bounce {
    /// Makes one side. Both sides make theirs while the line is at rest.
    pub(crate) fn new(lane: &'static PairMemory, hand_over: LineTransfer) -> Self {
        let line = &lane.line.0;
        Self { line, hand_over, turn: line.load(Ordering::Acquire) }
    }

    /// Waits `rounds` times for `mine`, and replaces it by the next value. The other side then does
    /// the same.
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
            LineTransfer::Store => self.bounce(mine, rounds, by_store::<false>),
            LineTransfer::StorePause => self.bounce(mine, rounds, by_store::<true>),
            LineTransfer::CompareAndSwap => self.bounce(mine, rounds, by_swap),
        }
        self.turn += 2 * rounds;
    }
}

impl Batch for Bounce {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.turns(0, rounds);
        // The last transfer is complete when this side has seen it.
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

/// Messages of 8 bytes through a ring of lines in one direction: the minimal work of any queue. A
/// round is [`STREAM_ROUND`] messages.
#[derive(Debug)]
pub(crate) struct SlotStream {
    lane: &'static PairMemory,
    /// Number of messages that went through the ring.
    done: u64,
}

impl SlotStream {
    /// Makes one side. Both sides make theirs while the ring is at rest.
    pub(crate) fn new(lane: &'static PairMemory) -> Self {
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

/// Messages there and back, each with a copy in, a sequence number that publishes it, and a copy
/// out: the minimal work for a message of many lines. A round is both messages.
#[derive(Debug)]
pub(crate) struct CopyBounce {
    lane: &'static PairMemory,
    data: Vec<u8>,
    /// Number of messages in each direction so far.
    done: u64,
}

impl CopyBounce {
    /// Makes one side. Both sides make theirs while the parcels are at rest. Returns `None` for
    /// messages longer than a parcel.
    pub(crate) fn new(lane: &'static PairMemory, bytes: usize) -> Option<Self> {
        let done = lane.parcels[1].number.load(Ordering::Acquire);
        (bytes <= COPY_MAX).then(|| Self { lane, data: vec![0; bytes], done })
    }

    #[inline(always)]
    fn send(&self, way: usize, number: u64) {
        let parcel = &self.lane.parcels[way];
        // SAFETY: the parcel holds `COPY_MAX` bytes, at least as many as the data. Its receiver
        // does not read them before the number is there.
        unsafe { parcel.bytes().copy_from_nonoverlapping(self.data.as_ptr(), self.data.len()) };
        parcel.number.store(number, Ordering::Release);
    }

    #[inline(always)]
    fn receive(&mut self, way: usize, number: u64) {
        let parcel = &self.lane.parcels[way];
        spin_until::<false>(|| parcel.number.load(Ordering::Acquire) == number);
        // SAFETY: the parcel holds at least as many bytes as the data. The sender writes the next
        // message only after this side's answer.
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

/// Polls until `done` returns true.
#[inline(always)]
pub(crate) fn spin_until<const PAUSE: bool>(mut done: impl FnMut() -> bool) {
    let mut looks = 0;
    while !done() {
        looks += 1;
        if looks == BACKOFF {
            looks = 0;
            std::thread::yield_now();
        } else if PAUSE {
            spin_hint();
        }
    }
}

/// Measures the bare line in one direction, in nanoseconds. Returns a result on rank 0, and only if
/// the partners have a processor each.
pub(crate) fn probe(stage: &BenchStage<'_>) -> Result<Option<SampleSummary>, Box<dyn Error>> {
    let mut bounce = stage.lane.map(|lane| Bounce::new(lane, LineTransfer::Store));
    let samples = match &mut bounce {
        Some(bounce) => measure(stage, PROBE, None, bounce)?,
        None => stage.barrier().map(|()| Vec::new())?,
    };
    Ok(SampleSummary::of_costs(&one_way(&samples)))
}

/// Returns the time of one direction in each round.
pub(crate) fn one_way(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.work / 2.0).collect()
}
