//! The event of a completion: a doorbell in the fabric, that any device may ring.

use core::time::Duration;
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::thread::futex;
use strait_core::hca::HcaError;
use strait_core::shm::Doorbell;
use strait_core::sync::Ordering::SeqCst;
use strait_core::sync::fence;

use super::Shared;
use super::block::Block;
use crate::hca::cq::Events;
use crate::sleep::word;

impl Shared {
    /// Says that something of the owner of `block` has completed.
    pub(super) fn ring(&self, block: &Block) {
        // The sleeper has but a fence of its own, so the ringer needs one, too: little beside a copy by the kernel.
        fence(SeqCst);
        if block.event.is_wanted() && block.event.ring() {
            // It fails for no address that is mapped. All waiters: the word tells each whether to sleep on.
            let _ = futex::wake(word(&block.event), futex::Flags::empty(), i32::MAX as u32);
        }
    }

    pub(super) fn arm(&self) {
        self.block().event.lie_down(|| fence(SeqCst));
    }
}

/// The event of one software device.
#[derive(Clone, Debug)]
pub struct SoftEvents(pub(super) Arc<Shared>);

impl Events for SoftEvents {
    fn wait(&self, longest: Duration) -> Result<bool, HcaError> {
        let block = self.0.block();
        if block.event.is_wanted() {
            let timeout = Timespec::try_from(longest).ok();
            let flags = futex::Flags::empty();
            // However it ends: the word says whether the event has come.
            let _ = futex::wait(word(&block.event), flags, Doorbell::ASLEEP, timeout.as_ref());
        }
        Ok(!block.event.is_wanted())
    }
}
