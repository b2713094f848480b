//! The progress thread: moves messages while the program computes and calls nothing.
//!
//! The thread sleeps until its rank's doorbell rings or its device has an event. Then it does what
//! a progress call does. While a call holds the progress lock, the thread sleeps or waits for the
//! lock. When a call wants the lock, the thread releases it after the current piece.
//!
//! Before it sleeps until a ring, the thread needs a barrier that costs more than most calls. So a
//! call that finds the thread asleep wakes it, once. After that the thread takes short naps: calls
//! only set the word of the doorbell, and the thread polls after [`SLEEP_BETWEEN_CALLS`]. When no
//! call came meanwhile, it sleeps until a ring.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use strait_core::sync::spin_hint;
use strait_platform::backoff::{LIVENESS_PERIOD, POLLS_SHORT, SLEEP_BETWEEN_CALLS};
use strait_platform::topology::unbind;

use super::lock::ProgressLock;
use super::round::Round;

/// A handle of the progress thread, which ends when the handle is dropped.
pub(super) struct ProgressThread {
    turns: Arc<ProgressLock>,
    thread: Option<thread::JoinHandle<()>>,
}

impl ProgressThread {
    pub(super) fn start(turns: &Arc<ProgressLock>) -> std::io::Result<Self> {
        turns.lock().stop = false;
        let shared = Arc::clone(turns);
        let builder = thread::Builder::new().name("strait-progress".to_owned());
        let thread = builder.spawn(move || shared.run())?;
        Ok(Self { turns: Arc::clone(turns), thread: Some(thread) })
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        let place = &self.turns.place;
        let mut log = self.turns.lock();
        log.stop = true;
        place.bell().get().rise();
        drop(log);
        place.sleep.wake_own(&place.segment(), place.rank);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already printed its message, and it has ended.
            let _ = thread.join();
        }
    }
}

impl ProgressLock {
    fn run(&self) {
        // The rank may be bound to a processor on which it computes.
        let _ = unbind();
        let (place, bell) = (&self.place, self.place.bell());
        let (mut calls, mut checked) = (0, Instant::now());
        loop {
            let mut log = self.lock();
            // SAFETY: the thread holds the progress lock until it drops `log`.
            let Some(engine) = (unsafe { self.engine() }) else { return };
            if log.stop {
                return;
            }
            // SAFETY: the thread holds the progress lock until it drops `log`.
            let mut round = unsafe { self.round(engine) };
            bell.get().rise();
            self.drive(&mut round);
            if checked.elapsed() >= LIVENESS_PERIOD {
                // The next call meets and reports an error.
                let _ = round.detect_failures();
                checked = Instant::now();
            }
            let is_calm = log.calls == calls && !self.wanted.load(Relaxed);
            calls = log.calls;
            let pause = match self.polls.load(Relaxed) {
                true => Pause::Poll,
                false if is_calm => lie_down(&mut round),
                false => Pause::Nap,
            };
            log.asleep = matches!(pause, Pause::Sleep(_));
            let longest = match pause {
                Pause::None => continue,
                Pause::Poll => {
                    drop(log);
                    self.give_way();
                    continue;
                }
                Pause::Nap => {
                    place.sleep.prepare_briefly(bell.get());
                    SLEEP_BETWEEN_CALLS
                }
                Pause::Sleep(longest) => longest,
            };
            drop(log);
            place.sleep.wait(bell.get(), longest);
        }
    }

    /// Yields until no call wants the progress lock.
    pub(super) fn give_way(&self) {
        thread::yield_now();
        while self.wanted.load(Relaxed) {
            thread::yield_now();
        }
    }

    /// Makes progress until there is nothing to do, or a call wants the progress lock.
    fn drive(&self, round: &mut Round<'_>) {
        let mut looks = 0;
        while looks < POLLS_SHORT && !self.wanted.load(Relaxed) {
            if moves(round) {
                looks = 0;
            } else {
                looks += 1;
                spin_hint();
            }
        }
    }
}

/// The pause of the thread between two rounds of progress.
enum Pause {
    /// No pause: something moved.
    None,
    /// A yield, until no call wants the lock.
    Poll,
    /// A short sleep of fixed length.
    Nap,
    /// A sleep until a ring, for at most this time.
    Sleep(Duration),
}

/// Arranges that every event wakes the thread, and returns the pause that is possible.
fn lie_down(round: &mut Round<'_>) -> Pause {
    let wakeup_source = round.context.arm_wakeups();
    let place = round.context.place;
    let longest = place.sleep.prepare(place.bell().get());
    match (moves(round), wakeup_source) {
        (true, _) => Pause::None,
        (false, false) => Pause::Nap,
        (false, true) => Pause::Sleep(longest),
    }
}

/// Makes progress and returns whether anything moved. The next call meets and reports an error.
fn moves(round: &mut Round<'_>) -> bool {
    round.progress().unwrap_or(false)
}

#[cfg(test)]
mod tests;
