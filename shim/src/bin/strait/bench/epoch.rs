//! One-sided operations between nodes in epochs of post, start, complete and wait (`[OneSided04]` §3.4): by RDMA, beside the paper's
//! baseline, `send_recv`: operations packed, and sent when the origin completes (§3.2).

use core::error::Error;

use strait::{Assert, Endpoint, Op, Request, Scope, Window, wait_all};

use super::computation::Processor;
use super::memory::Memory;
use super::report::Report;
use super::sampling::{Batch, Effort, measure};
use super::stage::Stage;
use super::stats;
use super::window::{BURST, Verb, tell, window};

/// Bytes up to which the baseline packs an operation's data behind its description.
const PACKED: usize = 4096;

/// Bytes of a description: where, and how many.
const HEAD: usize = 16;

const POST: u32 = 1;
const OPERATIONS: u32 = 2;
const DATA: u32 = 3;
const DONE: u32 = 4;

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

/// The two sides of an epoch.
trait Sides {
    fn origin(&mut self, plan: &Plan, processor: Processor) -> Result<(), strait::Error>;

    fn target(&mut self, plan: &Plan, processor: Processor) -> Result<(), strait::Error>;
}

/// Epochs of one plan, again and again.
struct Epochs<S> {
    plan: Plan,
    processor: Processor,
    sides: S,
}

impl<S: Sides> Epochs<S> {
    const fn new(plan: Plan, processor: Processor, sides: S) -> Self {
        Self { plan, processor, sides }
    }
}

impl<S: Sides> Batch for Epochs<S> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.sides.origin(&self.plan, self.processor)?;
            if self.plan.ping_pong {
                self.sides.target(&self.plan, self.processor)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.sides.target(&self.plan, self.processor)?;
            if self.plan.ping_pong {
                self.sides.origin(&self.plan, self.processor)?;
            }
        }
        Ok(())
    }
}

/// By RDMA, as the library does it.
struct Rdma<'a> {
    endpoint: Endpoint<'a>,
    window: &'a Window<'a>,
    partner: u32,
    /// A buffer of the origin's for each operation.
    buffers: Vec<Vec<u64>>,
    /// Longest accumulate that the origin carries out by itself, if that is not left to the library.
    own_up_to: Option<usize>,
}

impl Sides for Rdma<'_> {
    fn origin(&mut self, plan: &Plan, processor: Processor) -> Result<(), strait::Error> {
        let Self { endpoint, window, partner, ref mut buffers, own_up_to } = *self;
        own_up_to.into_iter().for_each(|bytes| window.hand_over_above(bytes));
        window.start(&[partner], Assert::NONE)?;
        endpoint.scope(|scope| {
            let mut requests = Vec::new();
            for (number, buffer) in buffers.iter_mut().take(plan.count).enumerate() {
                let at = number * plan.bytes;
                requests.push(begin(scope, window, partner, plan, buffer, at)?);
                processor.compute(plan.overlap);
            }
            wait_all(&mut requests)
        })?;
        window.complete()
    }

    fn target(&mut self, plan: &Plan, processor: Processor) -> Result<(), strait::Error> {
        self.window.post(&[self.partner], Assert::NONE)?;
        processor.compute(plan.skew);
        self.window.wait()
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

/// By messages.
struct SendRecv<'a> {
    endpoint: Endpoint<'a>,
    partner: u32,
    /// A buffer of the origin's for each operation.
    buffers: Vec<Vec<u64>>,
    /// The target's part.
    part: Vec<u64>,
    /// Descriptions, and what is packed behind them.
    packed: Vec<u8>,
    /// The operand of an accumulate.
    operand: Vec<u64>,
}

impl SendRecv<'_> {
    /// Bytes of the message with the operations.
    fn packed_bytes(plan: &Plan) -> usize {
        let data = if Self::packs(plan) { plan.bytes } else { 0 };
        plan.count * (HEAD + data)
    }

    /// Whether the data of an operation go with its description.
    fn packs(plan: &Plan) -> bool {
        plan.verb != Verb::Get && plan.bytes <= PACKED
    }
}

