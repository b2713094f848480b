//! Post, start, complete and wait (`[OneSided04]` §3.3.3, MPI-4.1 §12.5.2).
//!
//! In the paper an origin has a vector of bits, one for each target. The targets set them by RDMA
//! writes, and learn of their origins' completions in the same way. Here each bit is a number that
//! only grows: the number of the epoch. So nothing is reset, and an origin may run ahead of a
//! target that has not looked yet. A word still has one writer, which may be a device.
//!
//! An origin that does nothing to a target need not know whether the target has posted. So it waits
//! at its first operation, and does not wait in an empty epoch.

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, dma, order, prefetch_to_write};

/// A number that one rank raises and another waits for. Zeroed memory is the initial state.
#[derive(Debug)]
#[repr(transparent)]
pub struct Signal(AtomicU64);

impl Signal {
    /// Creates a signal that was never raised, for models and tests.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Prefetches the line of a signal that will be raised soon. The rank that waits for the signal
    /// has the line. The fetch overlaps with the work before the raise.
    #[inline(always)]
    pub fn prepare(&self) {
        prefetch_to_write(core::ptr::from_ref(self).cast_mut());
    }

    /// Raises the signal to `number`. Only one rank does so.
    #[inline(always)]
    pub fn raise(&self, number: u64) {
        // ORDER pscw/1: Release, pairs with pscw/2. From a target that posts: its accesses to its
        //   part come before those of origins. From an origin that completes: its operations come
        //   before the target's next accesses.
        self.0.store(number, order("pscw/1", Release));
    }

    /// Returns true if the signal has been raised to `number` or higher. It is higher if the other
    /// side has run ahead.
    #[inline(always)]
    #[must_use]
    pub fn has_reached(&self, number: u64) -> bool {
        // ORDER pscw/2: Acquire, pairs with pscw/1, or with the write of a device: the other side's
        //   accesses come first.
        let reached = self.0.load(order("pscw/2", Acquire)) >= number;
        if reached {
            dma::payload_after_flag();
        }
        reached
    }

    /// Returns the number of the signal. Everything before its last raise is visible.
    #[inline(always)]
    #[must_use]
    pub(super) fn seen(&self) -> u64 {
        // ORDER pscw/2 again: Acquire, pairs with pscw/1: the other side's accesses come first.
        self.0.load(order("pscw/2", Acquire))
    }

    /// Returns the number of the signal without ordering, for a report or for the rank that raises
    /// it.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Default for Signal {
    fn default() -> Self {
        Self::new()
    }
}

/// A rank's state of its epochs with one other rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    exposures: u64,
    accesses: u64,
}

impl Pair {
    /// Exposes this rank's part to the other rank. Returns the number for the other's post signal.
    #[inline(always)]
    #[must_use]
    pub const fn post(&mut self) -> u64 {
        self.exposures += 1;
        self.exposures
    }

    /// Begins an access to the other's part. The access waits until the part is posted.
    #[inline(always)]
    pub const fn start(&mut self) {
        self.accesses += 1;
    }

    /// Returns true if the other rank has posted for the access that was started last.
    #[inline(always)]
    #[must_use]
    pub fn is_posted(&self, posts: &Signal) -> bool {
        posts.has_reached(self.accesses)
    }

    /// Ends the access. Returns the number for the other's completion signal.
    #[inline(always)]
    #[must_use]
    pub const fn complete(&self) -> u64 {
        self.accesses
    }

    /// Returns true if the other rank has completed the access for which this rank posted last.
    #[inline(always)]
    #[must_use]
    pub fn is_completed(&self, completions: &Signal) -> bool {
        completions.has_reached(self.exposures)
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_origin_runs_ahead_and_a_target_counts_its_epochs() {
        let (posts, completions) = (Signal::new(), Signal::new());
        let (mut origin, mut target) = (Pair::default(), Pair::default());
        for _ in 0..3 {
            origin.start();
            completions.raise(origin.complete());
        }
        assert!(!origin.is_posted(&posts));
        for epoch in 1..=3 {
            posts.raise(target.post());
            assert!(target.is_completed(&completions), "completed before it was posted");
            assert_eq!(origin.is_posted(&posts), epoch == 3);
        }
        posts.raise(target.post());
        assert!(!target.is_completed(&completions), "no origin has started the fourth epoch");
    }
}
