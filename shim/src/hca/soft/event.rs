//! The event of a completion: a doorbell in the fabric, that any device may ring, and the owner's chime.

use strait_core::shm::Slumber;
use strait_core::sync::Ordering::SeqCst;
use strait_core::sync::fence;

use super::Shared;
use super::block::Block;
use crate::Rank;
use crate::chime::{self, Name};

/// The chime of the device of `rank`.
pub(super) const fn chime(nonce: u64, rank: Rank) -> Name {
    Name { kind: "hca", nonce, rank }
}

impl Shared {
    /// Says that something of the device of `rank`, whose block this is, has completed.
    pub(super) fn ring(&self, block: &Block, rank: Rank) {
        // The sleeper has but a fence of its own, so the ringer needs one, too: little beside a copy by the kernel.
        fence(SeqCst);
        if block.event.is_wanted() && block.event.ring().is_some() {
            chime::ring(&chime(self.fabric.nonce_of(rank), rank));
        }
    }

    pub(super) fn arm(&self) {
        self.chime.hush();
        self.block().event.lie_down(Slumber::Descriptor, || fence(SeqCst));
    }
}
