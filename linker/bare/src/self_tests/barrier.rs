//! The barrier, with each method.

use strait_core::shm::{Barrier, BarrierAlgorithm};
use strait_core::sync::AtomicU64;
use strait_core::sync::Ordering::Relaxed;

use crate::place::{Flaw, Party, RANKS, check};

const BARRIERS: u64 = 10_000;

/// Checks that a processor that has left a barrier sees what the other did before it.
pub(super) fn barrier(party: &Party) -> Result<(), Flaw> {
    for (slot, way) in [BarrierAlgorithm::Word, BarrierAlgorithm::Flags, BarrierAlgorithm::Signal]
        .into_iter()
        .enumerate()
    {
        meet(party, slot as u32, way)?;
    }
    Ok(())
}

fn meet(party: &Party, slot: u32, way: BarrierAlgorithm) -> Result<(), Flaw> {
    // SAFETY: the values are atomics, for which zeroed memory is valid.
    let numbers = unsafe { party.shared::<[[AtomicU64; RANKS as usize]; 2]>() };
    let slot = party.segment.barrier_slot(slot).expect("a segment has more slots than this");
    // SAFETY: the slot is in the segment and consists of atomics.
    let slot = unsafe { slot.as_ref() };
    let mut barrier = Barrier::new(way, party.rank, RANKS);
    for number in 0..BARRIERS {
        // The same numbers are written again two barriers later, so a processor that is still in
        // the first barrier is detected.
        let places = &numbers[number as usize % 2];
        places[party.rank as usize].store(party.say(number), Relaxed);
        let _ = barrier.enter(slot);
        party.wait(|| Ok(barrier.is_over(slot).then_some(())))?;
        let found = places[party.peer() as usize].load(Relaxed);
        check("number that was written before the barrier", found, number)?;
    }
    Ok(())
}
