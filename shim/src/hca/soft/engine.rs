//! The device thread of `engine` mode: carries out what is due while the poster goes its way.

use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::queue::{Hand, Next};
use super::{FabricError, Shared};
use crate::topology::unbind;

/// A wait that is shorter than this is passed by giving way to others again and again: to sleep takes longer.
const SHORT: Duration = Duration::from_micros(60);

/// The device thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Engine {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Engine {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, FabricError> {
        let device = Arc::clone(shared);
        let builder = thread::Builder::new().name("strait-hca".to_owned());
        let thread = builder.spawn(move || device.run()).map_err(|_| FabricError::NoThread)?;
        Ok(Self { shared: Arc::clone(shared), thread: Some(thread) })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.device().stop = true;
        self.shared.posted.notify_all();
        if let Some(thread) = self.thread.take() {
            // A device thread that panicked has said so; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        precise_timers();
        // A card takes no processor from its rank. Refused, it shares the rank's: slower, not wrong.
        let _ = unbind();
        let mut device = self.device();
        let mut idle_since = Instant::now();
        while !device.stop {
            let now = Instant::now();
            let pause = match device.queues.next(Hand::Device, now) {
                // The owner is about it.
                Next::Now(_) if device.at_work.is_some() => Some(Duration::ZERO),
                Next::Now(due) => {
                    device = self.do_one(device, &due);
                    idle_since = Instant::now();
                    continue;
                }
                Next::At(due) => Some(due - now),
                Next::Nothing => None,
            };
            let is_short = pause.map_or(now - idle_since < SHORT, |pause| pause < SHORT);
            if is_short {
                drop(device);
                thread::yield_now();
                device = self.device();
            } else {
                device.asleep = true;
                let longest = pause.map_or(Duration::MAX, |pause| pause.saturating_sub(SHORT / 2));
                device = self.sleep(device, longest);
                device.asleep = false;
            }
        }
    }
}

/// Asks the kernel not to round this thread's sleeps up.
fn precise_timers() {
    // SAFETY: the call takes a number and changes nothing but this thread's timer slack. It may be refused, and then sleeps
    // are longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
