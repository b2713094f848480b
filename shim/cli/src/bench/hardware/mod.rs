//! Benches of the machine alone.

mod cacheline;

use super::benchmark::{BenchGroup, entry};
use cacheline::CachelineBench;

/// The benches of this folder.
pub(super) const GROUP: BenchGroup = BenchGroup {
    name: "hardware",
    about: "the machine without Strait",
    benches: &[entry::<CachelineBench>("cacheline")],
};
