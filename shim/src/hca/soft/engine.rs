//! The device thread of `engine` mode: carries out what is due while the poster goes its way.

use core::time::Duration;
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::Instant;

use super::queue::{Hand, Next};
use super::{Device, FabricError, Shared};
use crate::topology::{allowed_cpu_count, unbind};

/// A wait that is shorter than this is passed by giving way to others again and again: to sleep takes longer. Where others want
/// the processor it would take them milliseconds to give it back, so there the thread sleeps, and only the last half it is awake.
const SHORT: Duration = Duration::from_micros(60);

/// Time between two looks at the queues while the thread stays awake: new requests may be due before those that it knows.
const GLANCE: Duration = Duration::from_micros(1);

/// How long the thread wants a processor at a time: the least that kernels grant.
const TURN: Duration = Duration::from_micros(100);

/// The device thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Engine {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Engine {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, FabricError> {
        let device = Arc::clone(shared);
        let builder = thread::Builder::new().name(super::THREAD.to_owned());
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
        short_turns();
        // A card takes no processor from its rank. Refused, it shares the rank's: slower, not wrong.
        let _ = unbind();
        let crowded = allowed_cpu_count() < 2 * self.fabric.ranks() as usize;
        let awake = if crowded { SHORT / 2 } else { SHORT };
        let mut device = self.device();
        let mut idle_since = Instant::now();
        while !device.stop {
            let now = Instant::now();
            let pause = match device.queues.next(Hand::Device, now) {
                // The owner is about it, and may need our processor for it.
                Next::Now(_) if device.at_work.is_some() => {
                    device = self.give_way(device);
                    continue;
                }
                Next::Now(due) => {
                    device = self.do_one(device, &due);
                    idle_since = Instant::now();
                    continue;
                }
                Next::At(due) => Some(due - now),
                Next::Nothing => None,
            };
            let is_short = match pause {
                Some(pause) => pause < awake,
                None => !crowded && now - idle_since < SHORT,
            };
            if is_short && crowded {
                // Whoever has our processor next may keep it for milliseconds.
                device = self.linger(device, pause.unwrap_or_default().min(GLANCE));
            } else if is_short {
                device = self.give_way(device);
            } else {
                device.asleep = true;
                let longest = pause.map_or(Duration::MAX, |pause| pause.saturating_sub(SHORT / 2));
                device = self.sleep(device, longest);
                device.asleep = false;
            }
        }
    }

    /// Keeps the processor, and not the lock: an owner that finds that taken again and again would sleep for it.
    fn linger<'a>(
        &'a self,
        device: MutexGuard<'a, Device>,
        pause: Duration,
    ) -> MutexGuard<'a, Device> {
        drop(device);
        let begin = Instant::now();
        while begin.elapsed() < pause {
            core::hint::spin_loop();
        }
        self.device()
    }

    fn give_way<'a>(&'a self, device: MutexGuard<'a, Device>) -> MutexGuard<'a, Device> {
        drop(device);
        thread::yield_now();
        self.device()
    }
}

/// Asks the kernel not to round this thread's sleeps up.
fn precise_timers() {
    // SAFETY: the call takes a number and changes nothing but this thread's timer slack. It may be refused, and then sleeps
    // are longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Asks the kernel for turns that are short and therefore come soon (`sched_setattr(2)`, a slice of its own since Linux 6.12), so
/// that this thread does not wait for a rank that computes on its processor to have had a whole turn of milliseconds.
fn short_turns() {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: TURN.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads a structure that lives as long as it, and changes nothing but how this thread takes turns. It may
    // be refused, and an older kernel takes no notice: then the thread is later when there are too few processors.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}
