//! Carries out the requests that are due, as the owner or as the device's thread.

use std::sync::MutexGuard;
use std::time::Instant;

use strait_core::hca::Region;
use strait_platform::backoff::{Backoff, SpinLimits, yield_until};
use strait_platform::liveness::has_ended;

use super::block::{BlockEnd, EndId};
use super::queue::{Due, Executor, NextWork};
use super::shared::{DeviceState, SharedDevice};
use super::work::Tried;

impl SharedDevice {
    /// Carries out one request, with the queues unlocked during the work.
    pub(super) fn do_one<'a>(
        &'a self,
        mut device: MutexGuard<'a, DeviceState>,
        due: &Due,
    ) -> MutexGuard<'a, DeviceState> {
        device.at_work = Some(due.near);
        drop(device);
        let began = Instant::now();
        let tried = self.carry_out(due.near, &due.far, &due.work);
        let ended = Instant::now();
        let took = ended - began;
        let is_done = matches!(tried, Tried::Ended(Ok(())));
        // A request that was faster than any before waits until it is due.
        let now = if is_done { yield_until(due.due) } else { ended };
        let mut device = self.device();
        device.at_work = None;
        if let Some((near, far)) = device.queues.tried(due, tried, took, now) {
            self.shatter(near, &far);
        }
        self.ended.notify_all();
        if device.queues.has_completions() {
            self.ring(self.block(), self.rank);
        }
        device
    }

    /// Carries out due requests as the owner, unless the device's thread is carrying one out.
    pub(super) fn drive<'a>(
        &'a self,
        mut device: MutexGuard<'a, DeviceState>,
    ) -> MutexGuard<'a, DeviceState> {
        while device.queues.is_busy() && device.at_work.is_none() {
            let NextWork::Now(due) = device.queues.next(Executor::Owner, Instant::now()) else {
                break;
            };
            device = self.do_one(device, &due);
        }
        device
    }

    /// Breaks a connection on both sides.
    fn shatter(&self, near: EndId, far: &BlockEnd) {
        self.block().connections[near.index as usize].shatter(near.generation);
        if let Some(block) = self.fabric.block(far.end.rank) {
            block.connections[far.end.index as usize].shatter(far.end.generation);
        }
    }

    /// Waits until no device accesses the region. Its key is revoked already. The wait skips a
    /// device of a process that has ended.
    pub(super) fn quiesce(&self, region: &Region) {
        for block in self.fabric.blocks() {
            let mut backoff = Backoff::new(SpinLimits::brief());
            while block.access.is_on(self.rank, region.remote_key) {
                if backoff.pause_awake() && has_ended(&block.liveness) {
                    break;
                }
            }
        }
    }
}
