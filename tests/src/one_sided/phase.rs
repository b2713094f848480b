//! One phase of a random program, which is the same for all ranks that draw it from the same seed.

use fastrand::Rng;
use strait::{ByteRun, Op, Shape};

/// Numbers in a part that are accessed one by one.
pub(super) const NUMBERS: usize = 6;

/// The most looks by which a rank is ahead of another in a mirrored phase.
const SHIFT: usize = 3;

/// The synchronisation at the begin and the end of a phase.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ends {
    /// Fences.
    Fence,
    /// Post, start, complete and wait, or test, among the ranks that access each other.
    Epochs {
        /// Whether targets test instead of waiting.
        test: bool,
    },
    /// Flushes and messages; targets do nothing.
    Flush,
}

/// The operation on a number in a phase.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Call {
    Put(u64),
    Get,
    Accumulate(Op, u64),
    Fetch(Op, u64),
    Swap(u64, u64),
}

impl Call {
    /// Returns whether it returns a value.
    pub(super) const fn gives(self) -> bool {
        !matches!(self, Self::Put(_) | Self::Accumulate(..))
    }

    fn draw_atomic(rng: &mut Rng) -> Self {
        let operand = if rng.bool() { rng.u64(..4) } else { rng.u64(..) };
        let op = Op::ALL[rng.usize(..Op::ALL.len())];
        match rng.u32(..4) {
            0 => Self::Accumulate(op, operand),
            1 => Self::Swap(rng.u64(..3), rng.u64(..3)),
            2 => Self::Accumulate(Op::Sum, operand),
            _ => Self::Fetch(op, operand),
        }
    }
}

/// One operation on one number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) origin: u32,
    pub(super) target: u32,
    pub(super) number: usize,
    pub(super) call: Call,
}

/// A payload to a place that only its origin writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) origin: u32,
    pub(super) target: u32,
    pub(super) offset: usize,
    pub(super) cut: Cut,
    pub(super) id: u64,
}

/// A get of bytes of the target that no rank ever changes. It shifts the numbering of its origin
/// against the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) origin: u32,
    pub(super) target: u32,
    pub(super) cut: Cut,
    /// Number of loads of its origin before it.
    pub(super) after: usize,
}

/// The length of an access to a part, and its division into blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) length: usize,
    /// Bytes of a block, with as many bytes between two; 0: all is in one piece.
    block: usize,
    /// Bytes of a last piece that is longer than a block; 0: there is none.
    tail: usize,
}

impl Cut {
    fn draw(rng: &mut Rng, longest: usize) -> Self {
        let scale = rng.u32(..8);
        // Some have the greatest length.
        let length = if scale == 0 { longest } else { rng.usize(..=longest >> (scale - 1)) };
        let block = if rng.u32(..3) == 0 { rng.usize(1..40) } else { 0 };
        let tail = if block > 0 && rng.bool() { rng.usize(..=length) } else { 0 };
        Self { length, block, tail }
    }

    /// Draws a cut; half of them have short blocks and a long tail.
    fn draw_mixed(rng: &mut Rng, longest: usize) -> Self {
        if rng.bool() {
            return Self::draw(rng, longest);
        }
        let length = rng.usize(longest / 2..=longest);
        let tail = length.saturating_sub(rng.usize(400..2000)).max(1);
        Self { length, block: rng.usize(16..40), tail }
    }

    /// Calls `with` with the shape, which extends over no more than twice the length.
    pub(super) fn with<R>(&self, with: impl FnOnce(Shape<'_>) -> R) -> R {
        let Self { length, block, tail } = *self;
        if tail > 0 {
            let blocks = (length - tail) / block;
            let run = |at: usize| ByteRun { offset: 2 * at * block, length: block };
            let last = ByteRun { offset: 2 * blocks * block, length: length - blocks * block };
            let runs: Vec<_> = (0..blocks).map(run).chain([last]).collect();
            return with(Shape::Runs(&runs));
        }
        if block == 0 || !length.is_multiple_of(block) {
            return with(Shape::Contiguous { length });
        }
        with(Shape::Strided { count: length / block, block, stride: 2 * block })
    }
}

/// The operations of all ranks between two points at which every rank knows that all are complete.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) ends: Ends,
    /// The accesses, in the order of each origin's program.
    pub(super) accesses: Vec<Access>,
    pub(super) loads: Vec<Load>,
    /// The looks, in the order of each origin's program.
    pub(super) looks: Vec<Look>,
}

impl Phase {
    /// Draws the phase `number` of `seed`, for loads of up to `longest` bytes.
    pub(super) fn draw(seed: u64, number: u32, ranks: u32, longest: usize) -> Self {
        let (mut phase, mut rng) = Self::begin(seed, number);
        for target in 0..ranks {
            for number in 0..NUMBERS {
                phase.draw_accesses(&mut rng, ranks, target, number);
            }
            for origin in (0..ranks).filter(|_| rng.u32(..3) == 0).collect::<Vec<_>>() {
                // Uses several loads, each in room of its own.
                let count = if rng.bool() { 1 } else { rng.usize(2..6) };
                let (longest, first) = (longest / count, rng.usize(..64));
                for number in 0..count {
                    let (offset, cut) =
                        (first + 2 * number * longest, Cut::draw(&mut rng, longest));
                    phase.loads.push(Load { origin, target, offset, cut, id: rng.u64(..) });
                }
            }
        }
        rng.shuffle(&mut phase.accesses);
        rng.shuffle(&mut phase.loads);
        for origin in 0..ranks {
            phase.draw_looks(&mut rng, ranks, origin, longest);
        }
        phase
    }

