//! Benches of the machine alone.

mod cacheline;

use super::benchmark::{Group, entry};
use cacheline::CachelineBench;

/// The benches of this folder.
pub(super) const GROUP: Group = Group {
    name: "hardware",
    about: "the machine without Strait",
    benches: &[entry::<CachelineBench>("cacheline")],
};