impl Sides for SendRecv<'_> {
    fn origin(&mut self, plan: &Plan, processor: Processor) -> Result<(), strait::Error> {
        let Self { endpoint, partner, ref mut buffers, ref mut packed, .. } = *self;
        let buffers = &mut buffers[..plan.count];
        // The operations are only noted here.
        let each = Self::packed_bytes(plan) / plan.count;
        for (number, buffer) in buffers.iter().enumerate() {
            let place = &mut packed[number * each..][..each];
            let head = [(number * plan.bytes) as u64, plan.bytes as u64];
            place[..HEAD].copy_from_slice(bytemuck::bytes_of(&head));
            if Self::packs(plan) {
                let data: &[u8] = bytemuck::cast_slice(buffer);
                place[HEAD..].copy_from_slice(&data[..plan.bytes]);
            }
            processor.compute(plan.overlap);
        }
        endpoint.recv::<u8>(&mut [], partner, POST)?;
        endpoint.send(&packed[..Self::packed_bytes(plan)], partner, OPERATIONS)?;
        if !Self::packs(plan) {
            endpoint.scope(|scope| {
                let mut requests = Vec::new();
                for buffer in buffers {
                    let bytes = &mut bytemuck::cast_slice_mut::<_, u8>(buffer)[..plan.bytes];
                    requests.push(match plan.verb {
                        Verb::Get => scope.irecv(bytes, partner, DATA)?,
                        Verb::Put | Verb::Accumulate => scope.isend(&*bytes, partner, DATA)?,
                    });
                }
                wait_all(&mut requests)
            })?;
        }
        endpoint.recv::<u8>(&mut [], partner, DONE).map(drop)
    }

    fn target(&mut self, plan: &Plan, processor: Processor) -> Result<(), strait::Error> {
        let Self { endpoint, partner, ref mut part, ref mut packed, ref mut operand, .. } = *self;
        endpoint.send::<u8>(&[], partner, POST)?;
        processor.compute(plan.skew);
        let packed = &mut packed[..Self::packed_bytes(plan)];
        endpoint.recv(packed, partner, OPERATIONS)?;
        let each = packed.len() / plan.count;
        for operation in packed.chunks_exact(each) {
            let [at, bytes]: [u64; 2] = bytemuck::pod_read_unaligned(&operation[..HEAD]);
            let (at, words) = (at as usize / 8, (bytes as usize).div_ceil(8));
            let place = &mut part[at..at + words];
            let place_bytes: &mut [u8] = &mut bytemuck::cast_slice_mut(place)[..bytes as usize];
            match plan.verb {
                Verb::Get => endpoint.send(place_bytes, partner, DATA)?,
                Verb::Put if Self::packs(plan) => place_bytes.copy_from_slice(&operation[HEAD..]),
                Verb::Put => drop(endpoint.recv(place_bytes, partner, DATA)?),
                Verb::Accumulate => {
                    let operand = &mut operand[..words];
                    if Self::packs(plan) {
                        let bytes = bytemuck::cast_slice_mut::<_, u8>(operand);
                        bytes.copy_from_slice(&operation[HEAD..]);
                    } else {
                        endpoint.recv(operand, partner, DATA)?;
                    }
                    let both = place.iter_mut().zip(operand);
                    both.for_each(|(number, other)| *number = number.wrapping_add(*other));
                }
            }
        }
        endpoint.send::<u8>(&[], partner, DONE)
    }
}

/// Tags of the baseline's messages are those of a context of their own.
const CONTEXT: u32 = 2;

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
    let window = window(stage, memory, BURST * longest)?;
    let processor = Processor::new();
    // Of a part there are as many bytes as operations of any epoch reach.
    let words = longest.div_ceil(8);
    for (name, plan) in plans(verb, sizes) {
        let buffers = || vec![vec![1_u64; words]; plan.count];
        let (endpoint, partner) = (stage.endpoint.with_context(CONTEXT), stage.partner);
        let baseline = SendRecv {
            endpoint,
            partner,
            buffers: buffers(),
            part: vec![0; BURST * words],
            packed: vec![0; BURST * (HEAD + PACKED)],
            operand: vec![0; words],
        };
        let (window, buffers) = (&window, buffers());
        let rdma = Rdma { endpoint, window, partner, buffers, own_up_to: None };
        let mut baseline = Epochs::new(plan, processor, baseline);
        let mut work = Epochs::new(plan, processor, rdma);
        let mut samples = measure(stage, effort, Some(&mut baseline), &mut work)?;
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
    Ok(())
}

/// Each size by the target's handler, beside the same under a lock (`[OneSided04]` §3.4.8).
fn hand_over(
    stage: &Stage<'_>,
    effort: Effort,
    (window, processor): (&Window<'_>, Processor),
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    for &bytes in sizes {
        let bytes = bytes.next_multiple_of(8);
        let by = |own_up_to| {
            let (endpoint, partner) = (stage.endpoint, stage.partner);
            let buffers = vec![vec![1_u64; bytes / 8]];
            let rdma = Rdma { endpoint, window, partner, buffers, own_up_to: Some(own_up_to) };
            Epochs::new(Plan::burst(Verb::Accumulate, 1, bytes), processor, rdma)
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
