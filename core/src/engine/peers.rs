//! The state about all peers: a table with a place for each rank, and a [`Peer`] for each rank with
//! which this one has had contact.
//!
//! A rank of a large job talks to few of the others. Its memory grows with those: the place of a
//! rank takes 8 bytes, and a [`Peer`] is made at the first contact ([`super::Engine::contact`]),
//! which is the first send, receive, packet or link. Until then the place leads to a *stand-in*,
//! one for all ranks of which the same is known ([`StandIn`]). Its short paths are shut and empty,
//! and it counts as gone, so that the short calls decline it without a further branch.

use core::alloc::Layout;
use core::ops::{Index, IndexMut};
use core::ptr::NonNull;

use super::peer::{Peer, StandIn};
use crate::layout::Segment;
use crate::memory::{Memory, OutOfMemory, Table};

/// The peers of a rank, itself included.
#[derive(Debug)]
pub(super) struct Peers<M: Memory> {
    /// The state about each rank: a value that this table owns, or a stand-in.
    places: Table<NonNull<Peer>, M>,
    /// The stand-ins, by [`StandIn`]. All but the first are made at their first use.
    stand_ins: [Option<NonNull<Peer>>; StandIn::COUNT],
    /// Number of ranks with which there has been contact.
    known: usize,
    memory: M,
}

// SAFETY: the table owns the peers to which its places lead, as a vector of boxes does. Access is
// by its methods, under the borrow of the table.
unsafe impl<M: Memory + Send> Send for Peers<M> {}

impl<M: Memory + Clone> Peers<M> {
    /// Returns the table of a rank with `ranks` peers, itself included, and contact with none.
    pub(super) fn new(
        memory: M,
        segment: &Segment,
        rank: u32,
        ranks: usize,
    ) -> Result<Self, OutOfMemory> {
        let silent = boxed(&memory, Peer::standing_in(StandIn::OnNode, segment, rank))?;
        match Table::new(memory.clone(), ranks, |_| silent) {
            Ok(places) => {
                let mut stand_ins = [None; StandIn::COUNT];
                stand_ins[StandIn::OnNode as usize] = Some(silent);
                Ok(Self { places, stand_ins, known: 0, memory })
            }
            Err(error) => {
                // SAFETY: `boxed` returned the peer, and no table has it.
                unsafe { unbox(&memory, silent) };
                Err(error)
            }
        }
    }

    /// Makes room for `ranks` peers.
    pub(super) fn extend(
        &mut self,
        segment: &Segment,
        rank: u32,
        ranks: usize,
    ) -> Result<(), OutOfMemory> {
        let silent = self.stand_in(StandIn::OnNode, segment, rank)?;
        self.places.extend(ranks, |_| silent)
    }

    /// Notes what is known of `peer`, with which there has been no contact. `rank` is the owner of
    /// the table.
    pub(super) fn note(
        &mut self,
        segment: &Segment,
        rank: u32,
        (peer, known): (u32, StandIn),
    ) -> Result<(), OutOfMemory> {
        debug_assert!(self.known(peer as usize).is_none(), "there is state about rank {peer}");
        self.places[peer as usize] = self.stand_in(known, segment, rank)?;
        Ok(())
    }

    /// Puts `state` in the place of `peer`, which has a stand-in.
    pub(super) fn make(&mut self, peer: u32, state: Peer) -> Result<&mut Peer, OutOfMemory> {
        debug_assert!(self.known(peer as usize).is_none(), "there is state about rank {peer}");
        self.places[peer as usize] = boxed(&self.memory, state)?;
        self.known += 1;
        Ok(&mut self[peer as usize])
    }

    fn stand_in(
        &mut self,
        known: StandIn,
        segment: &Segment,
        rank: u32,
    ) -> Result<NonNull<Peer>, OutOfMemory> {
        let place = &mut self.stand_ins[known as usize];
        if let Some(place) = *place {
            return Ok(place);
        }
        let made = boxed(&self.memory, Peer::standing_in(known, segment, rank))?;
        *place = Some(made);
        Ok(made)
    }
}

impl<M: Memory> Peers<M> {
    /// Returns the number of places.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of ranks with which there has been contact.
    pub(super) const fn known_count(&self) -> usize {
        self.known
    }

    /// Returns whether there is no place: the engine of this rank is elsewhere.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the state about `peer`, if it has a place: that of a stand-in before contact.
    #[inline(always)]
    pub(super) fn get(&self, peer: usize) -> Option<&Peer> {
        // SAFETY: every place leads to a live peer of this table, and `&self` excludes changes.
        self.places.get(peer).map(|place| unsafe { place.as_ref() })
    }

    /// Returns the state about `peer` for a short call, which changes nothing of a stand-in: its
    /// paths are shut and empty.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, peer: usize) -> Option<&mut Peer> {
        let place = self.places.get(peer)?;
        // SAFETY: every place leads to a live peer of this table, and `&mut self` makes the access
        // exclusive, although several places may lead to one stand-in.
        Some(unsafe { &mut *place.as_ptr() })
    }

    /// Returns the state about `peer`, if there has been contact.
    #[inline]
    pub(super) fn known(&self, peer: usize) -> Option<&Peer> {
        self.get(peer).filter(|peer| peer.stands_in().is_none())
    }

    /// Returns the state about `peer` for changes, if there has been contact.
    #[inline]
    pub(super) fn known_mut(&mut self, peer: usize) -> Option<&mut Peer> {
        self.get_mut(peer).filter(|peer| peer.stands_in().is_none())
    }

    /// Returns the ranks with which there has been contact, and the state about each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Peer)> {
        let ranks = 0..self.places.len() as u32;
        ranks.filter_map(|rank| Some((rank, self.known(rank as usize)?)))
    }
}

