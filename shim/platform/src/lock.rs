//! Acquires a lock between processes, also from a holder that has died. The lock is held for a few
//! system calls at most.

use strait_core::lock::RevocableLock;

use crate::backoff::{Backoff, SpinLimits};

/// A held lock, released on drop.
#[derive(Debug)]
pub struct Guard<'a> {
    lock: &'a RevocableLock,
    rank: u32,
}

/// Takes the lock for `rank` if it is free.
#[inline(always)]
pub fn try_acquire(lock: &RevocableLock, rank: u32) -> Option<Guard<'_>> {
    // Made only when the lock is taken: the drop of a guard releases the lock, whichever thread of
    // the rank holds it.
    lock.try_acquire(rank).is_ok().then(|| Guard { lock, rank })
}

/// Takes the lock for `rank`. `has_ended` returns whether the process of the holder has ended. The
/// wait calls it only when it takes long.
///
/// # Errors
///
/// The error of `has_ended`, when no process has the holder's rank: the lock word is corrupt then.
pub fn acquire<E>(
    lock: &RevocableLock,
    rank: u32,
    mut has_ended: impl FnMut(u32) -> Result<bool, E>,
) -> Result<Guard<'_>, E> {
    let mut backoff = Backoff::new(SpinLimits::brief());
    while let Err(holder) = lock.try_acquire(rank) {
        let is_dead = backoff.pause_awake() && has_ended(holder)?;
        if is_dead && lock.take_over(holder, rank) {
            break;
        }
    }
    Ok(Guard { lock, rank })
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.lock.release(self.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_in_vain_leaves_the_lock_to_another_thread_of_the_rank() {
        let lock = RevocableLock::free();
        let held = try_acquire(&lock, 2).expect("the lock is free");
        assert!(try_acquire(&lock, 2).is_none());
        assert!(try_acquire(&lock, 5).is_none());
        assert_eq!(lock.try_acquire(5), Err(2), "the first guard still holds the lock");
        drop(held);
        assert!(try_acquire(&lock, 5).is_some());
    }
}
