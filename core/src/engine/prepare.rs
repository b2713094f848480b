//! What the first large message to a peer would wait for, done before it.

use super::Engine;
use super::peer::StandIn;
use crate::lmt::Transfer;
use crate::memory::{Memory, OutOfMemory};

impl<M: Memory + Clone> Engine<M> {
    /// Makes the places in tables that the first large messages between this rank and `peer` take,
    /// and touches their descriptors. Returns whether the heads of the copy ring to the peer want
    /// memory then. If the kernel lets this rank reach the peer's memory, back them, report it with
    /// [`Engine::ring_backed`], and call [`Engine::defer_granules`]. Nothing depends on this call,
    /// nor on its answer.
    ///
    /// It does nothing for a peer on another node, for one that has gone, and where no message goes
    /// by one copy.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the first messages make what is missing.
    pub fn prepare_large(&mut self, peer: u32) -> Result<bool, OutOfMemory> {
        let is_by_ring = self.segment.plan().ring_bytes() > 0;
        let may_copy = is_by_ring && self.tuning.transfer == Transfer::Auto;
        let known = self.peers.get(peer as usize);
        let is_near = known.is_some_and(|known| known.stands_in().is_none_or(StandIn::is_on_node));
        if peer == self.rank || !may_copy || !is_near || self.gone(peer).is_some() {
            return Ok(false);
        }
        self.contact(peer)?;
        let large = &mut self.peers[peer as usize].large;
        if !large.is_ring_unopened() {
            return Ok(false);
        }
        large.make_choice(self.buffers.memory())?;
        self.transfers.reserve_sender()?;
        self.transfers.reserve_receiver()?;
        for owner in [self.rank, peer] {
            self.segment.descriptor(owner, 0).touch();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::with_segment;
    use crate::engine::{Gone, Tuning};
    use crate::layout::{RingPart, Segment};
    use crate::memory::counted::Counted;

    fn engine(segment: &Segment, memory: &Counted, tuning: Tuning) -> Engine<Counted> {
        Engine::new(memory.clone(), *segment, 0, tuning).unwrap()
    }

    #[test]
    fn a_prepared_peer_asks_for_no_memory_when_its_first_large_message_comes() {
        with_segment(2, |segment| {
            let memory = Counted::default();
            let mut engine = engine(segment, &memory, Tuning::default());
            assert_eq!(engine.prepare_large(1), Ok(true));
            let asked = memory.asked();
            memory.refuse(true);
            engine.transfers.reserve_sender().unwrap();
            engine.transfers.reserve_receiver().unwrap();
            assert!(engine.peers[1].large.choose(&memory, 1 << 17).1.is_some());
            assert_eq!(engine.prepare_large(1), Ok(true), "nothing was backed yet");
            assert_eq!(memory.asked(), asked);
        });
    }

    #[test]
    fn what_a_pair_has_earned_is_not_forgotten_by_a_second_call() {
        with_segment(2, |segment| {
            let memory = Counted::default();
            let mut engine = engine(segment, &memory, Tuning::default());
            for part in RingPart::ALL {
                assert_eq!(engine.prepare_large(1), Ok(part == RingPart::Heads));
                engine.ring_backed(1, part, true);
            }
            assert_eq!(engine.prepare_large(1), Ok(false));
        });
    }

    #[test]
    fn a_peer_without_a_copy_of_the_kernel_is_left_alone() {
        with_segment(5, |segment| {
            let memory = Counted::default();
            let ring = Tuning { transfer: Transfer::CopyRing, ..Tuning::default() };
            assert_eq!(engine(segment, &memory, ring).prepare_large(1), Ok(false));
            let mut engine = engine(segment, &memory, Tuning::default());
            engine.set_unreachable(1).unwrap();
            engine.set_remote(2).unwrap();
            assert_eq!(engine.peer_gone(3, Gone::Finished), Ok(true));
            assert_eq!([0, 1, 2, 3, 5].map(|rank| engine.prepare_large(rank)), [Ok(false); 5]);
            assert_eq!(engine.contacts(), 1, "the call makes no contact, the end of 3 did");
        });
    }

    #[test]
    fn without_memory_it_fails_and_can_be_done_later() {
        with_segment(2, |segment| {
            let memory = Counted::default();
            let mut engine = engine(segment, &memory, Tuning::default());
            memory.refuse(true);
            assert!(engine.prepare_large(1).is_err());
            memory.refuse(false);
            assert_eq!(engine.prepare_large(1), Ok(true));
        });
    }
}
