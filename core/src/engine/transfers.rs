//! The large messages of this rank on its node, with the descriptors and the time that they share.

use super::descriptors::Descriptors;
use super::inbound::Inbound;
use super::message_buffers::OwnedBuffer;
use super::method_transfers::MethodTransfers;
use super::outbound::Outbound;
use crate::layout::Segment;
use crate::lmt::{CopyJob, Home};
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::wire::Corrupt;

/// The large messages under way, in both directions.
#[derive(Debug)]
pub(super) struct Transfers<M: Memory> {
    rank: u32,
    /// Messages that were announced or are about to be.
    senders: Slab<Outbound, M>,
    /// Messages that met their receives, and receives that have sent an RTR.
    receivers: Slab<Inbound, M>,
    /// Messages that the embedder's method moves.
    methods: MethodTransfers<M>,
    descriptors: Descriptors<M>,
    /// Whether the next job is searched for among the receivers first.
    reads_first: bool,
    /// The time that the embedder told last, in nanoseconds.
    now: u64,
    /// A peer to which a message cannot go on without the granules of the copy ring.
    ring_want: Option<u32>,
}

impl<M: Memory + Clone> Transfers<M> {
    pub(super) fn new(memory: &M, rank: u32) -> Result<Self, OutOfMemory> {
        Ok(Self {
            rank,
            senders: Slab::new(memory.clone()),
            receivers: Slab::new(memory.clone()),
            methods: MethodTransfers::new(memory.clone()),
            descriptors: Descriptors::new(memory.clone())?,
            reads_first: false,
            now: 0,
            ring_want: None,
        })
    }

    /// Asks for the granules of the copy ring to `peer`.
    pub(super) const fn want_ring(&mut self, peer: u32) {
        self.ring_want = Some(peer);
    }

    pub(super) const fn take_ring_want(&mut self) -> Option<u32> {
        self.ring_want.take()
    }