impl<M: Memory> Index<usize> for Peers<M> {
    type Output = Peer;

    #[inline(always)]
    fn index(&self, peer: usize) -> &Peer {
        // SAFETY: every place leads to a live peer of this table, and `&self` excludes changes.
        unsafe { self.places[peer].as_ref() }
    }
}

impl<M: Memory> Peers<M> {
    /// Returns the state about a rank. Unlike an index, it leaves one place in the code for the
    /// message of a panic.
    #[inline]
    pub(super) fn of(&self, rank: u32) -> &Peer {
        &self[rank as usize]
    }

    /// Returns the state about a rank with which there has been contact.
    #[inline]
    pub(super) fn of_mut(&mut self, rank: u32) -> &mut Peer {
        &mut self[rank as usize]
    }
}

/// For peers with which there has been contact.
impl<M: Memory> IndexMut<usize> for Peers<M> {
    #[inline(always)]
    fn index_mut(&mut self, peer: usize) -> &mut Peer {
        // SAFETY: every place leads to a live peer of this table, and `&mut self` makes the access
        // exclusive.
        let state = unsafe { &mut *self.places[peer].as_ptr() };
        debug_assert!(state.stands_in().is_none(), "no contact with rank {peer} yet");
        state
    }
}

impl<M: Memory> Drop for Peers<M> {
    fn drop(&mut self) {
        for rank in 0..self.places.len() {
            if self.known(rank).is_some() {
                // SAFETY: `boxed` returned the peer, only this place leads to it, and nothing uses
                // the place afterwards.
                unsafe { unbox(&self.memory, self.places[rank]) };
            }
        }
        for stand_in in self.stand_ins.into_iter().flatten() {
            // SAFETY: `boxed` returned the peer, and nothing uses the places any more.
            unsafe { unbox(&self.memory, stand_in) };
        }
    }
}

/// Moves `peer` to memory of its own.
fn boxed<M: Memory>(memory: &M, peer: Peer) -> Result<NonNull<Peer>, OutOfMemory> {
    let layout = Layout::new::<Peer>();
    let bytes = layout.size();
    let place = memory.allocate(layout).ok_or(OutOfMemory { bytes })?.cast::<Peer>();
    // SAFETY: `allocate` returned exclusive memory for a `Peer`, aligned for it.
    unsafe { place.write(peer) };
    Ok(place)
}

/// Drops a peer and releases its memory.
///
/// # Safety
///
/// `peer` came from [`boxed`] with the same `memory`, its parts used no other, and nothing uses it
/// afterwards.
unsafe fn unbox<M: Memory>(memory: &M, peer: NonNull<Peer>) {
    // SAFETY: the caller guarantees that the peer is live, and that its memory and that of its
    // parts came from `memory`, with this layout (contract of `unbox`).
    unsafe {
        (*peer.as_ptr()).large.release(memory);
        peer.drop_in_place();
        memory.release(peer.cast(), Layout::new::<Peer>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::with_segment;
    use crate::memory::counted::Counted;

    #[test]
    fn memory_grows_with_the_peers_of_contact() {
        with_segment(4, |segment| {
            Counted::lend(|memory| {
                let mut peers = Peers::new(memory.clone(), segment, 1, 4).unwrap();
                assert!(peers.get(3).is_some() && peers.known(3).is_none());
                assert!(peers.get(4).is_none() && peers.known_mut(3).is_none());
                peers.make(3, Peer::new(segment, 1, 3)).unwrap().end();
                memory.refuse(true);
                assert!(peers.known(3).unwrap().has_ended());
                let (bytes, state) = (size_of::<Peer>(), || Peer::new(segment, 1, 0));
                assert_eq!(peers.make(0, state()).err(), Some(OutOfMemory { bytes }));
                let remote = (2, StandIn::Remote);
                assert_eq!(peers.note(segment, 1, remote), Err(OutOfMemory { bytes }));
                memory.refuse(false);
                assert!(peers.known(0).is_none() && !peers[2].is_remote());
                assert!(!peers.make(0, state()).unwrap().has_ended());
                let known: std::vec::Vec<u32> = peers.iter().map(|(rank, _)| rank).collect();
                assert_eq!((known.as_slice(), peers.known_count()), (&[0, 3][..], 2));
            });
        });
    }

    #[test]
    fn short_calls_decline_every_stand_in() {
        with_segment(2, |segment| {
            let mut peers = Peers::new(Counted::default(), segment, 0, 2).unwrap();
            for known in StandIn::ALL {
                peers.note(segment, 0, (1, known)).unwrap();
                let silent = peers.get_mut(1).unwrap();
                assert_eq!(silent.stands_in(), Some(known));
                assert!(silent.gone().is_some() && !silent.has_ended());
                assert!(!silent.paths.is_open() && silent.paths.find_next().is_none());
                assert!(peers.known(1).is_none() && peers.iter().next().is_none());
            }
        });
    }

    #[test]
    fn ranks_of_which_the_same_is_known_share_memory() {
        with_segment(1, |segment| {
            let memory = Counted::default();
            let mut peers = Peers::new(memory.clone(), segment, 0, 1).unwrap();
            peers.extend(segment, 0, 1000).unwrap();
            let asked = memory.asked();
            for rank in 1..1000 {
                peers.note(segment, 0, (rank, StandIn::Remote)).unwrap();
            }
            assert_eq!((memory.asked(), peers.len()), (asked + 1, 1000));
            assert!(peers[999].is_remote() && !peers[0].is_remote());
        });
    }
}
