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

/// Bytes of one block up to which an all-to-all between nodes passes blocks on through other
/// members (Bruck).
pub(super) const BRUCK_BLOCK: usize = 1 << 10;

/// Fewest members on several nodes for which an all-to-all passes blocks on.
pub(super) const BRUCK_MEMBERS: u32 = 4;

/// The same on one node. Up to 16 members that take turns on two processors are faster with all
/// messages under way at once.
pub(super) const BRUCK_NODE_BLOCK: usize = 256;

/// Fewest members on one node for which an all-to-all passes blocks on.
pub(super) const BRUCK_NODE_MEMBERS: u32 = 32;

/// Bytes of all blocks from which a root of a gather or a scatter has messages with all members
/// under way at once. The others then copy at the same time.
pub(super) const AT_ONCE: usize = 64 << 10;

/// Most members of a node that gather their blocks at all members by messages of each to all
/// others.
pub(super) const AT_ONCE_MEMBERS: u32 = 16;

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
