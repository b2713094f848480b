//! Acquires a lock between processes, also from a holder that has died. The lock is held for a few
//! system calls at most.

use strait_core::lock::RevocableLock;
use strait_core::sync::spin_hint;

use crate::backoff::{LOCK_POLLS, LOCK_YIELDS_PER_CHECK};

/// A held lock, released on drop.
#[derive(Debug)]
pub struct Guard<'a> {
    lock: &'a RevocableLock,
    rank: u32,
}

/// Takes the lock for `rank`. `has_ended` returns whether the process of the holder has ended. It
/// fails when no process has the holder's rank: the lock word is corrupt then.
pub fn acquire<E>(
    lock: &RevocableLock,
    rank: u32,
    has_ended: impl Fn(u32) -> Result<bool, E>,
) -> Result<Guard<'_>, E> {
    let mut looks = 0_u32;
    while let Err(holder) = lock.try_acquire(rank) {
        looks = looks.wrapping_add(1);
        if looks < LOCK_POLLS {
            spin_hint();
            continue;
        }
        std::thread::yield_now();
        let is_dead = looks.is_multiple_of(LOCK_YIELDS_PER_CHECK) && has_ended(holder)?;
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
