//! Acquires a lock between processes, also from a holder that has died. The lock is held for a few
//! system calls at most.

use strait_core::lock::RevocableLock;

use crate::backoff::ProcessBackoff;

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
    let mut backoff = ProcessBackoff::for_lock();
    while let Err(holder) = lock.try_acquire(rank) {
        let is_dead = backoff.pause() && has_ended(holder)?;
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
