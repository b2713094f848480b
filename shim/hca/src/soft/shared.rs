//! The state that the owner of a device shares with the device's thread, and its locks.

use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use strait_platform::wakeup_socket::WakeupSocket;

use super::block::{DeviceBlock, EndId};
use super::fabric::Fabric;
use super::queue::Queues;
use super::regions::SoftRegions;

/// The state that the owner of a device and its thread share.
#[derive(Debug)]
pub(super) struct SharedDevice {
    pub(super) fabric: Fabric,
    pub(super) rank: u32,
    /// Receives a datagram when a request has completed.
    pub(super) wakeup_socket: WakeupSocket,
    /// Locked while a request is carried out, so that its region is not deregistered. Acquired
    /// before `device`, if both are held.
    pub(super) regions: Mutex<SoftRegions>,
    pub(super) device: Mutex<DeviceState>,
    /// Signalled when a request is posted, and when the device is to stop.
    pub(super) posted: Condvar,
    /// Signalled when a request has been carried out.
    pub(super) ended: Condvar,
}

#[derive(Debug)]
pub(super) struct DeviceState {
    pub(super) queues: Queues,
    /// The connection on which a request is being carried out.
    pub(super) at_work: Option<EndId>,
    pub(super) asleep: bool,
    pub(super) stop: bool,
}

impl SharedDevice {
    /// Makes the state of the device of `rank`, which the fabric has.
    pub(super) fn new(
        fabric: Fabric,
        rank: u32,
        wakeup_socket: WakeupSocket,
        salt: u32,
        queues: Queues,
    ) -> Self {
        let device = DeviceState { queues, at_work: None, asleep: false, stop: false };
        Self {
            fabric,
            rank,
            wakeup_socket,
            regions: Mutex::new(SoftRegions::new(salt)),
            device: Mutex::new(device),
            posted: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    pub(super) fn block(&self) -> &DeviceBlock {
        self.fabric.block(self.rank).expect("the rank was checked when it attached")
    }

    pub(super) fn device(&self) -> MutexGuard<'_, DeviceState> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn regions(&self) -> MutexGuard<'_, SoftRegions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sleep<'a>(
        &'a self,
        device: MutexGuard<'a, DeviceState>,
        longest: Duration,
    ) -> MutexGuard<'a, DeviceState> {
        let slept = self.posted.wait_timeout(device, longest);
        slept.unwrap_or_else(PoisonError::into_inner).0
    }
}
