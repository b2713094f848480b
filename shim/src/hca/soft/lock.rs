//! A lock between processes that outlives whoever holds it.
//!
//! The word names its holder. Who waits for long asks whether the holder still lives, and takes the lock from a dead one;
//! so what is guarded is always left in a state from which the next holder can go on. Held for a few system calls at most.

use strait_core::layout::Liveness;
use strait_core::sync::AtomicU32;
use strait_core::sync::Ordering::{Acquire, Relaxed, Release};
use strait_core::sync::spin_hint;

use crate::liveness::has_ended;

/// Looks before the first yield.
const LOOKS: u32 = 64;

/// Yields between two questions whether the holder lives.
const YIELDS: u32 = 1024;

/// Zero: free. Otherwise the holder's rank plus one.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(super) struct Lock(AtomicU32);

/// The right to what a lock guards.
#[derive(Debug)]
pub(super) struct Guard<'a> {
    lock: &'a Lock,
    me: u32,
}

impl Lock {
    /// Takes the lock for `rank`. `liveness` says who a rank is, `None` for what is no rank.
    pub(super) fn acquire<'a, 'l>(
        &'a self,
        rank: u32,
        liveness: impl Fn(u32) -> Option<&'l Liveness>,
    ) -> Guard<'a> {
        let me = rank + 1;
        let mut looks = 0_u32;
        while let Err(holder) = self.0.compare_exchange(0, me, Acquire, Relaxed) {
            looks = looks.wrapping_add(1);
            if looks < LOOKS {
                spin_hint();
                continue;
            }
            std::thread::yield_now();
            let is_dead = looks.is_multiple_of(YIELDS)
                && holder.checked_sub(1).is_some_and(|rank| liveness(rank).is_none_or(has_ended));
            if is_dead && self.0.compare_exchange(holder, me, Acquire, Relaxed).is_ok() {
                break;
            }
        }
        Guard { lock: self, me }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Taken from us only if we were believed dead; then it is not ours to give back.
        let _ = self.lock.0.compare_exchange(self.me, 0, Release, Relaxed);
    }
}
