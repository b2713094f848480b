//! The layout of the shared segment. There is one segment per job and node, with the same layout in
//! every process that maps it.
//!
//! The segment contains only fixed-width integers, atomics, offsets and indices. It contains no
//! pointer, reference, `bool`, `enum` or `usize`. Every value that another process wrote is parsed
//! before use ([`CellIndex::parse`], [`SegmentHeader::check`]). A bad value is an error, never
//! undefined behaviour.
//!
//! `docs/layout.md` draws the map and gives its size as a function of ranks and active pairs.

mod config;
mod counters;
mod events;
mod faults;
mod header;
mod names;
mod page;
mod plan;
mod plan_error;
mod rank_block;
mod rank_record;
mod ring_part;
mod segment;
mod seqlock;
#[cfg(all(test, not(strait_loom)))]
mod tests;
mod wait_details;
mod waiting;

pub use crate::wire::{CellIndex, Corrupt};
pub use config::{FULL_PAIRS, FULL_RINGS, LONG_FASTBOXES, RANKS_MAX, SMALL_PAIRS, SegmentConfig};
pub use counters::{Count, PairCounters};
pub use events::{EVENTS, EpochKind, Event, EventKind, EventRing};
pub use faults::{FaultRecord, Truncation};
pub use header::{AttachError, LAYOUT_VERSION, MAGIC, SegmentHeader};
pub use names::{COMMUNICATORS, Communicator, CommunicatorRecord, ShortName};
pub use page::PAGE;
pub use plan::{BARRIER_SLOTS, DESCRIPTORS_PER_RANK, HUGE_PAGE, SegmentPlan};
pub use plan_error::PlanError;
pub use rank_block::{Life, Liveness, RankBlock};
pub use rank_record::RankRecord;
pub use ring_part::RingPart;
pub use segment::Segment;
pub use wait_details::{DetailRecord, RankSet, RequestWait, UnexpectedHead, UnexpectedSummary};
pub use waiting::{Call, NamedWait, SendState, Unreadable, Wait, WaitRecord, Waited};
