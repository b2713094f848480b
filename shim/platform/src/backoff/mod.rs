//! The backoff of every wait in Strait.
//!
//! A [`Backoff`] is one wait: it spins, then yields, then sleeps. A [`PeriodicWait`] sleeps between
//! polls that are system calls. A [`DeviceBackoff`] is the idle time of a device's thread.
//! [`LineBackoff`] is the short wait of a sender for a receiver that takes packets.
//! [`WindowLockBackoff`] and [`WindowQueueBackoff`] are waits for the locks of windows, which never
//! sleep. All take their numbers from the table below.
//!
//! These numbers never affect correctness: they decide only when to poll again. Time limits, after
//! which a step of the start fails, are beside that step.
//!
//! # Values
//!
//! | value | is | because |
//! |---|---|---|
//! | [`POLLS_UNCROWDED`] | 20,000 | with a processor for each rank, a yield gains nothing |
//! | [`YIELDS_UNCROWDED`] | 20,000 | 6 to 10 ms: a peer may compute for some ms; see below |
//! | [`YIELDS_OF_SLICES`] | 16 | other programs run before a rank pays for a sleep |
//! | [`POLLS_CROWDED`] | 2 | the awaited rank may need this processor; see below |
//! | [`YIELDS_CROWDED`] | 10 | all other ranks have run by then |
//! | [`YIELDS_IN_LINES`] | 4 | a look at lines after each is shorter than a round of progress |
//! | [`POLLS_BESIDE_DEVICES`] | 100 | tens of µs: a device's thread may need the processor |
//! | [`POLLS_SHORT`] | 200 | longer than a cache line takes between distant processors |
//! | [`POLLS_PER_PROGRESS`] | 64 | the shorter the loop, the sooner an arrival is seen |
//! | [`POLLS_PER_QUEUE`] | 4 | the queue's line stays in this rank's cache until something comes |
//! | [`POLLS_PER_LINE`] | 80 | 2 µs: a receiver that is awake has taken some packets by then |
//! | [`BARRIERS_PER_PROGRESS`] | 64 | messages move on while barriers never wait |
//! | [`POLLS_PER_LISTEN`] | 64 | a check of the socket is a system call |
//! | [`POLLS_PER_MANAGER`] | 64 | a poll of the connection manager is a system call |
//! | [`POLLS_PER_GREETING`] | 1024 | the peer's queue has room for 15 greetings |
//! | [`POLLS_PER_CLOCK`] | 1024 | reading the clock costs as much as several polls |
//! | [`CALLS_PER_CLOCK`] | 32 | the program may compute between two calls |
//! | [`CALLS_PER_PROGRESS`] | 32 | a call that finds nothing looks at fastboxes alone |
//! | [`PROGRESS_PER_CLOCK`] | 4 | the program may yield in each of the calls between |
//! | [`CALLS_PER_YIELD`] | 1024 | a yield costs as much as tens of such calls |
//! | [`CALLS_CROWDED_PER_SLEEP`] | 64 | the scheduler soon returns from a yield |
//! | [`LIVENESS_PERIOD`] | 50 ms | a death is reported soon, and the check has no measurable cost |
//! | [`SLEEP_MIN`] | 50 µs | not much longer than a sleep and a wake-up take |
//! | [`SLEEP_DOUBLINGS`] | 5 | 1.6 ms: the longest wait of an arrival without a ring |
//! | [`SLEEP_MAX`] | 50 ms | a sleeping rank checks liveness as often as a polling rank |
//! | [`SLEEP_MAX_UNSURE`] | 1 ms | delay of a missed ring on kernels without `membarrier` |
//! | [`SLEEP_BETWEEN_CALLS`] | 1 ms | largest delay of a ring at the end of a call |
//! | [`LOCK_POLLS`] | 64 | the lock is held for a few system calls |
//! | [`WINDOW_LOCK_UNIT`] | 16 | the lock's policy counts pauses in this unit |
//! | [`WINDOW_LOCK_PAUSES_PER_PROGRESS`] | 16 | messages move on, and a dead holder is seen |
//! | [`WINDOW_QUEUE_YIELDS_PER_CHECK`] | 16 | a check asks for a link to each member |
//! | [`DEVICE_AWAKE`] | 60 µs | a sleep takes longer |
//! | [`DEVICE_POLL_PERIOD`] | 1 µs | a new request may be due before the known ones |
//! | [`DEVICE_SLICE`] | 100 µs | the shortest slice that kernels grant |
//! | [`DEVICE_LIVENESS_PERIOD`] | 20 ms | a sender that died must not hold a receive for long |
//! | [`DEVICE_RETRY_MIN`] | 1 ms | the peer posts a receive when it polls next |
//! | [`DEVICE_RETRIES`] | 8 | 255 ms in all: by then the peer's program is at fault |
//! | [`DEVICE_LINGER`] | 5 ms | the peer's last request has long been answered |
//! | [`END_PERIOD`] | 1 ms | the process is ending already |
//! | [`END_LIMIT`] | 1 s | a program may end its first thread and go on |
//! | [`FETCH_PERIOD`] | 5 ms | the other rank starts at about the same time, so it answers soon |
//! | [`REGISTRY_PERIOD`] | 2 ms | the registry is locked for a few system calls |
//! | [`LAUNCHER_PERIOD`] | 10 ms | no descriptor reports the end of these ranks |
//!
//! A rank that has slept needs more than the wake-up: its caches are cold. Ten accumulates in an
//! epoch after a barrier of 5 ms, near on a Zen 5, took 91 ns each after 1,000 yields and a sleep,
//! and take 27 after as many yields as the barrier lasts; exclusive locks took 74, and take 18. The
//! best peer, which never sleeps, takes 27 and 31.
//!
//! With more ranks than processors, polls before a yield are time that the awaited rank does not
//! have. An allreduce of 8 bytes and a barrier of three, four and eight ranks on two processors
//! took 7.2, 8.3 and 24 µs with 20 polls, and take 4.3, 5.4 and 16 with 2
//! ([figures](../../../../docs/front-speed.md)).
//!
//! Where other programs have the processors, each yield takes a time slice, and a rank that sleeps
//! is served sooner than one that yields. So a yield that takes long counts as many.

