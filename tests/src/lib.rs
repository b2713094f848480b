//! Code that the scenarios share: jobs of real processes and of threads, a traffic generator, and
//! the oracle with which its results are compared.

mod arena;
pub mod chaos;
pub mod cluster;
pub mod collectives;
pub mod conformance;
mod engines;
pub mod fuzz;
mod job;
pub mod locks;
mod model;
pub mod one_sided;
pub mod payload;
mod segment;
mod threads;
pub mod traffic;

pub use arena::{Arena, Ledger, NONCE};
pub use engines::Engines;
#[cfg(debug_assertions)]
pub use job::die_at;
pub use job::{Ended, Ranks, assert_no_segment_has_a_name, die, one_dies, report};
pub use model::{Model, explain};
pub use segment::segment;
pub use threads::{by_each_transfer, in_one_thread, threads, threads_on};

/// Shapes of segments in which every resource runs out soon.
pub mod shape {
    use strait::boot::SegmentConfig;

    /// Returns a shape with two cells of the smallest size, a fastbox and a baton of `lines` lines,
    /// two parcels, and copy rings of 4 pages.
    #[must_use]
    pub const fn tiny(ranks: u32, lines: u32) -> SegmentConfig {
        SegmentConfig {
            cells_per_rank: 2,
            cell_payload: 1024,
            fastbox_lines: lines,
            baton_lines: lines,
            ring_granules: 4,
            parcels: 2,
            ..SegmentConfig::new(ranks)
        }
    }
}
