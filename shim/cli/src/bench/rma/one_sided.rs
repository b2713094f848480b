//! `strait bench put`, `get` and `accumulate`: one-sided operations beside the bare
//! hardware at the same moment.
//!
//! The target of an operation makes no library call meanwhile, except that it waits for the next
//! sample.

use core::error::Error;
use core::ptr::NonNull;

use clap::Args;
use strait::{Op, Window, WindowDesign};
use strait_core::sync::Ordering;

use super::crowd::{Many, OriginWork};
use super::window::{BURST, WindowVerb, tell, window};
use super::{both_ways, crowd, epoch};
use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, asked_or, parse_bytes};
use crate::measure::lane::PairMemory;
use crate::measure::memory::MemoryKind;
use crate::measure::report::Report;
use crate::measure::sampling::{Batch, Effort, measure};
use crate::measure::stage::BenchStage;
use crate::measure::stats;

#[derive(Args, Debug)]
struct OneSided {
    /// Sizes of operations, such as 4K,64K,1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes)]
    bytes: Vec<usize>,
    /// Memory of the window: allocated in the segment, or private
    #[arg(long, value_enum, default_value_t = MemoryKind::Segment)]
    memory: MemoryKind,
    #[command(flatten)]
    common: Common,
}

impl OneSided {
    fn sizes(&self, verb: WindowVerb) -> Vec<usize> {
        let default = [64, 1 << 10, 8 << 10, 64 << 10, 1 << 20];
        let count = if verb == WindowVerb::Accumulate { 4 } else { default.len() };
        asked_or(&self.bytes, default.into_iter().take(count))
    }

    fn run(
        &self,
        stage: &BenchStage<'_>,
        verb: WindowVerb,
        report: &mut Report,
    ) -> Result<(), Box<dyn Error>> {
        run(stage, self.common.effort(), verb, &self.sizes(verb), self.memory, report)
    }
}

/// One-sided writes beside a bare compare-and-swap and `memcpy`; the target makes no call. Between
/// nodes in epochs, beside the same by messages
#[derive(Args, Debug)]
pub(crate) struct PutBench {
    #[command(flatten)]
    options: OneSided,
}

impl Benchmark for PutBench {
    fn common(&self) -> Common {
        self.options.common
    }

    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        let sizes = self.options.sizes(WindowVerb::Put).len();
        Ok(steps(stage, WindowVerb::Put, sizes))
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        self.options.run(stage, WindowVerb::Put, report)
    }
}

/// One-sided reads, with the same comparisons as `put`
#[derive(Args, Debug)]
pub(crate) struct GetBench {
    #[command(flatten)]
    options: OneSided,
}

impl Benchmark for GetBench {
    fn common(&self) -> Common {
        self.options.common
    }

    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        let sizes = self.options.sizes(WindowVerb::Get).len();
        Ok(steps(stage, WindowVerb::Get, sizes))
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        self.options.run(stage, WindowVerb::Get, report)
    }
}

/// Accumulates, fetch-and-op and compare-and-swap, with the same comparisons as `put`
#[derive(Args, Debug)]
pub(crate) struct AccumulateBench {
    #[command(flatten)]
    options: OneSided,
}

impl Benchmark for AccumulateBench {
    fn common(&self) -> Common {
        self.options.common
    }

    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        let sizes = self.options.sizes(WindowVerb::Accumulate).len();
        Ok(steps(stage, WindowVerb::Accumulate, sizes))
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        self.options.run(stage, WindowVerb::Accumulate, report)
    }
}

/// Returns the number of measurements that `strait bench put` and its variants take of one size.
fn steps(stage: &BenchStage<'_>, verb: WindowVerb, sizes: usize) -> usize {
    let own = match verb {
        _ if stage.crosses() => epoch::steps(verb, sizes),
        WindowVerb::Put | WindowVerb::Get => 1 + sizes,
        WindowVerb::Accumulate => 3 + sizes,
    };
    let more = match verb {
        WindowVerb::Put => both_ways::steps(stage) + crowd::steps(stage, &ORIGINS),
        WindowVerb::Get => 0,
        WindowVerb::Accumulate => crowd::steps(stage, &ORIGINS),
    };
    own + more
}

const ORIGINS: [Many; 1] = [Many::Origins];

/// Size in bytes of the puts of many origins (`[OneSided04]` §3.4.7).
const OF_MANY: usize = 64 << 10;

/// One operation at a time, each flushed.
struct Flushed<'a, F> {
    window: &'a Window<'a>,
    target: u32,
    operation: F,
}

impl<F: FnMut(&Window<'_>, u32) -> Result<(), strait::Error>> Batch for Flushed<'_, F> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            (self.operation)(self.window, self.target)?;
            self.window.flush(self.target)?;
        }
        Ok(())
    }

    fn follow(&mut self, _rounds: u64) -> Result<(), strait::Error> {
        Ok(())
    }
}

/// Compare-and-swaps of a word that no other rank reads.
struct Swaps(&'static PairMemory);

impl Batch for Swaps {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let word = &self.0.line.0;
        let start = word.load(Ordering::Acquire);
        for round in 0..rounds {
            let (old, new) = (start.wrapping_add(round), start.wrapping_add(round + 1));
            let swapped = word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
            debug_assert!(swapped.is_ok());
        }
        // The other side of a bounce would wait for this value.
        word.store(start, Ordering::Release);
        Ok(())
    }

    fn follow(&mut self, _rounds: u64) -> Result<(), strait::Error> {
        Ok(())
    }
}

