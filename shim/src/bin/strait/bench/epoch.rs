//! One-sided operations between nodes in epochs of post, start, complete and wait (`[OneSided04]` §3.4): by RDMA, beside the paper's
//! baseline, windows by messages: operations packed, and sent when the origin completes (§3.2).

use core::error::Error;

use strait::{Assert, Endpoint, Op, Request, Scope, Window, WindowDesign, wait_all};

use super::computation::Processor;
use super::memory::Memory;
use super::report::Report;
use super::sampling::{Batch, Effort, measure};
use super::stage::Stage;
use super::stats;
use super::window::{BURST, Verb, tell, window};

/// Bytes that an allocator maps.
const MAPPED: usize = 256 << 10;

/// What happens in each epoch.
#[derive(Clone, Copy, Debug)]
struct Plan {
    verb: Verb,
    /// Operations.
    count: usize,
    /// Bytes of each.
    bytes: usize,
    /// Whether every epoch is followed by one the other way round.
    ping_pong: bool,
    /// Nanoseconds that the origin computes after each operation.
    overlap: f64,
    /// Nanoseconds that the target computes between post and wait.
    skew: f64,
}

impl Plan {
    /// A burst in one direction.
    const fn burst(verb: Verb, count: usize, bytes: usize) -> Self {
        Self { verb, count, bytes, ping_pong: false, overlap: 0.0, skew: 0.0 }
    }
}

/// Epochs of one plan, again and again.
struct Epochs<'a> {
    plan: Plan,
    processor: Processor,
    endpoint: Endpoint<'a>,
    window: &'a Window<'a>,
    partner: u32,
    /// A buffer of the origin's for each operation.
    buffers: Vec<Vec<u64>>,
    /// Longest accumulate that the origin carries out by itself, if that is not left to the library.
    own_up_to: Option<usize>,
}

impl<'a> Epochs<'a> {
    fn new(stage: &Stage<'a>, processor: Processor, window: &'a Window<'a>, plan: Plan) -> Self {
        let (endpoint, partner) = (stage.endpoint, stage.partner);
        // Mapped for themselves, and not in the heap: of those registrations stay, and so it is with a program's arrays.
        let words = plan.bytes.div_ceil(8).max(MAPPED / 8);
        let buffers = vec![vec![1_u64; words]; plan.count];
        Self { plan, processor, endpoint, window, partner, buffers, own_up_to: None }
    }

    fn origin(&mut self) -> Result<(), strait::Error> {
        let Self { plan, processor, endpoint, window, partner, ref mut buffers, own_up_to } = *self;
        own_up_to.into_iter().for_each(|bytes| window.hand_over_above(bytes));
        window.start(&[partner], Assert::NONE)?;
        endpoint.scope(|scope| {
            let mut requests = Vec::new();
            for (number, buffer) in buffers.iter_mut().enumerate() {
                let at = number * plan.bytes;
                requests.push(begin(scope, window, partner, &plan, buffer, at)?);
                processor.compute(plan.overlap);
            }
            complete(window, &mut requests)
        })
    }

    fn target(&self) -> Result<(), strait::Error> {
        self.window.post(&[self.partner], Assert::NONE)?;
        self.processor.compute(self.plan.skew);
        self.window.wait()
    }
}

impl Batch for Epochs<'_> {
    fn least(&self) -> u64 {
        match self.plan.count * self.plan.bytes {
            bytes if bytes <= 256 << 10 => 16,
            bytes if bytes <= 1 << 20 => 4,
            _ => 1,
        }
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.origin()?;
            if self.plan.ping_pong {
                self.target()?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.target()?;
            if self.plan.ping_pong {
                self.origin()?;
            }
        }
        Ok(())
    }
}

/// Ends an access epoch, and its requests. By messages nothing begins before, unless it is waited for.
pub(super) fn complete(
    window: &Window<'_>,
    requests: &mut [Request<'_>],
) -> Result<(), strait::Error> {
    match window.design() {
        WindowDesign::SendRecv => window.complete().and_then(|()| wait_all(requests)),
        _ => wait_all(requests).and_then(|()| window.complete()),
    }
}

fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    window: &'scope Window<'_>,
    target: u32,
    plan: &Plan,
    buffer: &'scope mut [u64],
    at: usize,
) -> Result<Request<'scope>, strait::Error> {
    let bytes: &'scope mut [u8] = bytemuck::cast_slice_mut(buffer);
    match plan.verb {
        Verb::Put => scope.rput(window, &bytes[..plan.bytes], target, at),
        Verb::Get => scope.rget(window, &mut bytes[..plan.bytes], target, at),
        Verb::Accumulate => {
            let numbers: &[u64] = bytemuck::cast_slice(&bytes[..plan.bytes]);
            scope.raccumulate(window, numbers, target, at, Op::Sum)
        }
    }
}

