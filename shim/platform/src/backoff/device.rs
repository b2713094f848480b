//! The backoff of a software device's thread, which waits for the next request or for the time at
//! which a known one is due.

use core::time::Duration;
use std::time::Instant;

use strait_core::sync::spin_hint;

use super::values::{DEVICE_AWAKE, DEVICE_POLL_PERIOD};

/// The idle time of a device's thread. It stays awake for a short wait, since a sleep takes longer.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBackoff {
    /// Whether there are fewer processors than threads of ranks and devices.
    crowded: bool,
    idle_since: Instant,
}

/// The next step of a device's thread that has nothing to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DevicePause {
    /// Keep the processor for this time.
    Spin(Duration),
    /// Yield once.
    Yield,
    /// Sleep until a request is posted, but no longer than this.
    Sleep(Duration),
}

impl DeviceBackoff {
    /// Starts the wait of a thread beside `ranks` ranks on `cpus` processors.
    #[must_use]
    pub const fn new(ranks: u32, cpus: usize, now: Instant) -> Self {
        Self { crowded: cpus < 2 * ranks as usize, idle_since: now }
    }

    /// Starts over, because a request was carried out.
    pub const fn reset(&mut self, now: Instant) {
        self.idle_since = now;
    }

    /// Returns how to wait for the request that is due at `due`, or for any request.
    #[must_use]
    pub fn next(&self, due: Option<Instant>, now: Instant) -> DevicePause {
        let awake = if self.crowded { DEVICE_AWAKE / 2 } else { DEVICE_AWAKE };
        let pause = due.map(|due| due.saturating_duration_since(now));
        let is_short = match pause {
            Some(pause) => pause < awake,
            None => !self.crowded && now.saturating_duration_since(self.idle_since) < DEVICE_AWAKE,
        };
        match is_short {
            // The next thread on this processor may keep it for milliseconds.
            true if self.crowded => {
                DevicePause::Spin(pause.unwrap_or_default().min(DEVICE_POLL_PERIOD))
            }
            true => DevicePause::Yield,
            false => DevicePause::Sleep(
                pause.map_or(Duration::MAX, |pause| pause.saturating_sub(DEVICE_AWAKE / 2)),
            ),
        }
    }
}

impl DevicePause {
    /// Spins or yields. It is for pauses without a sleep: the thread sleeps on its own condition
    /// variable.
    pub fn stay_awake(self) {
        match self {
            Self::Spin(time) => {
                let begin = Instant::now();
                while begin.elapsed() < time {
                    spin_hint();
                }
            }
            Self::Yield => std::thread::yield_now(),
            Self::Sleep(_) => {}
        }
    }
}

/// Yields until `due`, which is near. Returns the time when it has passed.
pub fn yield_until(due: Instant) -> Instant {
    loop {
        let now = Instant::now();
        if now >= due {
            return now;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_awake_for_what_is_due_soon() {
        let now = Instant::now();
        for (cpus, soon) in [(4, DevicePause::Yield), (3, DevicePause::Spin(DEVICE_POLL_PERIOD))] {
            let backoff = DeviceBackoff::new(2, cpus, now);
            assert_eq!(backoff.next(Some(now + DEVICE_AWAKE / 3), now), soon);
            let late = DevicePause::Sleep(DEVICE_AWAKE * 3 / 2);
            assert_eq!(backoff.next(Some(now + DEVICE_AWAKE * 2), now), late);
        }
    }

    #[test]
    fn a_thread_without_requests_sleeps_sooner_where_ranks_need_its_processor() {
        let now = Instant::now();
        let crowded = DeviceBackoff::new(2, 3, now);
        assert_eq!(crowded.next(None, now), DevicePause::Sleep(Duration::MAX));
        let mut alone = DeviceBackoff::new(2, 4, now);
        assert_eq!(alone.next(None, now), DevicePause::Yield);
        let later = now + DEVICE_AWAKE;
        assert_eq!(alone.next(None, later), DevicePause::Sleep(Duration::MAX));
        alone.reset(later);
        assert_eq!(alone.next(None, later), DevicePause::Yield);
    }

    #[test]
    fn what_is_due_has_come_when_the_wait_ends() {
        let due = Instant::now() + Duration::from_micros(300);
        assert!(yield_until(due) >= due);
    }
}