    /// Draws a phase in which every rank does the same to another: a load and a look by turns. Each
    /// rank does up to [`SHIFT`] looks before, and the rest of them behind. So the operation
    /// numbers of the ranks stay close to each other, do not coincide for long, and run ahead on
    /// either side.
    pub(super) fn draw_mirrored(seed: u64, number: u32, ranks: u32, longest: usize) -> Self {
        let (mut phase, mut rng) = Self::begin(seed, number);
        let steps = rng.usize(4..10);
        let longest = longest / steps;
        let first = rng.usize(..64);
        for step in 0..steps {
            let away = (rng.u32(1..ranks), rng.u32(1..ranks));
            let (load, look) =
                (Cut::draw_mixed(&mut rng, longest), Cut::draw_mixed(&mut rng, longest));
            for origin in 0..ranks {
                let (offset, id) = (first + 2 * step * longest, rng.u64(..));
                let target = (origin + away.0) % ranks;
                phase.loads.push(Load { origin, target, offset, cut: load, id });
                let target = (origin + away.1) % ranks;
                phase.looks.push(Look { origin, target, cut: look, after: step + 1 });
            }
        }
        // Enough blocks that windows which pack blocks count them, too.
        let cut = Cut { length: 160, block: 8, tail: 0 };
        for origin in 0..ranks {
            let (target, before) = ((origin + 1) % ranks, rng.usize(..=SHIFT));
            for number in 0..SHIFT {
                let after = if number < before { 0 } else { steps };
                phase.looks.push(Look { origin, target, cut, after });
            }
        }
        phase
    }

    /// Returns an empty phase, and the generator that draws the rest.
    fn begin(seed: u64, number: u32) -> (Self, Rng) {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1 << 20).wrapping_add(number.into()));
        let ends = match rng.u32(..4) {
            0 => Ends::Fence,
            1 => Ends::Flush,
            _ => Ends::Epochs { test: rng.bool() },
        };
        (Self { ends, accesses: Vec::new(), loads: Vec::new(), looks: Vec::new() }, rng)
    }

    /// Draws the looks of an origin: some before all loads, and some between its loads.
    fn draw_looks(&mut self, rng: &mut Rng, ranks: u32, origin: u32, longest: usize) {
        let loads = self.loads.iter().filter(|load| load.origin == origin).count();
        let first = if rng.bool() { rng.usize(..4) } else { 0 };
        let between = (0..loads).filter(|_| rng.bool()).map(|load| load + 1).collect::<Vec<_>>();
        for after in core::iter::repeat_n(0, first).chain(between) {
            let (target, cut) = (rng.u32(..ranks), Cut::draw(rng, longest));
            self.looks.push(Look { origin, target, cut, after });
        }
    }

    /// Draws the operations on one number: none, one put, gets of all ranks, or atomic operations.
    fn draw_accesses(&mut self, rng: &mut Rng, ranks: u32, target: u32, number: usize) {
        let mut add = |origin, call| {
            self.accesses.push(Access { origin, target, number, call });
        };
        match rng.u32(..6) {
            0 => {}
            1 => add(rng.u32(..ranks), Call::Put(rng.u64(..4))),
            2 => (0..ranks).for_each(|origin| add(origin, Call::Get)),
            _ => {
                for _ in 0..rng.u32(1..=2 * ranks.min(4)) {
                    add(rng.u32(..ranks), Call::draw_atomic(rng));
                }
            }
        }
    }

    /// Returns whether no rank puts to a number of the target behind this one.
    pub(super) fn is_without_puts_behind(&self, target: u32, number: usize) -> bool {
        let is_put = |access: &Access| {
            access.target == target && access.number > number && matches!(access.call, Call::Put(_))
        };
        !self.accesses.iter().any(is_put)
    }

    /// Returns the targets that `rank` accesses, or the origins that access it.
    pub(super) fn partners(&self, rank: u32, of_origin: bool) -> Vec<u32> {
        let accesses = self.accesses.iter().map(|access| (access.origin, access.target));
        let looks = self.looks.iter().map(|look| (look.origin, look.target));
        let loads = self.loads.iter().map(|load| (load.origin, load.target));
        let pairs = accesses.chain(loads).chain(looks);
        let mut partners: Vec<_> = pairs
            .filter_map(|(origin, target)| match of_origin {
                true => (origin == rank).then_some(target),
                false => (target == rank).then_some(origin),
            })
            .collect();
        partners.sort_unstable();
        partners.dedup();
        partners
    }
}
