//! The event of a completion: a doorbell in the fabric, which any device may ring, and the owner's
//! wake-up socket.

use strait_core::shm::Slumber;
use strait_core::sync::Ordering::SeqCst;
use strait_core::sync::fence;
use strait_platform::Rank;
use strait_platform::wakeup_socket::{self, WakeupName};

use super::block::DeviceBlock;
use super::shared::SharedDevice;

/// Returns the name of the wake-up socket of the device of `rank`.
pub(super) const fn wakeup_socket(nonce: u64, rank: Rank) -> WakeupName {
    WakeupName { kind: "hca", nonce, rank }
}

impl SharedDevice {
    /// Tells the device of `rank`, which owns `block`, that one of its requests or receives has
    /// completed.
    pub(super) fn ring(&self, block: &DeviceBlock, rank: Rank) {
        // The sleeper uses only a fence of its own, so this side needs one too. It costs little
        // beside a copy by the kernel.
        fence(SeqCst);
        if block.event.is_wanted() && block.event.ring().is_some() {
            wakeup_socket::notify(&wakeup_socket(self.fabric.nonce_of(rank), rank));
        }
    }

    pub(super) fn arm(&self) {
        self.wakeup_socket.drain();
        self.block().event.prepare_to_sleep(Slumber::Descriptor, || fence(SeqCst));
    }
}
