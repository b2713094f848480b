//! `strait bench put`, `get`, `accumulate` and `sync`: one-sided operations beside what the bare hardware does in the same
//! moment.
//!
//! The target of an operation makes no call of the library's meanwhile, but that it waits for the next sample.

use core::error::Error;
use core::ptr::NonNull;
use std::borrow::Cow;

use strait::{Assert, Op, Window, WindowDesign};
use strait_core::sync::Ordering;

use super::cacheline::{Bounce, HandOver};
use super::crowd::{Many, Work};
use super::lane::Lane;
use super::memory::Memory;
use super::report::{Report, Row};
use super::sampling::{Batch, Effort, Sample, measure};
use super::stage::Stage;
use super::stats::{self, Summary, time};
use super::{both_ways, crowd, epoch};

/// Operations between two flushes in a bandwidth (`[OneSided04]` §3.4.3).
pub(super) const BURST: usize = 16;

/// What is done to the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verb {
    Put,
    Get,
    Accumulate,
}

impl Verb {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Accumulate => "accumulate",
        }
    }
}

/// How many measurements `strait bench put` and its like take of one size.
pub(super) fn steps(stage: &Stage<'_>, verb: Verb, sizes: usize) -> usize {
    let own = match verb {
        _ if stage.crosses() => epoch::steps(verb, sizes),
        Verb::Put | Verb::Get => 1 + sizes,
        Verb::Accumulate => 3 + sizes,
    };
    let more = match verb {
        Verb::Put => both_ways::steps(stage) + crowd::steps(stage, &ORIGINS),
        Verb::Get => 0,
        Verb::Accumulate => crowd::steps(stage, &ORIGINS),
    };
    own + more
}

/// Of how many sorts the ranks of a pair synchronise.
const SYNC_STEPS: usize = 4;

/// Measurements of `strait bench sync`.
pub(super) fn sync_steps(stage: &Stage<'_>) -> usize {
    SYNC_STEPS + crowd::steps(stage, &BOTH)
}

const ORIGINS: [Many; 1] = [Many::Origins];
const BOTH: [Many; 2] = [Many::Origins, Many::Targets];

/// Bytes of the puts of many origins (`[OneSided04]` §3.4.7).
const OF_MANY: usize = 64 << 10;

