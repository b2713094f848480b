//! The device thread of `engine` mode, which carries out due requests while the posting thread goes
//! on.

use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::Instant;

use strait_platform::backoff::{DEVICE_SLICE, DeviceBackoff, DevicePause};
use strait_platform::topology::{allowed_cpu_count, unbind};

use super::fabric::FabricError;
use super::queue::{Executor, NextWork};
use super::shared::{DeviceState, SharedDevice};

/// The name of a device's thread.
pub const THREAD: &str = "strait-hca";

/// The device thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct DeviceThread {
    shared: Arc<SharedDevice>,
    thread: Option<thread::JoinHandle<()>>,
}

impl DeviceThread {
    pub(super) fn start(shared: &Arc<SharedDevice>) -> Result<Self, FabricError> {
        let device = Arc::clone(shared);
        let builder = thread::Builder::new().name(THREAD.to_owned());
        let thread = builder.spawn(move || device.run()).map_err(|_| FabricError::NoThread)?;
        Ok(Self { shared: Arc::clone(shared), thread: Some(thread) })
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        self.shared.device().stop = true;
        self.shared.posted.notify_all();
        if let Some(thread) = self.thread.take() {
            // A device thread that panicked has reported it, and there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

impl SharedDevice {
    fn run(&self) {
        precise_timers();
        short_turns();
        // A real card takes no processor from its rank. If the kernel refuses, the thread shares
        // the rank's processor, which is only slower.
        let _ = unbind();
        let (ranks, cpus) = (self.fabric.ranks(), allowed_cpu_count());
        let mut backoff = DeviceBackoff::new(ranks, cpus, Instant::now());
        let mut device = self.device();
        while !device.stop {
            let now = Instant::now();
            let pause = match device.queues.next(Executor::Device, now) {
                // The owner is carrying out a request, and may need this thread's processor.
                NextWork::Now(_) if device.at_work.is_some() => DevicePause::Yield,
                NextWork::Now(due) => {
                    device = self.do_one(device, &due);
                    backoff.reset(Instant::now());
                    continue;
                }
                NextWork::At(due) => backoff.next(Some(due), now),
                NextWork::Nothing => backoff.next(None, now),
            };
            device = self.pause(device, pause);
        }
    }

    fn pause<'a>(
        &'a self,
        mut device: MutexGuard<'a, DeviceState>,
        pause: DevicePause,
    ) -> MutexGuard<'a, DeviceState> {
        if let DevicePause::Sleep(longest) = pause {
            device.asleep = true;
            device = self.sleep(device, longest);
            device.asleep = false;
            return device;
        }
        // An owner that finds the lock taken again and again would sleep.
        drop(device);
        pause.stay_awake();
        self.device()
    }
}

/// Asks the kernel not to round up the sleeps of this thread.
fn precise_timers() {
    // SAFETY: the call takes a number, and changes only the timer slack of this thread. If it is
    // refused, sleeps are longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Asks the kernel for short time slices, which therefore come soon (`sched_setattr(2)`; a slice
/// per thread exists since Linux 6.12). Without it, this thread waits for a computing rank on its
/// processor to use a whole slice of milliseconds.
fn short_turns() {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: DEVICE_SLICE.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads one structure, which outlives the call, and changes only the
    // scheduling of this thread. It may be refused, and an older kernel ignores it. Then the thread
    // is later when there are too few processors.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}
