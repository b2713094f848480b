//! Synchronisation overhead (`[OneSided04]` §4.4.2) and lock/unlock on a node (`[HybridLock09]`
//! §5.2), without contention.

use core::error::Error;
use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use strait_core::lock::{LockWord, WordAccess};

use super::lab::{BATCH, Lab, Point, TARGET, acquire, lock_unlock, per};

pub(super) fn points(lab: &Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>> {
    let (leads, mut points) = (lab.stage.rank() == 0, Vec::new());
    for (place, target) in lab.targets() {
        let window = &lab.windows[0];
        let run = |rounds| if leads { lock_unlock(window, target, rounds) } else { Ok(()) };
        let rounds = lab.rounds(TARGET, run)?;
        let [both, bare, ratio, acquires, releases] = lab.sample(|| {
            if !leads {
                return Ok([0.0; 5]);
            }
            let start = Instant::now();
            two_atomics(rounds);
            let middle = Instant::now();
            run(rounds)?;
            let (bare, both) = (per(middle - start, rounds), per(middle.elapsed(), rounds));
            let [acquires, releases] = apart(lab, target, rounds)?;
            Ok([both, bare, both / bare, acquires, releases])
        })?;
        points.extend([
            Point::time(format!("lock and unlock {place}"), both),
            Point::time(format!("acquire {place}"), acquires),
            Point::time(format!("release {place}"), releases),
        ]);
        if place == "on the node" {
            let case = "lock and unlock on the node";
            points.extend([
                Point { case: case.into(), metric: "atomics", unit: "ns", figures: bare },
                Point { case: case.into(), metric: "ratio", unit: "x", figures: ratio },
            ]);
        }
    }
    Ok(points)
}

/// Performs a bare compare-and-swap and a bare addition.
fn two_atomics(rounds: u64) {
    let word = LockWord::new(0);
    for _ in 0..rounds {
        black_box(&word).access(WordAccess::CompareAndSwap { expected: 0, desired: 1 });
        black_box(&word).access(WordAccess::FetchAdd(1_u64.wrapping_neg()));
    }
}

/// Measures acquisition and release separately.
fn apart(lab: &Lab<'_>, target: u32, rounds: u64) -> Result<[f64; 2], strait::Error> {
    let windows = &lab.windows[..BATCH];
    let batches = rounds.div_ceil(BATCH as u64);
    let mut took = [Duration::ZERO; 2];
    for _ in 0..batches {
        let start = Instant::now();
        windows.iter().try_for_each(|window| acquire(window, target))?;
        let middle = Instant::now();
        windows.iter().try_for_each(|window| window.unlock(target))?;
        took[0] += middle - start;
        took[1] += middle.elapsed();
    }
    Ok(took.map(|took| per(took, batches * BATCH as u64)))
}