/// Bursts of copies between the origin's memory and the target's part, flushed or bare.
struct Bursts<'a> {
    window: &'a Window<'a>,
    target: u32,
    verb: WindowVerb,
    data: Vec<u64>,
    bytes: usize,
    bare: bool,
}

impl Bursts<'_> {
    fn copy(&mut self, at: usize) -> Result<(), strait::Error> {
        let words: &mut [u8] = bytemuck::cast_slice_mut(&mut self.data);
        let words = &mut words[..self.bytes];
        if let (true, Some(part)) = (self.bare, self.window.mapped(self.target)) {
            let own = NonNull::from(&mut *words).cast::<u8>().as_ptr();
            // SAFETY: `at` and the bytes behind it lie in the part, which no other rank accesses
            // during a measurement.
            unsafe {
                let place = part.as_ptr().add(at);
                match self.verb {
                    WindowVerb::Get => own.copy_from_nonoverlapping(place, words.len()),
                    WindowVerb::Put | WindowVerb::Accumulate => {
                        place.copy_from_nonoverlapping(own, words.len());
                    }
                }
            }
            core::hint::black_box(own);
            return Ok(());
        }
        match self.verb {
            WindowVerb::Put => self.window.put(words, self.target, at),
            WindowVerb::Get => self.window.get(words, self.target, at),
            WindowVerb::Accumulate => {
                let numbers: &[u64] = &self.data[..self.bytes / 8];
                self.window.accumulate(numbers, self.target, at, Op::Sum)
            }
        }
    }
}

impl Batch for Bursts<'_> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            for place in 0..BURST {
                self.copy(place * self.bytes)?;
            }
            if !self.bare {
                self.window.flush(self.target)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, _rounds: u64) -> Result<(), strait::Error> {
        Ok(())
    }
}

/// `strait bench put`, `get`, `accumulate`.
fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    verb: WindowVerb,
    sizes: &[usize],
    memory: MemoryKind,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let run = if stage.crosses() { epoch::run } else { on_a_node };
    run(stage, effort, verb, sizes, memory, report)?;
    match verb {
        WindowVerb::Put => {
            both_ways::run(stage, effort, report)?;
            crowd::run(stage, effort, &ORIGINS, OriginWork::Puts(OF_MANY), report)
        }
        WindowVerb::Get => Ok(()),
        WindowVerb::Accumulate => {
            crowd::run(stage, effort, &ORIGINS, OriginWork::Accumulates(8), report)
        }
    }
}

fn on_a_node(
    stage: &BenchStage<'_>,
    effort: Effort,
    verb: WindowVerb,
    sizes: &[usize],
    memory: MemoryKind,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let title = verb.name();
    report.columns(&[title, "min", "p50", "p99", "bare", "× bare"]);
    let longest = sizes.iter().copied().max().unwrap_or(8).max(8);
    let window = window(stage, memory, BURST * longest, WindowDesign::Rdma)?;
    let (one, target) = (&window, stage.partner);
    let small = |name, operation: fn(&Window<'_>, u32) -> Result<(), strait::Error>| {
        (name, Flushed { window: one, target, operation })
    };
    let operations = match verb {
        WindowVerb::Put => {
            vec![small("put 8 B + flush", |window, target| window.put(&[7_u64], target, 0))]
        }
        WindowVerb::Get => {
            vec![small("get 8 B + flush", |window, target| window.get(&mut [0_u64], target, 0))]
        }
        WindowVerb::Accumulate => vec![
            small("accumulate 8 B + flush", |window, target| {
                window.accumulate(&[1_u64], target, 0, Op::Sum)
            }),
            small("fetch-and-op 8 B + flush", |window, target| {
                window.fetch_and_op(1_u64, target, 0, Op::Sum).map(drop)
            }),
            small("compare-and-swap 8 B + flush", |window, target| {
                window.compare_and_swap(0_u64, 0, target, 0).map(drop)
            }),
        ],
    };
    for (name, mut operation) in operations {
        let mut swaps = stage.lane.map(Swaps);
        let bare = swaps.as_mut().map(|swaps| swaps as &mut dyn Batch);
        let samples = measure(stage, effort, bare, &mut operation)?;
        tell(stage, report, title, name, 8, stage.lane.map(|_| "swap"), &samples)?;
    }
    for &bytes in sizes {
        let bytes = if verb == WindowVerb::Accumulate { bytes.next_multiple_of(8) } else { bytes };
        let bursts = |bare| Bursts {
            window: one,
            target,
            verb,
            data: vec![1; bytes.div_ceil(8)],
            bytes,
            bare,
        };
        let (mut work, mut bare) = (bursts(false), bursts(true));
        let bare = (memory == MemoryKind::Segment).then_some(&mut bare as &mut dyn Batch);
        let limit = bare.is_some().then_some("memcpy");
        let samples = measure(stage, effort, bare, &mut work)?;
        let name = format!("{} × {BURST}", stats::bytes(bytes));
        tell(stage, report, title, name, bytes, limit, &samples)?;
    }
    stage.barrier()?;
    window.free()?;
    Ok(())
}
