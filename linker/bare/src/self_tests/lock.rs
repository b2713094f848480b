//! The lock that outlives its holder.

use strait_core::lock::Lock;
use strait_core::sync::Ordering::{Acquire, Relaxed, Release};
use strait_core::sync::{AtomicU64, CacheLine};

use crate::place::{Flaw, Party, RANKS, check};

const TIMES: u64 = 20_000;
/// The rank that dies with the lock in its hand.
const DEAD: u32 = RANKS;

/// A sum under a lock, and the processors that have added all.
#[repr(C)]
struct Locked {
    lock: CacheLine<Lock>,
    sum: CacheLine<AtomicU64>,
    done: CacheLine<AtomicU64>,
}

/// Both processors add, by a load and a store. Behind the first a third rank takes the lock and is dead: whoever comes takes it
/// over.
pub(super) fn lock(party: &Party) -> Result<(), Flaw> {
    // SAFETY: zeros are a free lock and atomics.
    let Locked { lock, sum, done } = unsafe { party.shared::<Locked>() };
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
            // Fails when the other was faster.
            let _ = lock.try_acquire(DEAD);
        }
    }
    done.fetch_add(1, Release);
    party.wait(|| Ok((done.load(Acquire) == u64::from(RANKS)).then_some(())))?;
    check("sum under the lock", sum.load(Relaxed), u64::from(RANKS) * TIMES)
}
