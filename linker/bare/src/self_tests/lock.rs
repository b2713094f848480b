//! The lock that survives its holder.

use strait_core::lock::RevocableLock;
use strait_core::sync::Ordering::{Acquire, Relaxed, Release};
use strait_core::sync::{AtomicU64, CacheLine};

use crate::place::{Flaw, Party, RANKS, check};

const TIMES: u64 = 20_000;
/// The rank that dies while it holds the lock.
const DEAD: u32 = RANKS;

/// A sum under a lock, and the number of processors that have finished.
#[repr(C)]
struct LockedSum {
    lock: CacheLine<RevocableLock>,
    sum: CacheLine<AtomicU64>,
    done: CacheLine<AtomicU64>,
}

/// Both processors add, with a load and a store. After each addition of the first, a third rank
/// takes the lock and is dead; the next processor takes the lock over.
pub(super) fn lock(party: &Party) -> Result<(), Flaw> {
    // SAFETY: zeroed memory is a free lock and atomics.
    let LockedSum { lock, sum, done } = unsafe { party.shared::<LockedSum>() };
    for _ in 0..TIMES {
        party.wait(|| {
            let taken = match lock.try_acquire(party.rank) {
                Err(DEAD) => lock.take_over(DEAD, party.rank),
                taken => taken.is_ok(),
            };
            Ok(taken.then_some(()))
        })?;
        sum.store(sum.load(Relaxed) + party.say(1), Relaxed);
        lock.release(party.rank);
        if party.rank == 0 {
            // The attempt fails if the other processor was faster.
            let _ = lock.try_acquire(DEAD);
        }
    }
    done.fetch_add(1, Release);
    party.wait(|| Ok((done.load(Acquire) == u64::from(RANKS)).then_some(())))?;
    check("sum under the lock", sum.load(Relaxed), u64::from(RANKS) * TIMES)
}
