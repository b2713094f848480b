//! One phase of a random program: the same for all who draw it from the same seed.

use fastrand::Rng;
use strait::Op;

/// Numbers in a part that are reached one by one.
pub(super) const NUMBERS: usize = 6;

/// How a phase begins and ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ends {
    /// By fences.
    Fence,
    /// By post, start, complete and wait, or test, among those who have to do with each other.
    Epochs {
        /// Whether targets test instead of waiting.
        test: bool,
    },
    /// By flushes and messages; targets do nothing.
    Flush,
}

/// What is done to a number in a phase.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Call {
    Put(u64),
    Get,
    Accumulate(Op, u64),
    Fetch(Op, u64),
    Swap(u64, u64),
}

impl Call {
    /// True when it gives something back.
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

/// A payload that goes to a place that is its origin's alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) origin: u32,
    pub(super) target: u32,
    pub(super) offset: usize,
    pub(super) length: usize,
    /// In blocks of so many bytes with as many between them; 0 in one piece.
    pub(super) block: usize,
    pub(super) id: u64,
}

/// What all ranks do between two points at which everybody knows that all is done.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) ends: Ends,
    /// In the order of each origin's program.
    pub(super) accesses: Vec<Access>,
    pub(super) loads: Vec<Load>,
}

impl Phase {
    /// Draws the phase `number` of `seed`, for loads of up to `longest` bytes.
    pub(super) fn draw(seed: u64, number: u32, ranks: u32, longest: usize) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1 << 20).wrapping_add(number.into()));
        let ends = match rng.u32(..4) {
            0 => Ends::Fence,
            1 => Ends::Flush,
            _ => Ends::Epochs { test: rng.bool() },
        };
        let mut phase = Self { ends, accesses: Vec::new(), loads: Vec::new() };
        for target in 0..ranks {
            for number in 0..NUMBERS {
                phase.draw_accesses(&mut rng, ranks, target, number);
            }
            for origin in (0..ranks).filter(|_| rng.u32(..3) == 0).collect::<Vec<_>>() {
                let scale = rng.u32(..8);
                let length = rng.usize(..=longest >> scale);
                let block = if rng.u32(..3) == 0 { rng.usize(1..40) } else { 0 };
                let offset = rng.usize(..64);
                let id = rng.u64(..);
                phase.loads.push(Load { origin, target, offset, length, block, id });
            }
        }
        rng.shuffle(&mut phase.accesses);
        phase
    }

    /// What becomes of one number: nothing, one put, gets, or accumulates of all.
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

    /// The members to which `rank` does something, or by which something is done to it.
    pub(super) fn partners(&self, rank: u32, of_origin: bool) -> Vec<u32> {
        let accesses = self.accesses.iter().map(|access| (access.origin, access.target));
        let pairs = accesses.chain(self.loads.iter().map(|load| (load.origin, load.target)));
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