/// A window over memory of a kind, `bytes` bytes at each rank.
pub(super) fn window<'a>(
    stage: &Stage<'a>,
    memory: Memory,
    bytes: usize,
    design: WindowDesign,
) -> Result<Window<'a>, strait::Error> {
    let all: Vec<_> = (0..stage.ranks()).collect();
    let all = stage.endpoint.group(&all)?;
    match memory {
        Memory::Segment => all.allocate_window_for(bytes, 1, design),
        Memory::Private => all.create_window_for(vec![0_u64; bytes.div_ceil(8)], 1, design),
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

/// Compare-and-swaps of a word that nobody else looks at.
struct Swaps(&'static Lane);

impl Batch for Swaps {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let word = &self.0.line.0;
        let start = word.load(Ordering::Acquire);
        for round in 0..rounds {
            let (old, new) = (start.wrapping_add(round), start.wrapping_add(round + 1));
            let swapped = word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
            debug_assert!(swapped.is_ok());
        }
        // The other side of a bounce would look for it.
        word.store(start, Ordering::Release);
        Ok(())
    }

    fn follow(&mut self, _rounds: u64) -> Result<(), strait::Error> {
        Ok(())
    }
}

/// Bursts of copies between the origin's memory and the target's part; flushed, or bare.
struct Bursts<'a> {
    window: &'a Window<'a>,
    target: u32,
    verb: Verb,
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
            // SAFETY: `at` and the bytes behind it lie in the part, and nobody touches it during a measurement.
            unsafe {
                let place = part.as_ptr().add(at);
                match self.verb {
                    Verb::Get => own.copy_from_nonoverlapping(place, words.len()),
                    Verb::Put | Verb::Accumulate => {
                        place.copy_from_nonoverlapping(own, words.len());
                    }
                }
            }
            core::hint::black_box(own);
            return Ok(());
        }
        match self.verb {
            Verb::Put => self.window.put(words, self.target, at),
            Verb::Get => self.window.get(words, self.target, at),
            Verb::Accumulate => {
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
    stage: &Stage<'_>,
    effort: Effort,
    verb: Verb,
    sizes: &[usize],
    memory: Memory,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let run = if stage.crosses() { epoch::run } else { on_a_node };
    run(stage, effort, verb, sizes, memory, report)?;
    match verb {
        Verb::Put => {
            both_ways::run(stage, effort, report)?;
            crowd::run(stage, effort, &ORIGINS, Work::Puts(OF_MANY), report)
        }
        Verb::Get => Ok(()),
        Verb::Accumulate => crowd::run(stage, effort, &ORIGINS, Work::Accumulates(8), report),
    }
}

fn on_a_node(
    stage: &Stage<'_>,
    effort: Effort,
    verb: Verb,
    sizes: &[usize],
    memory: Memory,
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
        Verb::Put => {
            vec![small("put 8 B + flush", |window, target| window.put(&[7_u64], target, 0))]
        }
        Verb::Get => {
            vec![small("get 8 B + flush", |window, target| window.get(&mut [0_u64], target, 0))]
        }
        Verb::Accumulate => vec![
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
        let bytes = if verb == Verb::Accumulate { bytes.next_multiple_of(8) } else { bytes };
        let bursts = |bare| Bursts {
            window: one,
            target,
            verb,
            data: vec![1; bytes.div_ceil(8)],
            bytes,
            bare,
        };
        let (mut work, mut bare) = (bursts(false), bursts(true));
        let bare = (memory == Memory::Segment).then_some(&mut bare as &mut dyn Batch);
        let limit = bare.is_some().then_some("memcpy");
        let samples = measure(stage, effort, bare, &mut work)?;
        let name = format!("{} × {BURST}", stats::bytes(bytes));
        tell(stage, report, title, name, bytes, limit, &samples)?;
    }
    stage.barrier()?;
    window.free()?;
    Ok(())
}

/// One way of synchronising with the partner, again and again.
struct Synchronise<'a> {
    window: &'a Window<'a>,
    partner: u32,
    way: Way,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Fence,
    /// Both post, start, complete and wait.
    Both,
    /// One is the origin, the other the target.
    ByTurns,
    /// The same, with a put of 8 bytes; then the other way round.
    PingPong,
}

impl Way {
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
        if self.way == Way::PingPong {
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
            Way::Fence => self.window.fence(Assert::NONE),
            Way::Both => {
                self.window.post(&[self.partner], Assert::NONE)?;
                self.access()?;
                self.window.wait()
            }
            Way::ByTurns | Way::PingPong if leads => self.access().and_then(|()| self.expose()),
            Way::ByTurns | Way::PingPong => self.expose().and_then(|()| self.access()),
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
    stage: &Stage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["synchronisation", "min", "p50", "p99", "bare line", "× line"]);
    let pair = [stage.rank().min(stage.partner), stage.rank().max(stage.partner)];
    let group = stage.endpoint.group(&pair)?;
    let window = group.allocate_window(64, 1)?;
    let partner = 1 - group.place();
    for (way, name) in Way::ALL {
        let mut bounce = stage.lane.map(|lane| Bounce::new(lane, HandOver::Store));
        let bare = bounce.as_mut().map(|bounce| bounce as &mut dyn Batch);
        let mut work = Synchronise { window: &window, partner, way };
        let mut samples = measure(stage, effort, bare, &mut work)?;
        for sample in &mut samples {
            sample.bare /= 2.0;
            if matches!(way, Way::ByTurns | Way::PingPong) {
                sample.work /= 2.0;
            }
        }
        tell(stage, report, "sync", name, 0, stage.lane.map(|_| "line"), &samples)?;
    }
    window.free()?;
    crowd::run(stage, effort, &BOTH, Work::Nothing, report)
}

/// The rows and the line of one measurement, of all pairs.
pub(super) fn tell(
    stage: &Stage<'_>,
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
    let of =
        |what: fn(&[f64; 2]) -> f64| Summary::of_costs(&pairs.iter().map(what).collect::<Vec<_>>());
    let name = name.into();
    let Some(Summary { min, p50, p99, .. }) = of(|[_, work]| *work) else {
        report.step();
        return Ok(());
    };
    let row = |metric, unit, figures| {
        Row::new(bench, bytes, metric, unit, figures).of_variant(name.clone())
    };
    report.row(row("time", "ns", Summary { min, p50, p99, samples: pairs.len() }))?;
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
