//! Random traffic with a known outcome: every rank derives the same program from a seed, plays its
//! own part and checks its results against the oracle.

mod judge;
mod phase;
mod play;

use core::ops::Range;

use strait::World;

use crate::report;
use phase::{Phase, Shape};

/// Returns the factor by which more seeds than usual are played: the value of `STRAIT_TEST_SEEDS`,
/// for a long run.
///
/// # Panics
///
/// When the variable is not a number.
#[must_use]
pub fn times() -> u32 {
    std::env::var("STRAIT_TEST_SEEDS").map_or(1, |times| times.parse().expect("a number"))
}

/// Returns `count` seeds from `first` on, multiplied by [`times`]. A sanitizer, which makes
/// programs slow, gets half of them.
#[must_use]
pub fn seeds(first: u64, count: u64) -> Range<u64> {
    let count = if cfg!(strait_sanitized) { count.div_ceil(2) } else { count };
    first..first + count * u64::from(times())
}

/// Returns `count` seeds for a simulation, multiplied by [`times`]. A sanitizer, which slows
/// simulations down most, gets a quarter of them.
#[must_use]
pub fn simulated_seeds(count: u64) -> Range<u64> {
    seeds(0, if cfg!(strait_sanitized) { count.div_ceil(2) } else { count })
}

/// Plays `phases` phases of the traffic of `seed`, in messages of up to `longest` bytes. Phases
/// overlap: a rank continues with the next when its own part is done.
///
/// # Panics
///
/// When a receive got a wrong message; the panic names seed, phase and rank.
pub fn run(world: &World, seed: u64, phases: u32, longest: usize) {
    let (rank, ranks) = (world.rank(), world.size());
    for number in 0..phases {
        let what = format!("seed {seed}, phase {number}, rank {rank}");
        report(&what);
        let phase = Phase::generate(Shape { seed, number, ranks, longest });
        play::play(world, number, &phase, &what);
    }
}
