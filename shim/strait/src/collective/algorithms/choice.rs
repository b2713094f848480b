//! The lengths and numbers of members at which one algorithm becomes faster than another, measured
//! by `strait bench collective` ([figures](../../../../../docs/collectives.md)).

use core::ops::RangeInclusive;

/// Bytes from which each member of an allreduce or a reduce combines only a part of the vector
/// (Rabenseifner).
pub(super) const REDUCE_PIECES: usize = 64 << 10;

/// Fewest members for which a reduce in pieces is worth its additional messages.
pub(super) const REDUCE_MEMBERS: u32 = 4;

/// Bytes of one block up to which a leader gathers and scatters the blocks of its node.
pub(super) const NODE_BLOCK: usize = 2 << 10;

/// Bytes of one block up to which blocks on one node are gathered and scattered along a tree.
pub(super) const TREE_BLOCK: usize = 256;

/// Fewest members for which a tree serves. The root handles a message in about 40 ns, and a message
/// takes about 160 ns to the next member, so 64 members are where 6 steps in a row become shorter
/// than all messages at the root. It needs a processor for each member: where they take turns on
/// processors, the tree has lost with 4 to 32 members.
pub(super) const TREE_MEMBERS: u32 = 64;

/// Bytes of all blocks up to which an allgather doubles what each member has (Bruck).
pub(super) const BRUCK_ALLGATHER: usize = 128 << 10;

/// Bytes of one block up to which an all-to-all passes blocks on through other members (Bruck).
pub(super) const BRUCK_BLOCK: usize = 1 << 10;

/// Fewest members for which an all-to-all passes blocks on.
pub(super) const BRUCK_MEMBERS: u32 = 4;

/// Bytes of the vector from which each of three or more members of a reduce-scatter combines only
/// its own block. Two members always do.
pub(super) const REDUCE_SCATTER_PAIRWISE: usize = 32 << 10;

/// Bytes of a vector that members of one node broadcast through collective buffers.
pub(in crate::collective) const SHARED_BROADCAST: RangeInclusive<usize> = 64..=64 << 10;

/// Bytes of a vector that members of one node reduce to a root through collective buffers.
pub(in crate::collective) const SHARED_REDUCE: RangeInclusive<usize> = 0..=16 << 10;

/// Bytes of a vector that members of one node reduce for all through collective buffers.
pub(in crate::collective) const SHARED_ALLREDUCE: RangeInclusive<usize> = 0..=1 << 10;

/// Bytes of a block that members of one node gather at a root through collective buffers.
pub(in crate::collective) const SHARED_GATHER: RangeInclusive<usize> = 0..=4 << 10;

/// Bytes of a block that members of one node gather at all through collective buffers.
pub(in crate::collective) const SHARED_ALLGATHER: RangeInclusive<usize> = 0..=16 << 10;

/// Fewest members that use collective buffers. Between two, the buffers have been faster than
/// messages at some lengths and slower at others.
pub(in crate::collective) const SHARED_MEMBERS: u32 = 3;
