//! The thread of one window, which serves that window while its rank computes
//! (`[OneSided04]` §4.2.1, "one thread per window").
//!
//! Like the thesis's dedicated thread, it never sleeps. All threads of a rank share one engine
//! behind the progress lock, so each of them takes in the messages to all windows. Only the
//! window's own thread, a call, or the progress thread then serves the window.
//!
//! The thread leaves the doorbell as it is: a call or the progress thread that sleeps relies on
//! rings, and a message that this thread takes in may be for a window that only they serve.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use strait_platform::backoff::LIVENESS_PERIOD;
use strait_platform::topology::unbind;

use super::lock::{ProgressLock, ProgressLog};
use super::round::Round;
use super::windows::{ServedWindow, ServedWindows};

/// A handle of a window's thread, which ends when the handle is dropped. No guard of the progress
/// lock is live then, because the thread takes the lock once more.
pub(super) struct WindowThread {
    turns: Arc<ProgressLock>,
    window: ServedWindow,
    thread: Option<thread::JoinHandle<()>>,
}

impl WindowThread {
    pub(super) fn start(turns: &Arc<ProgressLock>, window: ServedWindow) -> std::io::Result<Self> {
        turns.lock().windows.push(window.lock_manager);
        let (shared, turns) = (Arc::clone(turns), Arc::clone(turns));
        // Dropped after a failure, the handle takes the number back.
        let mut handle = Self { turns, window, thread: None };
        let builder = thread::Builder::new().name("strait-window".to_owned());
        handle.thread = Some(builder.spawn(move || shared.serve_window(window))?);
        Ok(handle)
    }

    /// Returns whether this is the thread of the window with this lock manager.
    pub(super) const fn is_of(&self, lock_manager: u64) -> bool {
        self.window.lock_manager == lock_manager
    }
}

impl Drop for WindowThread {
    fn drop(&mut self) {
        let number = self.window.lock_manager;
        self.turns.lock().windows.retain(|window| *window != number);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already printed its message, and it has ended.
            let _ = thread.join();
        }
    }
}

impl ProgressLock {
    fn serve_window(&self, window: ServedWindow) {
        // The rank may be bound to a processor on which it computes.
        let _ = unbind();
        loop {
            let mut log = self.lock();
            // SAFETY: the thread holds the progress lock until it drops `log`.
            let Some(engine) = (unsafe { self.engine() }) else { return };
            if !log.windows.contains(&window.lock_manager) {
                return;
            }
            // SAFETY: the thread holds the progress lock until it drops `log`.
            let mut round = unsafe { self.round(engine) };
            let windows = ServedWindows::One(window);
            // The next call meets and reports an error.
            while round.progress_serving(windows).unwrap_or(false) && !self.wanted.load(Relaxed) {}
            look_for_deaths(&mut round, &mut log);
            drop(log);
            self.give_way();
        }
    }
}

/// Looks for ranks that have died, if it is time. The threads of all windows do so in turn.
fn look_for_deaths(round: &mut Round<'_>, log: &mut ProgressLog) {
    if log.checked.is_none_or(|checked| checked.elapsed() >= LIVENESS_PERIOD) {
        // The next call meets and reports an error.
        let _ = round.detect_failures();
        log.checked = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests;
