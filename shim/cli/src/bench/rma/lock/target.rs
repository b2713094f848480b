//! The activity of the target during the measurement: it computes outside the library
//! (`[HybridLock09]` §5.3), or in threads of its own (`[OneSided04]` §4.4.6).

use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use super::lab::{Lab, Point, lock_unlock, per};
use crate::measure::stage::TAG;
use crate::measure::stats::{SampleSummary, time};

/// Computation of the target, in nanoseconds.
const COMPUTATIONS: [f64; 4] = [0.0, 1e4, 1e5, 1e6];

/// Number of threads that compute at the target.
const THREADS: [usize; 4] = [0, 1, 2, 4];

/// Target time of the repetitions beside these threads: many time slices of theirs.
const SLICES: Duration = Duration::from_millis(20);

/// Nanoseconds after which a thread polls whether it must end.
const LOOK: f64 = 1e5;

pub(super) fn computation(lab: &Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>> {
    let mut points = Vec::new();
    for (place, target) in lab.targets() {
        for amount in COMPUTATIONS {
            let [took] = lab.sample(|| {
                let endpoint = lab.stage.endpoint;
                if lab.stage.rank() == target {
                    endpoint.send::<[u8]>(&[], 0, TAG)?;
                    lab.processor.compute(amount);
                }
                if lab.stage.rank() != 0 {
                    return Ok([0.0]);
                }
                // The target computes from now on.
                endpoint.recv::<[u8]>(&mut [], target, TAG)?;
                let start = Instant::now();
                lock_unlock(&lab.windows[0], target, 1)?;
                Ok([per(start.elapsed(), 1)])
            })?;
            points.push(Point::time(format!("{} {place}", time(amount)), took));
        }
    }
    Ok(points)
}

pub(super) fn threads(lab: &Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>> {
    let mut points = Vec::new();
    for (place, target) in lab.targets() {
        for count in THREADS {
            let at_target = if lab.stage.rank() == target { count } else { 0 };
            let took = beside(lab, at_target, || pair(lab, target))?;
            points.push(Point::time(format!("{count} {place}"), took));
        }
    }
    Ok(points)
}

/// Returns the result of `measure`, which runs while this many threads of the rank compute.
fn beside<R>(lab: &Lab<'_>, threads: usize, measure: impl FnOnce() -> R) -> R {
    let (ends, processor) = (AtomicBool::new(false), lab.processor);
    // Otherwise the first of these threads would keep its processor for ever, and the rank that has
    // the same processor would never end the measurement.
    let gives_way = !has_time_slices();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    processor.compute(LOOK);
                    if gives_way {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let result = measure();
        ends.store(true, Ordering::Relaxed);
        result
    })
}

/// Returns whether the kernel takes the processor from this thread after a time slice, and so from
/// the threads that it starts. Under the policy SCHED_FIFO it does not.
fn has_time_slices() -> bool {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    policy(&stat) != Some(FIFO)
}

/// Number of the policy SCHED_FIFO.
const FIFO: u32 = 1;

/// Returns the scheduling policy in the text of `/proc/thread-self/stat`: the field 41. The name of
/// the program, in parentheses, may contain blanks.
fn policy(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(38)?.parse().ok()
}

fn pair(lab: &Lab<'_>, target: u32) -> Result<SampleSummary, Box<dyn Error>> {
    let leads = lab.stage.rank() == 0;
    let window = &lab.windows[0];
    let run = |rounds| if leads { lock_unlock(window, target, rounds) } else { Ok(()) };
    let rounds = lab.rounds(SLICES, run)?;
    let [took] = lab.sample(|| {
        let start = Instant::now();
        run(rounds)?;
        Ok([per(start.elapsed(), rounds)])
    })?;
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_the_field_41() {
        let before = "1 ".repeat(37);
        assert_eq!(policy(&format!("7 (a) b) R {before}2 0")), Some(2));
        assert_eq!(policy("7 (a"), None);
        let own = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        assert!(policy(&own).is_some(), "{own}");
    }
}
