//! Windows over the simulated fabric, with hundreds of seeds against the window model.

use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};

use strait_tests::one_sided::simulated;
use strait_tests::traffic;

/// Runs many seeds, or the single seed in `STRAIT_TEST_SEED`.
#[test]
fn programs_leave_what_they_may() {
    let one = std::env::var("STRAIT_TEST_SEED").ok().map(|seed| seed.parse().expect("a number"));
    for seed in one.map_or_else(|| traffic::simulated_seeds(300), |seed| seed..seed + 1) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| simulated::play(seed))) {
            eprintln!("it fails; play it again with STRAIT_TEST_SEED={seed}");
            resume_unwind(panic);
        }
    }
}
