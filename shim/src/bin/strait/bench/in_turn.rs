//! How several ways to do one thing are measured in one run: all ranks go each way in turn, again and again, so that whatever
//! else the machine does meets all of them. Rank 0 says when it is enough.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use super::sampling::Effort;
use super::stage::Stage;

/// Samples of each way that are taken before those that count, but fewer than count.
const WARM_UP: usize = 3;

/// Measures `ways` ways, at least once each: `once` goes one of them on every rank, with a number that no other call has, and
/// gives this rank's figures. Every rank has as many samples.
///
/// # Errors
///
/// Those of `once`, or a call of rank 0's that failed.
pub(super) fn measure<F>(
    stage: &Stage<'_>,
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
            // Each way is the first in its turn, so that none always comes behind the same other.
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

/// The number of rounds that take `target` or more on rank 0, a power of two; for every rank.
pub(super) fn rounds(
    stage: &Stage<'_>,
    target: Duration,
    mut run: impl FnMut(u64) -> Result<(), strait::Error>,
) -> Result<u64, strait::Error> {
    let mut rounds = 1;
    loop {
        stage.endpoint.barrier()?;
        let start = Instant::now();
        run(rounds)?;
        // Doubling ends: every round takes some time.
        if !agree(stage, start.elapsed() < target)? {
            return Ok(rounds);
        }
        rounds *= 2;
    }
}

/// What rank 0 thinks.
fn agree(stage: &Stage<'_>, opinion: bool) -> Result<bool, strait::Error> {
    let mut opinion = [u8::from(opinion)];
    stage.endpoint.broadcast(&mut opinion, 0)?;
    Ok(opinion == [1])
}