mod device;
mod lines;
mod locks;
mod periodic;
mod values;

use core::time::Duration;
use std::time::Instant;

use strait_core::sync::spin_hint;

pub use device::{DeviceBackoff, DevicePause, yield_until};
pub use lines::LineBackoff;
pub use locks::{WindowLockBackoff, WindowQueueBackoff};
pub use periodic::PeriodicWait;
pub use values::*;

/// The numbers of polls that a wait makes before it yields, and before it sleeps.
#[derive(Clone, Copy, Debug)]
pub struct SpinLimits {
    /// Polls before the first yield.
    polls: u32,
    /// Yields, each with one poll, before the first sleep.
    yields: u32,
    /// Yields between polls of lines alone, before any of the others.
    in_lines: u32,
}

impl SpinLimits {
    /// Returns the limits for `ranks` ranks on `cpus` processors.
    ///
    /// With a processor for each rank, a yield costs latency and gains nothing, so a wait spins
    /// long. Otherwise the awaited rank may need this processor. So a wait yields early, and sleeps
    /// when the other ranks have run and nothing has arrived.
    #[inline]
    #[must_use]
    pub const fn new(ranks: u32, cpus: usize) -> Self {
        if ranks as usize <= cpus {
            Self { polls: POLLS_UNCROWDED, yields: YIELDS_UNCROWDED, in_lines: 0 }
        } else {
            Self { polls: POLLS_CROWDED, yields: YIELDS_CROWDED, in_lines: YIELDS_IN_LINES }
        }
    }

    /// Returns the limits where each rank's device has a thread too.
    ///
    /// Where there are fewer processors than threads, a thread may wait for this rank's processor.
    /// A yield gives it the processor sooner than the thread could wake up, and costs nothing where
    /// no thread waits.
    #[must_use]
    pub const fn beside_devices(self, ranks: u32, cpus: usize) -> Self {
        let Self { polls, yields, in_lines } = self;
        if 2 * ranks as usize <= cpus || polls < POLLS_BESIDE_DEVICES {
            self
        } else {
            let yields = polls + yields - POLLS_BESIDE_DEVICES;
            Self { polls: POLLS_BESIDE_DEVICES, yields, in_lines }
        }
    }

    /// Returns the limits of a wait for another process or thread that holds something for a few
    /// system calls: [`Backoff::pause_awake`].
    #[inline]
    #[must_use]
    pub const fn brief() -> Self {
        Self::after(LOCK_POLLS)
    }

    /// Returns the same limits without yields.
    #[inline]
    #[must_use]
    pub const fn without_yields(self) -> Self {
        Self { yields: 0, in_lines: 0, ..self }
    }

