//! Random traffic whose outcome is known: every rank derives the same program from a seed, plays its own part and
//! checks what it got against the oracle.

mod judge;
mod phase;
mod play;

use core::ops::Range;

use strait::World;

use crate::report;
use phase::{Phase, Shape};

/// How many times more seeds than usual are played: what `STRAIT_TEST_SEEDS` says, for a long hunt.
///
/// # Panics
///
/// When it says no number.
#[must_use]
pub fn times() -> u32 {
    std::env::var("STRAIT_TEST_SEEDS").map_or(1, |times| times.parse().expect("a number"))
}

/// `count` seeds from `first` on, or [`times`] as many.
#[must_use]
pub fn seeds(first: u64, count: u64) -> Range<u64> {
    first..first + count * u64::from(times())
}

/// Plays `phases` phases of the traffic that `seed` stands for, in messages of up to `longest` bytes. Phases run into
/// each other: a rank goes on to the next when its own part is done.
///
/// # Panics
///
/// When something was received that should not have been; the panic names seed, phase and rank.
pub fn run(world: &World, seed: u64, phases: u32, longest: usize) {
    let (rank, ranks) = (world.rank(), world.size());
    for number in 0..phases {
        let what = format!("seed {seed}, phase {number}, rank {rank}");
        report(&what);
        let phase = Phase::generate(Shape { seed, number, ranks, longest });
        play::play(world, number, &phase, &what);
    }
}
