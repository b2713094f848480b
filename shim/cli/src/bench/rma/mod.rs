//! Benches of windows: one-sided operations and their synchronisation.

mod both_ways;
mod crowd;
mod epoch;
mod lock;
mod one_sided;
mod sync;
pub(super) mod window;

use super::benchmark::{BenchGroup, entry};
use lock::LockBench;
use one_sided::{AccumulateBench, GetBench, PutBench};
use sync::SyncBench;

/// The benches of this folder.
pub(super) const GROUP: BenchGroup = BenchGroup {
    name: "rma",
    about: "one-sided operations and locks of windows",
    benches: &[
        entry::<PutBench>("put"),
        entry::<GetBench>("get"),
        entry::<AccumulateBench>("accumulate"),
        entry::<SyncBench>("sync"),
        entry::<LockBench>("lock"),
    ],
};
