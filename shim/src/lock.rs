//! Waiting for a lock between processes, and taking it from the dead. It is held for a few system calls at most.

use strait_core::lock::Lock;
use strait_core::sync::spin_hint;

/// Looks before the first yield.
const LOOKS: u32 = 64;

/// Yields between two questions whether the holder lives.
const YIELDS: u32 = 1024;

/// The right to what a lock guards.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    lock: &'a Lock,
    rank: u32,
}

/// Takes the lock for `rank`. `has_ended` says whether the process of the rank that holds the lock has ended, and fails
/// where no process has that rank: then the word is destroyed.
pub(crate) fn acquire<E>(
    lock: &Lock,
    rank: u32,
    has_ended: impl Fn(u32) -> Result<bool, E>,
) -> Result<Guard<'_>, E> {
    let mut looks = 0_u32;
    while let Err(holder) = lock.try_acquire(rank) {
        looks = looks.wrapping_add(1);
        if looks < LOOKS {
            spin_hint();
            continue;
        }
        std::thread::yield_now();
        let is_dead = looks.is_multiple_of(YIELDS) && has_ended(holder)?;
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
