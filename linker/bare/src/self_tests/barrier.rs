//! The barrier, in all its ways.

use strait_core::shm::{Barrier, Way};
use strait_core::sync::AtomicU64;
use strait_core::sync::Ordering::Relaxed;

use crate::place::{Flaw, Party, RANKS, check};

const BARRIERS: u64 = 10_000;

/// Who has left a barrier knows what the other did before it.
pub(super) fn barrier(party: &Party) -> Result<(), Flaw> {
    for (slot, way) in [Way::Word, Way::Flags, Way::Signal].into_iter().enumerate() {
        meet(party, slot as u32, way)?;
    }
    Ok(())
}

fn meet(party: &Party, slot: u32, way: Way) -> Result<(), Flaw> {
    // SAFETY: they are atomics.
    let numbers = unsafe { party.shared::<[[AtomicU64; RANKS as usize]; 2]>() };
    let slot = party.segment.barrier_slot(slot).expect("a segment has more slots than this");
    // SAFETY: it lies in the segment, and is made of atomics.
    let slot = unsafe { slot.as_ref() };
    let mut barrier = Barrier::new(way, party.rank, RANKS);
    for number in 0..BARRIERS {
        // Two barriers later the same places are written again, so that who is still in the first would be caught.
        let places = &numbers[number as usize % 2];
        places[party.rank as usize].store(party.say(number), Relaxed);
        let _ = barrier.enter(slot);
        party.wait(|| Ok(barrier.is_over(slot).then_some(())))?;
        let found = places[party.peer() as usize].load(Relaxed);
        check("number that was written before the barrier", found, number)?;
    }
    Ok(())
}
