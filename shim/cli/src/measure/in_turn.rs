//! The measurement of several variants in one run. All ranks run each variant in turn, repeatedly,
//! so that other load on the machine affects all variants. Rank 0 decides when to stop.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use super::sampling::Effort;
use super::stage::BenchStage;

/// Maximum number of samples of each variant before those that count. It is less than their number.
const WARM_UP: usize = 3;

/// Measures `ways` variants, at least once each. `once` runs one of them on every rank, with a
/// number that no other call has, and returns this rank's figures. Every rank has as many samples.
///
/// # Errors
///
/// Those of `once`, or a failed call of rank 0.
pub(crate) fn measure<F>(
    stage: &BenchStage<'_>,
    effort: Effort,
    ways: usize,
    mut once: impl FnMut(usize, u64) -> Result<F, Box<dyn Error>>,
) -> Result<Vec<Vec<F>>, Box<dyn Error>> {
    let deadline = Instant::now() + effort.limit;
    let warm_up = WARM_UP.min(effort.samples.saturating_sub(1));
    let mut samples: Vec<_> = (0..ways).map(|_| Vec::with_capacity(effort.samples)).collect();
    let mut calls = 0;
    for number in 0.. {
        let enough = number >= effort.samples + warm_up;
        let late = number > warm_up && Instant::now() >= deadline;
        if !agree(stage, !enough && !late)? {
            break;
        }
        for step in 0..ways {
            // Each variant is the first in some turn, so that none always follows the same other
            // variant.
            let way = (number + step) % ways;
            calls += 1;
            let figures = once(way, calls)?;
            if number >= warm_up {
                samples[way].push(figures);
            }
        }
    }
    Ok(samples)
}

/// Returns the number of rounds that take `target` or more on rank 0, a power of two, on every
/// rank.
pub(crate) fn rounds(
    stage: &BenchStage<'_>,
    target: Duration,
    mut run: impl FnMut(u64) -> Result<(), strait::Error>,
) -> Result<u64, strait::Error> {
    let mut rounds = 1;
    loop {
        stage.endpoint.barrier()?;
        let start = Instant::now();
        run(rounds)?;
        // The doubling terminates: every round takes some time.
        if !agree(stage, start.elapsed() < target)? {
            return Ok(rounds);
        }
        rounds *= 2;
    }
}

/// Returns rank 0's opinion on every rank.
fn agree(stage: &BenchStage<'_>, opinion: bool) -> Result<bool, strait::Error> {
    let mut opinion = [u8::from(opinion)];
    stage.endpoint.broadcast(&mut opinion, 0)?;
    Ok(opinion == [1])
}
