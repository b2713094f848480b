//! The lengths at which one algorithm becomes faster than another, measured by
//! `strait bench collective`. `docs/collectives.md` has the figures.

/// Bytes from which a broadcast to at least [`BROADCAST_MEMBERS`] scatters the data, and the
/// members gather the pieces from each other.
pub(super) const BROADCAST_PIECES: usize = 512 << 10;

/// Fewest members for which a broadcast in pieces is worth its additional messages.
pub(super) const BROADCAST_MEMBERS: u32 = 8;

/// Bytes from which each member of an allreduce or a reduce combines only a part of the vector
/// (Rabenseifner).
pub(super) const REDUCE_PIECES: usize = 16 << 10;

/// Fewest members for which a reduce in pieces is worth its additional messages.
pub(super) const REDUCE_MEMBERS: u32 = 4;

/// Bytes of one block up to which blocks are gathered and scattered along a tree.
pub(super) const TREE_BLOCK: usize = 2 << 10;

/// Fewest members for which a tree has fewer messages in a row than the root has members.
pub(super) const TREE_MEMBERS: u32 = 4;

/// Bytes of all blocks up to which an allgather doubles what each member has (Bruck).
pub(super) const BRUCK_ALLGATHER: usize = 32 << 10;

/// Bytes of one block up to which an all-to-all passes blocks on through other members (Bruck).
pub(super) const BRUCK_BLOCK: usize = 256;

/// Fewest members for which an all-to-all passes blocks on.
pub(super) const BRUCK_MEMBERS: u32 = 8;

/// Bytes of the vector from which each member of a reduce-scatter combines only its own block.
pub(super) const REDUCE_SCATTER_PAIRWISE: usize = 2 << 10;
