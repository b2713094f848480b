//! The shape of the shared segment: one per job and node, the same in every process that maps it.
//!
//! Nothing in the segment is a pointer, a reference, a `bool`, an `enum` or a `usize`: only fixed-width integers,
//! atomics, offsets and indices. What another process wrote is parsed before use ([`CellIndex::parse`],
//! [`Header::check`]); a bad value is an error, never undefined behaviour.
//!
//! `docs/layout.md` draws the map and gives its size as a function of ranks and active pairs.

pub(crate) mod golden;
mod header;
mod index;
mod plan;
mod rank_block;
mod segment;
mod waiting;

pub use header::{AttachError, Header, LAYOUT_VERSION, MAGIC};
pub use index::{CellIndex, Corrupt};
pub use plan::{BARRIER_SLOTS, Config, DESCRIPTORS_PER_RANK, HUGE_PAGE, Plan, PlanError};
pub use rank_block::{Life, Liveness, RankBlock};
pub use segment::Segment;
pub use waiting::{Call, Unreadable, Wait, WaitRecord, Waited};

/// Granularity in which segment memory is backed on demand, bytes.
pub const PAGE: usize = 4096;
