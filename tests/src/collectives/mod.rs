//! Random collective operations, and the oracle that judges their results.
//!
//! Every member computes all members' contributions from the seed of an operation, and so the
//! result that one process would have.

mod perform;
mod twins;

use strait::{Group, Op};

use crate::payload;

pub use twins::{Twins, VECTOR_OPERATIONS};

/// A collective operation of a group.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// What the members do.
    pub kind: Kind,
    /// Place of the root.
    pub root: u32,
    /// Largest number of elements in the vector, or in one block of it.
    pub length: usize,
    /// How vectors are combined.
    pub reduction: Combination,
    /// Seed of the contributions, of the lengths of blocks, and of which members contribute in
    /// place.
    pub seed: u64,
}

/// What the members do together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names are MPI's")]
pub enum Kind {
    Barrier,
    Broadcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    AlltoallvInPlace,
    Reduce,
    Allreduce,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
    Split,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Gather,
        Self::Gatherv,
        Self::Scatter,
        Self::Scatterv,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Alltoallv,
        Self::AlltoallvInPlace,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatterBlock,
        Self::ReduceScatter,
        Self::Scan,
        Self::Exscan,
        Self::Split,
    ];

    /// Returns the number of blocks in the vector of a member.
    const fn blocks(self, members: u32) -> usize {
        let is_whole = matches!(
            self,
            Self::Barrier
                | Self::Broadcast
                | Self::Reduce
                | Self::Allreduce
                | Self::Scan
                | Self::Exscan
                | Self::Split
        );
        if is_whole { 1 } else { members as usize }
    }
}

/// How two elements are combined.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of the operations")]
pub enum Combination {
    Sum,
    Max,
    Xor,
    /// The composition of two affine maps, which is not commutative.
    Compose,
}

impl Combination {
    const ALL: [Self; 4] = [Self::Sum, Self::Max, Self::Xor, Self::Compose];

    /// Returns the operation, unless it is a function of the program.
    const fn op(self) -> Option<Op> {
        match self {
            Self::Sum => Some(Op::Sum),
            Self::Max => Some(Op::Max),
            Self::Xor => Some(Op::BitXor),
            Self::Compose => None,
        }
    }

    /// Combines two elements.
    fn apply(self, left: u64, right: u64) -> u64 {
        match self {
            Self::Sum => left.wrapping_add(right),
            Self::Max => left.max(right),
            Self::Xor => left ^ right,
            Self::Compose => compose(left, right),
        }
    }
}

/// Composes two maps `x -> a x + b` modulo 2^32, each with `a` in the upper half.
fn compose(first: u64, second: u64) -> u64 {
    let parts = |map: u64| ((map >> 32) as u32, map as u32);
    let ((a, b), (c, d)) = (parts(first), parts(second));
    let (factor, term) = (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d));
    u64::from(factor) << 32 | u64::from(term)
}

impl Operation {
    /// Draws an operation for a group of `members`, in which no vector has more than about
    /// `longest` elements.
    pub fn draw(random: &mut fastrand::Rng, members: u32, longest: usize) -> Self {
        let kind = Kind::ALL[random.usize(..Kind::ALL.len())];
        let most = longest / kind.blocks(members);
        // As many short vectors as long ones.
        let magnitude = random.u32(..=usize::BITS - most.leading_zeros());
        let length = random.usize(..=(1 << magnitude) - 1).min(most);
        let reduction = Combination::ALL[random.usize(..4)];
        Self { kind, root: random.u32(..members), length, reduction, seed: random.u64(..) }
    }

    /// Returns the number of blocks in the vector of a member, each of at most the length.
    #[must_use]
    pub const fn blocks(&self, members: u32) -> usize {
        self.kind.blocks(members)
    }

    /// Performs the operation, and asserts that its result is right.
    ///
    /// # Errors
    ///
    /// Those of the operation.
    ///
    /// # Panics
    ///
    /// When the result is wrong.
    pub fn perform(&self, group: &Group<'_>) -> Result<(), strait::Error> {
        perform::Performance::new(self, group).run()
    }

    /// Returns the first `length` elements that a member contributes, to all or to one member.
    fn elements(&self, from: u32, to: u32, length: usize) -> Vec<u64> {
        let id = self.seed ^ u64::from(from) << 48 ^ u64::from(to) << 32;
        let bytes = payload::of(id, length * 8);
        let word = |bytes: &[u8]| u64::from_le_bytes(core::array::from_fn(|at| bytes[at]));
        bytes.chunks_exact(8).map(word).collect()
    }

    /// Returns the length of the block that goes from one member to another, where blocks have
    /// different lengths. It is the same in both directions.
    fn block(&self, one: u32, other: u32) -> usize {
        let (low, high) = (one.min(other), one.max(other));
        let pair = u64::from(low) << 32 | u64::from(high);
        let drawn = fastrand::Rng::with_seed(self.seed ^ pair).usize(..=self.length);
        if pair.is_multiple_of(5) { 0 } else { drawn }
    }

    /// Returns whether a member contributes in place.
    fn is_in_place(&self, place: u32) -> bool {
        self.seed >> (place % 64) & 1 == 1
    }
}