    /// Returns whether no large message is under way.
    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        // One branch for all three.
        self.senders.len() | self.receivers.len() | self.methods.len() == 0
    }

    pub(super) const fn methods(&self) -> &MethodTransfers<M> {
        &self.methods
    }

    pub(super) const fn methods_mut(&mut self) -> &mut MethodTransfers<M> {
        &mut self.methods
    }

    /// Returns whether this rank sends a large message.
    #[inline(always)]
    pub(super) const fn is_sending(&self) -> bool {
        !self.senders.is_empty()
    }

    pub(super) const fn len(&self) -> u32 {
        self.senders.len() + self.receivers.len() + self.methods.len()
    }

    #[inline(always)]
    pub(super) const fn tell_time(&mut self, nanoseconds: u64) {
        self.now = nanoseconds;
    }

    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// Takes a descriptor of this rank for a new use. Returns `None` if all are in use.
    pub(super) fn take_descriptor(&mut self) -> Option<Home> {
        let (place, generation) = self.descriptors.take()?;
        Some(Home { owner: self.rank, place, generation })
    }

    /// Ends a use of a descriptor, if it belongs to this rank.
    pub(super) fn put_back(&mut self, home: Home) {
        if home.owner == self.rank {
            self.descriptors.put_back(home.place);
        }
    }

    pub(super) const fn free_descriptors(&self) -> usize {
        self.descriptors.free()
    }

    pub(super) fn descriptors_in_use(&self) -> usize {
        self.descriptors.in_use()
    }

    /// Ensures that the next [`Transfers::add_sender`] does not fail.
    pub(super) fn reserve_sender(&mut self) -> Result<(), OutOfMemory> {
        self.senders.reserve()
    }

    pub(super) fn add_sender(&mut self, outbound: Outbound) -> Result<u32, OutOfMemory> {
        self.senders.insert(outbound)
    }

    pub(super) fn sender(&self, number: u32) -> Option<&Outbound> {
        self.senders.get(number)
    }

    pub(super) fn sender_mut(&mut self, number: u32) -> Option<&mut Outbound> {
        self.senders.get_mut(number)
    }

    /// Returns the first message on its way out with a number of at least `from`. A loop that
    /// changes messages uses it to continue.
    pub(super) fn next_sender(&self, from: u32) -> Option<u32> {
        self.senders.iter_from(from).next().map(|(number, _)| number)
    }

    /// Forgets a message on its way out, and ends the use of its descriptor.
    pub(super) fn remove_sender(&mut self, number: u32) -> Option<Outbound> {
        let outbound = self.senders.remove(number)?;
        self.put_back(outbound.half.home());
        Some(outbound)
    }

    /// Ensures that the next [`Transfers::add_receiver`] does not fail.
    pub(super) fn reserve_receiver(&mut self) -> Result<(), OutOfMemory> {
        self.receivers.reserve()
    }

    pub(super) fn add_receiver(&mut self, inbound: Inbound) -> Result<u32, OutOfMemory> {
        self.receivers.insert(inbound)
    }

    pub(super) fn receiver(&self, number: u32) -> Option<&Inbound> {
        self.receivers.get(number)
    }

    pub(super) fn receiver_mut(&mut self, number: u32) -> Option<&mut Inbound> {
        self.receivers.get_mut(number)
    }

    /// Returns the first message on its way in with a number of at least `from`.
    pub(super) fn next_receiver(&self, from: u32) -> Option<u32> {
        self.receivers.iter_from(from).next().map(|(number, _)| number)
    }

    /// Forgets a message on its way in, and ends the use of its descriptor.
    pub(super) fn remove_receiver(&mut self, number: u32) -> Option<Inbound> {
        let inbound = self.receivers.remove(number)?;
        self.put_back(inbound.half.home());
        Some(inbound)
    }

    /// Claims a piece of a message for this side to move. The two directions take turns, so that
    /// messages in one do not delay those in the other.
    pub(super) fn next_job(&mut self, segment: &Segment) -> Result<Option<CopyJob>, Corrupt> {
        self.reads_first = !self.reads_first;
        match self.claim(segment, self.reads_first)? {
            None => self.claim(segment, !self.reads_first),
            job => Ok(job),
        }
    }

    fn claim(&self, segment: &Segment, reads: bool) -> Result<Option<CopyJob>, Corrupt> {
        if reads {
            for (number, inbound) in self.receivers.iter() {
                let half = &inbound.half;
                let inside = || segment.rank_block(half.peer()).liveness.is_inside();
                if let Some(job) = half.claim(half.home().of(segment), number, inside)? {
                    return Ok(Some(job));
                }
            }
        } else {
            for (number, outbound) in self.senders.iter() {
                let half = &outbound.half;
                let inside = || segment.rank_block(half.peer()).liveness.is_inside();
                if let Some(job) = half.claim(half.home().of(segment), number, inside)? {
                    return Ok(Some(job));
                }
            }
        }
        Ok(None)
    }

    /// Takes every buffer of a large message out of the reach of its peer. Returns whether none is
    /// in use any more; call again after false. `is_gone` returns whether a rank can no longer
    /// touch any memory.
    pub(super) fn hush(&mut self, segment: &Segment, is_gone: impl Fn(u32) -> bool) -> bool {
        self.methods.end_all();
        let (mut quiet, mut from) = (true, 0);
        while let Some(number) = self.next_sender(from) {
            from = number + 1;
            let Some(outbound) = self.senders.get_mut(number) else { continue };
            let descriptor = outbound.half.home().of(segment);
            let out = outbound.half.withdraw(descriptor).unwrap_or(false);
            quiet &= out || is_gone(outbound.half.peer());
        }
        from = 0;
        while let Some(number) = self.next_receiver(from) {
            from = number + 1;
            let Some(inbound) = self.receivers.get_mut(number) else { continue };
            let (peer, descriptor) = (inbound.half.peer(), inbound.half.home().of(segment));
            quiet &= inbound.half.close(descriptor).unwrap_or(false) || is_gone(peer);
        }
        quiet
    }

    /// Returns the engine's copies of messages that users gave up, to be released.
    pub(super) fn buffers(&self) -> impl Iterator<Item = OwnedBuffer> {
        self.senders.iter().filter_map(|(_, outbound)| outbound.owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{nothing, with_segment};
    use crate::lmt::{LmtReceiver, WireAddress};
    use crate::memory::counted::Counted;
    use crate::wire::Key;

    /// A receive from `peer` that asks for its message by the descriptor `home`.
    fn asking(segment: &Segment, peer: u32, home: Home) -> Inbound {
        let half = LmtReceiver::ask(peer, home, nothing(), WireAddress::Nowhere, home.of(segment));
        Inbound { half, request: None, key: Key::new(0, 7), total: 0, stores: None, capacity: 0 }
    }

    #[test]
    fn a_message_that_is_forgotten_gives_its_descriptor_back() {
        with_segment(2, |segment| {
            let mut transfers = Transfers::new(&Counted::default(), 0).unwrap();
            let free = transfers.free_descriptors();
            let home = transfers.take_descriptor().unwrap();
            assert_eq!((home.owner, transfers.descriptors_in_use()), (0, 1));
            let number = transfers.add_receiver(asking(segment, 1, home)).unwrap();
            assert!(!transfers.is_empty() && !transfers.is_sending());
            assert_eq!((transfers.next_receiver(0), transfers.len()), (Some(number), 1));
            assert!(transfers.remove_receiver(number).is_some());
            assert!(transfers.remove_receiver(number).is_none());
            assert_eq!(transfers.free_descriptors(), free);
        });
    }

    #[test]
    fn a_descriptor_of_the_peer_is_not_given_back_here() {
        with_segment(2, |segment| {
            let mut transfers = Transfers::new(&Counted::default(), 0).unwrap();
            let home = Home { owner: 1, place: 0, generation: 1 };
            let number = transfers.add_receiver(asking(segment, 1, home)).unwrap();
            let free = transfers.free_descriptors();
            assert!(transfers.remove_receiver(number).is_some());
            assert_eq!(transfers.free_descriptors(), free);
        });
    }

    #[test]
    fn nothing_is_moved_for_a_message_that_has_not_begun() {
        with_segment(2, |segment| {
            let mut transfers = Transfers::new(&Counted::default(), 0).unwrap();
            let home = transfers.take_descriptor().unwrap();
            transfers.add_receiver(asking(segment, 1, home)).unwrap();
            assert!(matches!(transfers.next_job(segment), Ok(None)));
            assert!(transfers.hush(segment, |_| true));
            transfers.tell_time(5);
            assert_eq!(transfers.now(), 5);
        });
    }
}
