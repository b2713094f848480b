//! Computation as a program does it between two calls, while the rank is outside the library.
//!
//! An amount is a number of arithmetic steps in registers, not a time by the clock. Where another
//! thread takes the processor, the work ends later, as it would in a program. A spin by the clock
//! would hide that.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Number of steps in one measurement of their pace.
const TRIAL: f64 = 1e5;

/// Number of such measurements. The fastest counts.
const TRIALS: u32 = 20;

/// A processor that computes, with its pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processor {
    /// Steps per nanosecond without disturbance.
    pace: f64,
}

/// A completed computation, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Its time without disturbance.
    pub(crate) amount: f64,
    /// Its actual time.
    pub(crate) time: f64,
}

impl Processor {
    /// Measures the speed of this rank's processor.
    pub(crate) fn new() -> Self {
        let trials = (0..TRIALS).map(|_| Self { pace: 1.0 }.compute(TRIAL).time);
        Self { pace: TRIAL / trials.fold(f64::INFINITY, f64::min) }
    }

    /// Computes for `amount` nanoseconds of undisturbed time.
    pub(crate) fn compute(&self, amount: f64) -> Spent {
        let start = Instant::now();
        steps((amount * self.pace) as u64);
        Spent { amount, time: start.elapsed().as_nanos() as f64 }
    }
}

impl Spent {
    /// Returns the share of the time in which other threads had the processor, in percent.
    pub(crate) fn stolen(self) -> f64 {
        if self.time > 0.0 { 100.0 * (1.0 - self.amount / self.time).max(0.0) } else { 0.0 }
    }
}

/// Performs steps in sequence: each depends on the previous one.
fn steps(steps: u64) {
    let mut word = core::hint::black_box(1_u64);
    for _ in 0..steps {
        word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    core::hint::black_box(word);
}

/// Returns a time that is common to all processes of the host, in nanoseconds.
pub(crate) fn common_time() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock starts when the machine does, so it is not negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
