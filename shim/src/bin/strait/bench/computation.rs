//! Computing as a program does it between two calls: the rank is not in the library meanwhile.
//!
//! An amount is so many steps of arithmetic in registers, not so much time by the clock: where another thread takes the
//! processor, the work is done later, as a program's would be. A spin by the clock would hide that.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Steps of the measurement of their pace.
const TRIAL: f64 = 1e5;

/// Trials of it; the fastest counts.
const TRIALS: u32 = 20;

/// A processor that computes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    /// Steps in a nanosecond, undisturbed.
    pace: f64,
}

/// A computation that was done, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// What it takes undisturbed.
    pub(super) amount: f64,
    /// What it took.
    pub(super) time: f64,
}

impl Processor {
    /// Measures how fast this rank's processor is.
    pub(super) fn new() -> Self {
        let trials = (0..TRIALS).map(|_| Self { pace: 1.0 }.compute(TRIAL).time);
        Self { pace: TRIAL / trials.fold(f64::INFINITY, f64::min) }
    }

    /// Computes what takes `amount` nanoseconds undisturbed.
    pub(super) fn compute(&self, amount: f64) -> Spent {
        let start = Instant::now();
        steps((amount * self.pace) as u64);
        Spent { amount, time: start.elapsed().as_nanos() as f64 }
    }
}

impl Spent {
    /// What others had of the processor, in percent of the time.
    pub(super) fn stolen(self) -> f64 {
        if self.time > 0.0 { 100.0 * (1.0 - self.amount / self.time).max(0.0) } else { 0.0 }
    }
}

/// Each step needs the one before, so that they are done one after the other.
fn steps(steps: u64) {
    let mut word = core::hint::black_box(1_u64);
    for _ in 0..steps {
        word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    core::hint::black_box(word);
}

/// Time that goes on for all processes of the host alike, nanoseconds.
pub(super) fn common_time() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It begins with the machine, so it is not negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
