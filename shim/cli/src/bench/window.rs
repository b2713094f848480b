//! `strait bench put`, `get`, `accumulate` and `sync`: one-sided operations beside the bare
//! hardware at the same moment.
//!
//! The target of an operation makes no library call meanwhile, except that it waits for the next
//! sample.

use core::error::Error;
use core::ptr::NonNull;
use std::borrow::Cow;

use strait::{Assert, Op, Window, WindowDesign};
use strait_core::sync::Ordering;

use super::cacheline::{Bounce, LineTransfer};
use super::crowd::{Many, OriginWork};
use super::lane::PairMemory;
use super::memory::MemoryKind;
use super::report::{Report, Row};
use super::sampling::{Batch, Effort, Sample, measure};
use super::stage::BenchStage;
use super::stats::{self, SampleSummary, time};
use super::{both_ways, crowd, epoch};

/// Number of operations between two flushes in a bandwidth measurement (`[OneSided04]` §3.4.3).
pub(super) const BURST: usize = 16;

/// The operation on the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WindowVerb {
    Put,
    Get,
    Accumulate,
}

impl WindowVerb {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Accumulate => "accumulate",
        }
    }
}

/// Returns the number of measurements that `strait bench put` and its variants take of one size.
pub(super) fn steps(stage: &BenchStage<'_>, verb: WindowVerb, sizes: usize) -> usize {
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

/// Number of synchronisation methods that are measured.
const SYNC_STEPS: usize = 4;

/// Returns the number of measurements of `strait bench sync`.
pub(super) fn sync_steps(stage: &BenchStage<'_>) -> usize {
    SYNC_STEPS + crowd::steps(stage, &BOTH)
}

const ORIGINS: [Many; 1] = [Many::Origins];
const BOTH: [Many; 2] = [Many::Origins, Many::Targets];

/// Size in bytes of the puts of many origins (`[OneSided04]` §3.4.7).
const OF_MANY: usize = 64 << 10;

/// Makes a window over one kind of memory, with `bytes` bytes at each rank.
pub(super) fn window<'a>(
    stage: &BenchStage<'a>,
    memory: MemoryKind,
    bytes: usize,
    design: WindowDesign,
) -> Result<Window<'a>, strait::Error> {
    let all: Vec<_> = (0..stage.ranks()).collect();
    let all = stage.endpoint.group(&all)?;
    match memory {
        MemoryKind::Segment => Window::builder(&all).options(design).allocate(bytes),
        MemoryKind::Private => {
            Window::builder(&all).options(design).over(vec![0_u64; bytes.div_ceil(8)])
        }
    }
}

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
pub(super) fn run(
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

/// Repeated synchronisation with the partner, by one method.
struct Synchronise<'a> {
    window: &'a Window<'a>,
    partner: u32,
    way: WindowPattern,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WindowPattern {
    Fence,
    /// Both ranks post, start, complete and wait.
    Both,
    /// One rank is the origin, the other the target.
    ByTurns,
    /// One rank is the origin of a put of 8 bytes, the other the target. Then they change roles.
    PingPong,
}

impl WindowPattern {
    const ALL: [(Self, &'static str); SYNC_STEPS] = [
        (Self::Fence, "fence, empty"),
        (Self::Both, "post start complete wait, empty, both ways"),
        (Self::ByTurns, "post start complete wait, empty, one way"),
        (Self::PingPong, "put 8 B, ping-pong, one way"),
    ];
}

impl Synchronise<'_> {
    fn access(&self) -> Result<(), strait::Error> {
        self.window.start(&[self.partner], Assert::NONE)?;
        if self.way == WindowPattern::PingPong {
            self.window.put(&[1_u64], self.partner, 0)?;
        }
        self.window.complete()
    }

    fn expose(&self) -> Result<(), strait::Error> {
        self.window.post(&[self.partner], Assert::NONE)?;
        self.window.wait()
    }

    fn round(&self, leads: bool) -> Result<(), strait::Error> {
        match self.way {
            WindowPattern::Fence => self.window.fence(Assert::NONE),
            WindowPattern::Both => {
                self.window.post(&[self.partner], Assert::NONE)?;
                self.access()?;
                self.window.wait()
            }
            WindowPattern::ByTurns | WindowPattern::PingPong if leads => {
                self.access().and_then(|()| self.expose())
            }
            WindowPattern::ByTurns | WindowPattern::PingPong => {
                self.expose().and_then(|()| self.access())
            }
        }
    }
}

impl Batch for Synchronise<'_> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| self.round(true))
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| self.round(false))
    }
}

/// `strait bench sync`.
pub(super) fn sync(
    stage: &BenchStage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["synchronisation", "min", "p50", "p99", "bare line", "× line"]);
    let pair = [stage.rank().min(stage.partner), stage.rank().max(stage.partner)];
    let group = stage.endpoint.group(&pair)?;
    let window = Window::builder(&group).allocate(64)?;
    let partner = 1 - group.place();
    for (way, name) in WindowPattern::ALL {
        let mut bounce = stage.lane.map(|lane| Bounce::new(lane, LineTransfer::Store));
        let bare = bounce.as_mut().map(|bounce| bounce as &mut dyn Batch);
        let mut work = Synchronise { window: &window, partner, way };
        let mut samples = measure(stage, effort, bare, &mut work)?;
        for sample in &mut samples {
            sample.bare /= 2.0;
            if matches!(way, WindowPattern::ByTurns | WindowPattern::PingPong) {
                sample.work /= 2.0;
            }
        }
        tell(stage, report, "sync", name, 0, stage.lane.map(|_| "line"), &samples)?;
    }
    window.free()?;
    crowd::run(stage, effort, &BOTH, OriginWork::Nothing, report)
}

/// Reports the rows and the line of one measurement of all pairs.
pub(super) fn tell(
    stage: &BenchStage<'_>,
    report: &mut Report,
    bench: &'static str,
    name: impl Into<Cow<'static, str>>,
    bytes: usize,
    limit: Option<&'static str>,
    samples: &[Sample],
) -> Result<(), Box<dyn Error>> {
    let both: Vec<f64> = samples.iter().flat_map(|sample| [sample.bare, sample.work]).collect();
    let both = stage.gather(&both, stage.pairs())?.concat();
    let (pairs, _) = both.as_chunks::<2>();
    let of = |what: fn(&[f64; 2]) -> f64| {
        SampleSummary::of_costs(&pairs.iter().map(what).collect::<Vec<_>>())
    };
    let name = name.into();
    let Some(SampleSummary { min, p50, p99, .. }) = of(|[_, work]| *work) else {
        report.step();
        return Ok(());
    };
    let row = |metric, unit, figures| {
        Row::new(bench, bytes, metric, unit, figures).of_variant(name.clone())
    };
    report.row(row("time", "ns", SampleSummary { min, p50, p99, samples: pairs.len() }))?;
    let (mut bare, mut times) = Default::default();
    let against = of(|[bare, _]| *bare).zip(of(|[bare, work]| work / bare));
    if let Some(((cost, ratio), limit)) = against.zip(limit) {
        report.row(row(limit, "ns", cost))?;
        report.row(row("ratio", "x", ratio))?;
        (bare, times) = (time(cost.p50), stats::ratio(ratio.p50));
    }
    report.line([name.into_owned(), time(min), time(p50), time(p99), bare, times]);
    report.step();
    Ok(())
}
