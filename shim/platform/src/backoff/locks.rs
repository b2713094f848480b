//! Waits for the locks of windows: no doorbell rings when their words change.

use strait_core::lock;
use strait_core::sync::spin_hint;

use super::{
    SpinLimits, WINDOW_LOCK_PAUSES_PER_PROGRESS, WINDOW_LOCK_UNIT, WINDOW_QUEUE_YIELDS_PER_CHECK,
};

/// One wait for the next member of a window lock's queue, which writes soon, unless it dies.
#[derive(Debug, Default)]
pub struct WindowQueueBackoff {
    /// Yields so far.
    yields: u32,
}

impl WindowQueueBackoff {
    /// Yields once. Returns whether to check that the member is alive.
    pub fn pause(&mut self) -> bool {
        self.yields = self.yields.wrapping_add(1);
        std::thread::yield_now();
        self.yields.is_multiple_of(WINDOW_QUEUE_YIELDS_PER_CHECK)
    }
}

/// One wait for a window's lock. Its pauses double, so that the members that wait leave the word to
/// its holder.
#[derive(Debug)]
pub struct WindowLockBackoff {
    pauses: lock::LockBackoff,
    /// Longest pause, in iterations of an empty loop.
    longest: u32,
    count: u32,
}

impl WindowLockBackoff {
    /// Starts a wait with pauses of 1 to `most` units, none of them longer than a wait spins under
    /// `limits`.
    #[must_use]
    pub const fn new(most: u32, limits: SpinLimits) -> Self {
        Self { pauses: lock::LockBackoff::new(most), longest: limits.polls(), count: 0 }
    }

    /// Pauses. Returns whether to make progress, and then it has yielded.
    pub fn pause(&mut self) -> bool {
        let looks = self.pauses.pause().saturating_mul(WINDOW_LOCK_UNIT);
        (0..looks.min(self.longest)).for_each(|_| spin_hint());
        self.count = self.count.wrapping_add(1);
        let is_due = self.count.is_multiple_of(WINDOW_LOCK_PAUSES_PER_PROGRESS);
        if is_due {
            std::thread::yield_now();
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pauses, counted from 1, after which `pause` asks for a check.
    fn checks(pauses: u32, mut pause: impl FnMut() -> bool) -> Vec<u32> {
        (1..=pauses).filter(|_| pause()).collect()
    }

    #[test]
    fn a_wait_checks_the_other_process_again_and_again() {
        let mut queue = WindowQueueBackoff::default();
        let period = WINDOW_QUEUE_YIELDS_PER_CHECK;
        assert_eq!(checks(2 * period, || queue.pause()), [period, 2 * period]);
    }

    #[test]
    fn a_wait_for_a_window_lock_makes_progress_again_and_again() {
        let mut backoff = WindowLockBackoff::new(64, SpinLimits::none());
        let period = WINDOW_LOCK_PAUSES_PER_PROGRESS;
        assert_eq!(checks(2 * period, || backoff.pause()), [period, 2 * period]);
    }
}
