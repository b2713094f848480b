//! A wait with a time limit in which each poll is a system call.

use core::time::Duration;
use std::time::Instant;

/// A wait that sleeps for the same time after each poll.
#[derive(Clone, Copy, Debug)]
pub struct PeriodicWait {
    period: Duration,
    deadline: Instant,
}

impl PeriodicWait {
    /// Starts a wait that is over after `limit`.
    #[must_use]
    pub fn new(period: Duration, limit: Duration) -> Self {
        Self { period, deadline: Instant::now() + limit }
    }

    /// Sleeps after a poll that found nothing. Returns false, without a sleep, when the time is
    /// over.
    #[must_use]
    pub fn pause(&self) -> bool {
        let goes_on = Instant::now() < self.deadline;
        if goes_on {
            std::thread::sleep(self.period);
        }
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_its_time_is_over() {
        let [period, limit] = [1, 20].map(Duration::from_millis);
        let (wait, begin) = (PeriodicWait::new(period, limit), Instant::now());
        let mut pauses = 0;
        while wait.pause() {
            pauses += 1;
        }
        assert!(begin.elapsed() >= limit && (1..=20).contains(&pauses), "{pauses}");
        assert!(!PeriodicWait::new(period, Duration::ZERO).pause());
    }
}
