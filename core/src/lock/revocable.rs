//! A lock between processes that outlives whoever holds it.
//!
//! The word names its holder, so that who waits can ask whether the holder still lives, and take the lock from a dead one.
//! What is guarded is therefore always left in a state from which the next holder can go on.
//!
//! All operations are wait-free. Waiting, and asking who lives, are the embedder's.

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, order};

/// Zero: free. Otherwise the holder's rank plus one.
#[derive(Debug)]
#[repr(transparent)]
pub struct Lock(AtomicU32);

impl Lock {
    /// A free lock, for models and tests: in a fabric, zeroed memory is already one.
    #[must_use]
    pub fn free() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes the lock for `rank` if it is free.
    ///
    /// # Errors
    ///
    /// The rank that holds it.
    #[inline]
    pub fn try_acquire(&self, rank: u32) -> Result<(), u32> {
        // ORDER lock/1: Acquire, pairs with lock/3: what the holders before us did comes first. Without it we overwrite it.
        let taken = self.0.compare_exchange(0, rank + 1, order("lock/1", Acquire), Relaxed);
        taken.map(drop).map_err(|holder| holder.wrapping_sub(1))
    }

    /// Takes the lock for `rank` from a holder that is known to be dead. False: it is not the holder any more.
    pub fn take_over(&self, holder: u32, rank: u32) -> bool {
        let (dead, ours) = (holder.wrapping_add(1), rank + 1);
        // ORDER lock/2: Acquire, pairs with lock/3 of the holders before the dead one, whose own lock/1 goes on with what they
        //   released. Without it we overwrite what they did. What the dead one did is in memory: it has stopped.
        self.0.compare_exchange(dead, ours, order("lock/2", Acquire), Relaxed).is_ok()
    }

    /// Gives the lock back. From a `rank` that was taken for dead it has been taken, and is not its to give.
    #[inline]
    pub fn release(&self, rank: u32) {
        // ORDER lock/3: Release, pairs with lock/1 and lock/2.
        let _ = self.0.compare_exchange(rank + 1, 0, order("lock/3", Release), Relaxed);
    }
}