    /// Returns the limits of a wait that sleeps, or lets other threads go on, after `polls` polls.
    #[inline]
    #[must_use]
    pub const fn after(polls: u32) -> Self {
        Self { polls, yields: 0, in_lines: 0 }
    }

    /// Returns limits with which a wait sleeps at once.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub const fn none() -> Self {
        Self::after(0)
    }

    /// Yields once in a wait that looks at lines alone, after `yields` others. Returns false when
    /// the wait has to go on in another way.
    #[inline]
    #[must_use]
    pub fn yield_in_lines(&self, yields: u32) -> bool {
        let may_yield = yields < self.in_lines;
        if may_yield {
            std::thread::yield_now();
        }
        may_yield
    }

    /// Returns the number of polls before the first yield.
    #[inline]
    #[must_use]
    pub const fn polls(self) -> u32 {
        self.polls
    }

    /// Returns the number of polls of one address before everything else is polled too.
    #[inline]
    #[must_use]
    pub fn short_polls(self) -> u32 {
        POLLS_SHORT.min(self.polls)
    }
}

/// The next step of a wait after a poll that found nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Poll again.
    Poll,
    /// Check which ranks are alive, then poll again.
    CheckLiveness,
    /// Sleep until the doorbell rings, then poll again.
    Sleep,
}

/// One wait: it spins, then yields, then sleeps, and tells when to check which ranks are alive.
#[derive(Debug)]
pub struct Backoff {
    limits: SpinLimits,
    /// Polls since something moved.
    polls: u32,
    /// Number of times that the sleep has been doubled so far.
    doublings: u32,
    until_clock: u32,
    /// The value from which `until_clock` is counted down.
    clock_after: u32,
    /// Polls until the clock was last read.
    polls_counted: u64,
    checked: Option<Instant>,
}

impl Backoff {
    /// Starts a wait under `limits`.
    #[inline]
    #[must_use]
    pub const fn new(limits: SpinLimits) -> Self {
        let first = POLLS_PER_CLOCK;
        let (until_clock, clock_after) = (first, first);
        let (polls, doublings, polls_counted) = (0, 0, 0);
        Self { limits, polls, doublings, until_clock, clock_after, polls_counted, checked: None }
    }

    /// Continues from the time of the last check which ranks are alive, in an earlier wait.
    #[inline]
    #[must_use]
    pub const fn checked_at(self, checked: Option<Instant>) -> Self {
        Self { checked, ..self }
    }

    /// Returns the time of the last check which ranks are alive, or `None` when the next is due.
    #[inline]
    #[must_use]
    pub const fn checked(&self) -> Option<Instant> {
        self.checked
    }

    /// Starts over, because something moved: the awaited event may come soon.
    #[inline]
    pub const fn reset(&mut self) {
        self.polls = 0;
        self.doublings = 0;
    }

    /// Starts over as [`Backoff::reset`] does, and counts a poll. It is for loops that may never
    /// end because something always moves. Returns whether to check which ranks are alive.
    #[inline]
    pub fn moved(&mut self) -> bool {
        self.reset();
        self.is_time_to_check()
    }

    /// Returns the number of polls until the clock was last read.
    #[inline]
    #[must_use]
    pub const fn polls(&self) -> u64 {
        self.polls_counted
    }

    /// Makes the next poll read the clock. Call it after a sleep in which nothing arrived.
    #[inline]
    pub const fn read_clock_next(&mut self) {
        self.polls_counted += (self.clock_after - self.until_clock) as u64;
        (self.until_clock, self.clock_after) = (1, 1);
    }

    /// Makes the next poll check liveness again. Call it while a death is not settled yet.
    #[inline]
    pub const fn check_next(&mut self) {
        self.read_clock_next();
        self.checked = None;
    }

    /// Counts one poll, and reads the clock after many.
    fn is_time_to_check(&mut self) -> bool {
        self.until_clock -= 1;
        if self.until_clock > 0 {
            return false;
        }
        self.polls_counted += u64::from(self.clock_after);
        (self.until_clock, self.clock_after) = (POLLS_PER_CLOCK, POLLS_PER_CLOCK);
        is_due(&mut self.checked)
    }

    /// Returns the time to sleep while something may come for which no doorbell rings. It grows
    /// with each sleep, so that a rank that waits long leaves the processor to the ranks that it
    /// waits for.
    #[inline]
    pub fn sleep_time(&mut self) -> Duration {
        let time = SLEEP_MIN * (1 << self.doublings);
        self.doublings = (self.doublings + 1).min(SLEEP_DOUBLINGS);
        time
    }