/// How many measurements [`run`] takes.
pub(super) const fn steps(verb: Verb, sizes: usize) -> usize {
    match verb {
        Verb::Put | Verb::Get => 3 + sizes,
        Verb::Accumulate => 1 + 2 * sizes,
    }
}

/// `strait bench put`, `get`, `accumulate` between nodes.
pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    verb: Verb,
    sizes: &[usize],
    memory: Memory,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[verb.name(), "min", "p50", "p99", "send_recv", "× send_recv"]);
    let longest = sizes.iter().copied().max().unwrap_or(8).max(LARGE);
    let of = |design| window(stage, memory, BURST * longest, design);
    let (baseline, window) = (of(WindowDesign::SendRecv)?, of(WindowDesign::Rdma)?);
    let processor = Processor::new();
    for (name, plan) in plans(verb, sizes) {
        let mut bare = Epochs::new(stage, processor, &baseline, plan);
        let mut work = Epochs::new(stage, processor, &window, plan);
        let mut samples = measure(stage, effort, Some(&mut bare), &mut work)?;
        if plan.ping_pong {
            for sample in &mut samples {
                (sample.bare, sample.work) = (sample.bare / 2.0, sample.work / 2.0);
            }
        }
        tell(stage, report, verb.name(), name, plan.bytes, Some("send_recv"), &samples)?;
    }
    if verb == Verb::Accumulate {
        hand_over(stage, effort, (&window, processor), sizes, report)?;
    }
    stage.barrier()?;
    window.free()?;
    baseline.free()?;
    Ok(())
}

/// Each size by the target's handler, beside the same under a lock (`[OneSided04]` §3.4.8).
fn hand_over<'a>(
    stage: &Stage<'a>,
    effort: Effort,
    (window, processor): (&'a Window<'a>, Processor),
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    for &bytes in sizes {
        let bytes = bytes.next_multiple_of(8);
        let plan = Plan::burst(Verb::Accumulate, 1, bytes);
        let by = |own_up_to| Epochs {
            own_up_to: Some(own_up_to),
            ..Epochs::new(stage, processor, window, plan)
        };
        let (mut lock, mut handler) = (by(usize::MAX), by(0));
        let samples = measure(stage, effort, Some(&mut lock), &mut handler)?;
        let name = format!("{}, by the handler beside a lock", stats::bytes(bytes));
        tell(stage, report, "accumulate", name, bytes, Some("lock"), &samples)?;
    }
    Ok(())
}

/// Bytes of the operations with which the origin or the target computes (`[OneSided04]` §3.4.5, §3.4.6).
const LARGE: usize = 64 << 10;

/// Nanoseconds that the origin computes after each of them: less than one takes at the paper's bandwidth.
const OVERLAP: f64 = 60_000.0;

/// Nanoseconds that a target is late: less than a burst takes.
const SKEW: f64 = 1_000_000.0;

fn plans(verb: Verb, sizes: &[usize]) -> Vec<(String, Plan)> {
    let one = Plan { ping_pong: true, ..Plan::burst(verb, 1, 8) };
    let mut plans = vec![(format!("{} 8 B, ping-pong, one way", verb.name()), one)];
    if verb == Verb::Accumulate {
        let single = |&bytes: &usize| {
            let bytes = bytes.next_multiple_of(8);
            (stats::bytes(bytes), Plan::burst(verb, 1, bytes))
        };
        plans.extend(sizes.iter().map(single));
        return plans;
    }
    let burst = |&bytes: &usize| {
        (format!("{} × {BURST}", stats::bytes(bytes)), Plan::burst(verb, BURST, bytes))
    };
    plans.extend(sizes.iter().map(burst));
    let large = Plan::burst(verb, BURST, LARGE);
    plans.push(("64 KiB × 16, origin computes".into(), Plan { overlap: OVERLAP, ..large }));
    plans.push(("64 KiB × 16, target is late".into(), Plan { skew: SKEW, ..large }));
    plans
}
