//! A lock between processes that survives the death of its holder.
//!
//! The word names the holder. A process that waits can thus check whether the holder is still
//! alive, and take the lock from a dead one. Holders therefore always keep the guarded data in a
//! state from which the next holder can continue.
//!
//! All operations are wait-free. The embedder waits and checks which ranks are alive.

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, order};

/// A lock word. Zero means free; any other value is the holder's rank plus one.
///
/// ```
/// use strait_core::lock::RevocableLock;
///
/// let lock = RevocableLock::free();
/// assert_eq!(lock.try_acquire(2), Ok(()));
/// assert_eq!(lock.try_acquire(5), Err(2), "rank 2 holds the lock");
/// // Rank 2 dies, and rank 5 learns of it.
/// assert!(lock.take_over(2, 5));
/// lock.release(5);
/// assert_eq!(lock.try_acquire(0), Ok(()));
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct RevocableLock(AtomicU32);

impl RevocableLock {
    /// Creates a free lock, for models and tests. In a fabric, zeroed memory has this state.
    #[must_use]
    pub fn free() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes the lock for `rank` if it is free.
    ///
    /// # Errors
    ///
    /// Returns the rank that holds the lock.
    #[inline]
    pub fn try_acquire(&self, rank: u32) -> Result<(), u32> {
        // ORDER lock/1: Acquire, pairs with lock/3: what previous holders did comes first. Without
        //   it we overwrite it.
        let taken = self.0.compare_exchange(0, rank + 1, order("lock/1", Acquire), Relaxed);
        taken.map(drop).map_err(|holder| holder.wrapping_sub(1))
    }

    /// Takes the lock for `rank` from a holder that is known to be dead. Returns false if it is no
    /// longer the holder.
    pub fn take_over(&self, holder: u32, rank: u32) -> bool {
        let (dead, ours) = (holder.wrapping_add(1), rank + 1);
        // ORDER lock/2: Acquire, pairs with lock/3 of the holders before the dead one. The dead
        //   holder's lock/1 continues what they released. Without it we overwrite what they did.
        //   The dead holder has stopped, so its own stores are in memory.
        self.0.compare_exchange(dead, ours, order("lock/2", Acquire), Relaxed).is_ok()
    }

    /// Releases the lock. Does nothing if another rank took `rank` for dead and took the lock over.
    #[inline]
    pub fn release(&self, rank: u32) {
        // ORDER lock/3: Release, pairs with lock/1 and lock/2: what this holder did comes before
        //   the next holder's work.
        let _ = self.0.compare_exchange(rank + 1, 0, order("lock/3", Release), Relaxed);
    }
}
