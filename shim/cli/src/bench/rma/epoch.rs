//! One-sided operations between nodes in epochs of post, start, complete and wait (`[OneSided04]`
//! §3.4).
//!
//! They go by RDMA, beside the paper's baseline, windows by messages. There, operations are packed,
//! and sent when the origin completes (§3.2).

use core::error::Error;

use strait::{Assert, Endpoint, Op, Request, Scope, Window, WindowDesign, wait_all};

use super::window::{BURST, WindowVerb, tell, window};
use crate::measure::computation::Processor;
use crate::measure::memory::MemoryKind;
use crate::measure::report::Report;
use crate::measure::sampling::{Batch, Effort, measure};
use crate::measure::stage::BenchStage;
use crate::measure::stats;

/// Size in bytes from which an allocator maps memory separately.
const MAPPED: usize = 256 << 10;

/// The work of each epoch.
#[derive(Clone, Copy, Debug)]
struct EpochPlan {
    verb: WindowVerb,
    /// Number of operations.
    count: usize,
    /// Size of each operation in bytes.
    bytes: usize,
    /// True if each epoch is followed by one in the opposite direction.
    ping_pong: bool,
    /// Computation of the origin after each operation, in nanoseconds.
    overlap: f64,
    /// Computation of the target between post and wait, in nanoseconds.
    skew: f64,
}

impl EpochPlan {
    /// Returns the plan of a burst in one direction.
    const fn burst(verb: WindowVerb, count: usize, bytes: usize) -> Self {
        Self { verb, count, bytes, ping_pong: false, overlap: 0.0, skew: 0.0 }
    }
}

/// Repeated epochs of one plan.
struct EpochRounds<'a> {
    plan: EpochPlan,
    processor: Processor,
    endpoint: Endpoint<'a>,
    window: &'a Window<'a>,
    partner: u32,
    /// The origin's buffers, one for each operation.
    buffers: Vec<Vec<u64>>,
    /// Maximum size in bytes of an accumulate that the origin performs itself. `None`: the library
    /// chooses.
    own_up_to: Option<usize>,
}

impl<'a> EpochRounds<'a> {
    fn new(
        stage: &BenchStage<'a>,
        processor: Processor,
        window: &'a Window<'a>,
        plan: EpochPlan,
    ) -> Self {
        let (endpoint, partner) = (stage.endpoint, stage.partner);
        // Each buffer has its own mapping instead of heap memory. So have a program's arrays, and
        // registrations of heap memory stay.
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

impl Batch for EpochRounds<'_> {
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

/// Ends an access epoch and its requests. By messages, the operations start only when they are
/// waited for.
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
    plan: &EpochPlan,
    buffer: &'scope mut [u64],
    at: usize,
) -> Result<Request<'scope>, strait::Error> {
    let bytes: &'scope mut [u8] = bytemuck::cast_slice_mut(buffer);
    match plan.verb {
        WindowVerb::Put => scope.rput(window, &bytes[..plan.bytes], target, at),
        WindowVerb::Get => scope.rget(window, &mut bytes[..plan.bytes], target, at),
        WindowVerb::Accumulate => {
            let numbers: &[u64] = bytemuck::cast_slice(&bytes[..plan.bytes]);
            scope.raccumulate(window, numbers, target, at, Op::Sum)
        }
    }
}

/// Returns the number of measurements that [`run`] takes.
pub(super) const fn steps(verb: WindowVerb, sizes: usize) -> usize {
    match verb {
        WindowVerb::Put | WindowVerb::Get => 3 + sizes,
        WindowVerb::Accumulate => 1 + 2 * sizes,
    }
}

/// `strait bench put`, `get`, `accumulate` between nodes.
pub(super) fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    verb: WindowVerb,
    sizes: &[usize],
    memory: MemoryKind,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[verb.name(), "min", "p50", "p99", "send_recv", "× send_recv"]);
    let longest = sizes.iter().copied().max().unwrap_or(8).max(LARGE);
    let of = |design| window(stage, memory, BURST * longest, design);
    let (baseline, window) = (of(WindowDesign::SendRecv)?, of(WindowDesign::Rdma)?);
    let processor = Processor::new();
    for (name, plan) in plans(verb, sizes) {
        let mut bare = EpochRounds::new(stage, processor, &baseline, plan);
        let mut work = EpochRounds::new(stage, processor, &window, plan);
        let mut samples = measure(stage, effort, Some(&mut bare), &mut work)?;
        if plan.ping_pong {
            for sample in &mut samples {
                (sample.bare, sample.work) = (sample.bare / 2.0, sample.work / 2.0);
            }
        }
        tell(stage, report, verb.name(), name, plan.bytes, Some("send_recv"), &samples)?;
    }
    if verb == WindowVerb::Accumulate {
        hand_over(stage, effort, (&window, processor), sizes, report)?;
    }
    stage.barrier()?;
    window.free()?;
    baseline.free()?;
    Ok(())
}

/// Measures each size by the target's handler, beside the same under a lock (`[OneSided04]`
/// §3.4.8).
fn hand_over<'a>(
    stage: &BenchStage<'a>,
    effort: Effort,
    (window, processor): (&'a Window<'a>, Processor),
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    for &bytes in sizes {
        let bytes = bytes.next_multiple_of(8);
        let plan = EpochPlan::burst(WindowVerb::Accumulate, 1, bytes);
        let by = |own_up_to| EpochRounds {
            own_up_to: Some(own_up_to),
            ..EpochRounds::new(stage, processor, window, plan)
        };
        let (mut lock, mut handler) = (by(usize::MAX), by(0));
        let samples = measure(stage, effort, Some(&mut lock), &mut handler)?;
        let name = format!("{}, by the handler beside a lock", stats::bytes(bytes));
        tell(stage, report, "accumulate", name, bytes, Some("lock"), &samples)?;
    }
    Ok(())
}

/// Size in bytes of the operations beside which the origin or the target computes (`[OneSided04]`
/// §3.4.5, §3.4.6).
const LARGE: usize = 64 << 10;

/// Computation of the origin after each operation, in nanoseconds: less than one operation takes at
/// the paper's bandwidth.
const OVERLAP: f64 = 60_000.0;

/// Delay of the target in nanoseconds: less than a burst takes.
const SKEW: f64 = 1_000_000.0;

fn plans(verb: WindowVerb, sizes: &[usize]) -> Vec<(String, EpochPlan)> {
    let one = EpochPlan { ping_pong: true, ..EpochPlan::burst(verb, 1, 8) };
    let mut plans = vec![(format!("{} 8 B, ping-pong, one way", verb.name()), one)];
    if verb == WindowVerb::Accumulate {
        let single = |&bytes: &usize| {
            let bytes = bytes.next_multiple_of(8);
            (stats::bytes(bytes), EpochPlan::burst(verb, 1, bytes))
        };
        plans.extend(sizes.iter().map(single));
        return plans;
    }
    let burst = |&bytes: &usize| {
        (format!("{} × {BURST}", stats::bytes(bytes)), EpochPlan::burst(verb, BURST, bytes))
    };
    plans.extend(sizes.iter().map(burst));
    let large = EpochPlan::burst(verb, BURST, LARGE);
    plans.push(("64 KiB × 16, origin computes".into(), EpochPlan { overlap: OVERLAP, ..large }));
    plans.push(("64 KiB × 16, target is late".into(), EpochPlan { skew: SKEW, ..large }));
    plans
}
