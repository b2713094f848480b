//! Computing as a program does it between two calls: the rank is not in the library meanwhile.
//!
//! An amount is so many steps of arithmetic in registers, not so much time by the clock: where another thread takes the
//! processor, the work is done later, as a program's would be. A spin by the clock would hide that.

use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Steps of the measurement of their pace.
const TRIAL: u64 = 100_000;

/// Trials of it; the fastest counts.
const TRIALS: u32 = 20;

/// A processor that computes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    /// Steps in a nanosecond, undisturbed.
    pace: f64,
}

/// What a computation took, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// Of the processor's time.
    pub(super) own: f64,
    /// By the clock: with what others had of the processor meanwhile.
    pub(super) wall: f64,
}

impl Processor {
    /// Measures how fast this rank's processor is.
    pub(super) fn new() -> Self {
        let mut processor = Self { pace: 1.0 };
        let trials = (0..TRIALS).map(|_| processor.compute(TRIAL as f64).own);
        let fastest = trials.fold(f64::INFINITY, f64::min);
        processor.pace = TRIAL as f64 / fastest;
        processor
    }

    /// Computes what takes `amount` nanoseconds undisturbed.
    pub(super) fn compute(&self, amount: f64) -> Spent {
        let (start, own) = (Instant::now(), own_time());
        steps((amount * self.pace) as u64);
        let own = own_time() - own;
        Spent { own, wall: start.elapsed().as_nanos() as f64 }
    }
}

impl Spent {
    /// What others had of the processor, in percent of the time by the clock.
    pub(super) fn stolen(self) -> f64 {
        if self.wall > 0.0 { 100.0 * (1.0 - self.own / self.wall).max(0.0) } else { 0.0 }
    }
}

/// Each step needs the one before, so that they take turns in the processor, too.
fn steps(steps: u64) {
    let mut word = core::hint::black_box(1_u64);
    for _ in 0..steps {
        word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    core::hint::black_box(word);
}

/// Time that this thread has had a processor, nanoseconds.
fn own_time() -> f64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime)) as f64
}

/// Time that goes on for all processes of the host alike, nanoseconds.
pub(super) fn common_time() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Of a time that is not negative.
const fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
