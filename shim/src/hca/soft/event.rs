//! The event of a completion: a futex word in the fabric, that any device may ring.

use core::sync::atomic::AtomicU32;
use core::time::Duration;
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::thread::futex;
use strait_core::hca::HcaError;
use strait_core::sync::Ordering::{Relaxed, SeqCst};
use strait_core::sync::fence;

use super::Shared;
use super::block::Block;
use crate::hca::cq::Events;

/// Nobody waits for an event.
const QUIET: u32 = 0;

/// The next completion rings.
const ARMED: u32 = 1;

impl Shared {
    /// Says that something of the owner of `block` has completed.
    pub(super) fn ring(&self, block: &Block) {
        // Pairs with the fence in `arm`: either we see it armed, or its owner's next poll sees the completion.
        fence(SeqCst);
        if block.event.load(Relaxed) == ARMED
            && block.event.compare_exchange(ARMED, QUIET, Relaxed, Relaxed).is_ok()
        {
            // It fails for no address that is mapped. All waiters: the word tells each whether to sleep on.
            let _ = futex::wake(word(block), futex::Flags::empty(), i32::MAX as u32);
        }
    }

    pub(super) fn arm(&self) {
        self.block().event.store(ARMED, Relaxed);
        fence(SeqCst);
    }
}

/// The futex word as the system call takes it.
fn word(block: &Block) -> &AtomicU32 {
    // SAFETY: an atomic word that lives as long as `block`, and is reached by atomic operations alone.
    unsafe { AtomicU32::from_ptr(block.event.as_ptr()) }
}

/// The event of one software device.
#[derive(Clone, Debug)]
pub struct SoftEvents(pub(super) Arc<Shared>);

impl Events for SoftEvents {
    fn wait(&self, longest: Duration) -> Result<bool, HcaError> {
        let block = self.0.block();
        if block.event.load(Relaxed) == ARMED {
            let timeout = Timespec::try_from(longest).ok();
            let flags = futex::Flags::empty();
            // However it ends: the word says whether the event has come.
            let _ = futex::wait(word(block), flags, ARMED, timeout.as_ref());
        }
        Ok(block.event.load(Relaxed) != ARMED)
    }
}