    /// Spins or yields once, or returns what to do instead.
    #[inline]
    pub fn pause(&mut self) -> Next {
        if self.is_time_to_check() {
            return Next::CheckLiveness;
        }
        if self.polls < self.limits.polls {
            spin_hint();
        } else if self.polls < self.limits.polls + self.limits.yields {
            self.polls += yield_once(self.limits.yields / YIELDS_OF_SLICES);
        } else {
            return Next::Sleep;
        }
        self.polls += 1;
        Next::Poll
    }

    /// Spins or yields once, and never sleeps: the awaited event is about to come, and no doorbell
    /// rings for it. Returns whether to check that its author is alive.
    #[inline]
    pub fn pause_awake(&mut self) -> bool {
        if self.polls < self.limits.polls {
            self.polls += 1;
            spin_hint();
        } else {
            std::thread::yield_now();
        }
        self.is_time_to_check()
    }
}

/// Yields once. Returns how many further yields that counts as: one for each microsecond, and
/// `most` at most. It is no method, so that a wait can stay in registers.
#[cold]
#[inline(never)]
fn yield_once(most: u32) -> u32 {
    let begin = Instant::now();
    std::thread::yield_now();
    u32::try_from(begin.elapsed().as_micros()).unwrap_or(most).min(most)
}

/// Tells a program that polls instead of waiting when to check which ranks are alive.
#[derive(Clone, Copy, Debug)]
pub struct CallTimer {
    calls_left: u32,
    checked: Option<Instant>,
}

impl Default for CallTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl CallTimer {
    /// Creates the state before the first call.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { calls_left: CALLS_PER_CLOCK, checked: None }
    }

    /// Counts a call. Returns whether to check which ranks are alive.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.is_due_after(CALLS_PER_CLOCK)
    }

    /// Counts a call behind [`CALLS_PER_PROGRESS`] others that did less. Returns whether to check
    /// which ranks are alive.
    #[inline]
    pub fn is_due_behind_others(&mut self) -> bool {
        self.is_due_after(PROGRESS_PER_CLOCK)
    }

    #[inline]
    fn is_due_after(&mut self, calls: u32) -> bool {
        self.calls_left -= 1;
        if self.calls_left > 0 {
            return false;
        }
        self.calls_left = calls;
        is_due(&mut self.checked)
    }
}

/// The pauses of a program that polls by calls, each of which returns at once.
#[derive(Clone, Copy, Debug)]
pub struct CallBackoff {
    /// Number of calls that found nothing.
    missed: u32,
    /// There are fewer processors than processes on this host.
    is_crowded: bool,
}

const _: () = {
    assert!(CALLS_CROWDED_PER_SLEEP.is_power_of_two());
    assert!(CALLS_CROWDED_PER_SLEEP.is_multiple_of(CALLS_PER_PROGRESS));
    assert!(CALLS_PER_YIELD.is_multiple_of(CALLS_PER_PROGRESS));
};

impl CallBackoff {
    /// Creates the state before the first call.
    #[inline]
    #[must_use]
    pub const fn new(is_crowded: bool) -> Self {
        Self { missed: 0, is_crowded }
    }

    /// Notes that a call found something: the next event may come soon.
    #[inline]
    pub const fn moved(&mut self) {
        self.missed &= !(CALLS_CROWDED_PER_SLEEP - 1);
    }

    /// Counts a call that found nothing. Returns whether to poll everything else, and then to
    /// [`pause`](CallBackoff::pause).
    #[inline]
    pub const fn missed(&mut self) -> bool {
        self.missed = self.missed.wrapping_add(1);
        self.missed.is_multiple_of(CALLS_PER_PROGRESS)
    }

    /// Yields or sleeps, if it is time to. `is_crowded` returns whether there are fewer processors
    /// than processes now.
    pub fn pause(&mut self, is_crowded: impl FnOnce() -> bool) {
        if self.missed.is_multiple_of(CALLS_PER_YIELD) {
            self.is_crowded = is_crowded();
            std::thread::yield_now();
        } else if self.is_crowded && self.missed.is_multiple_of(CALLS_CROWDED_PER_SLEEP) {
            std::thread::sleep(SLEEP_MIN);
        }
    }
}

/// Reads the clock. Returns whether [`LIVENESS_PERIOD`] has passed since the last check, and then
/// records this check.
fn is_due(checked: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let is_due = checked.is_none_or(|last| now.duration_since(last) >= LIVENESS_PERIOD);
    if is_due {
        *checked = Some(now);
    }
    is_due
}

#[cfg(test)]
mod tests;
