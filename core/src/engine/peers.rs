//! The state about all peers: a table with a place for each rank, and a [`Peer`] for each rank with
//! which this one has had contact.
//!
//! A rank of a large job talks to few of the others. Its memory grows with those: the place of a
//! rank takes 8 bytes, and a [`Peer`] is made at the first contact ([`Peers::contact`]): the first
//! send, receive or packet. Until then the place leads to the *silent* peer, which stands for all
//! ranks without contact. Its short paths are shut and empty, and it counts as gone, so that the
//! short calls decline it without a further branch.

use core::alloc::Layout;
use core::ops::{Index, IndexMut};
use core::ptr::NonNull;

use super::peer::Peer;
use crate::layout::Segment;
use crate::memory::{Memory, OutOfMemory, Table};

/// The peers of a rank, itself included.
#[derive(Debug)]
pub(super) struct Peers<M: Memory> {
    /// The state about each rank: a value that this table owns, or `silent`.
    places: Table<NonNull<Peer>, M>,
    /// Stands for the ranks without contact. No place but theirs leads to it.
    silent: NonNull<Peer>,
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
        let silent = boxed(&memory, Peer::silent(segment, rank))?;
        match Table::new(memory.clone(), ranks, |_| silent) {
            Ok(places) => Ok(Self { places, silent, memory }),
            Err(error) => {
                // SAFETY: `boxed` returned the peer, and no table has it.
                unsafe { unbox(&memory, silent) };
                Err(error)
            }
        }
    }

    /// Makes room for `ranks` peers.
    pub(super) fn extend(&mut self, ranks: usize) -> Result<(), OutOfMemory> {
        let silent = self.silent;
        self.places.extend(ranks, |_| silent)
    }

    /// Returns the state about `peer`, which is in the table, for any use. Makes it if this is the
    /// first contact of `rank`, the owner of the table.
    #[inline]
    pub(super) fn contact(
        &mut self,
        segment: &Segment,
        rank: u32,
        peer: u32,
    ) -> Result<&mut Peer, OutOfMemory> {
        if self.places[peer as usize] == self.silent {
            self.make(segment, rank, peer)?;
        }
        Ok(&mut self[peer as usize])
    }

    #[cold]
    fn make(&mut self, segment: &Segment, rank: u32, peer: u32) -> Result<(), OutOfMemory> {
        let state = match peer < segment.ranks() {
            true => Peer::new(segment, rank, peer),
            false => Peer::beyond(segment, rank),
        };
        self.places[peer as usize] = boxed(&self.memory, state)?;
        Ok(())
    }
}

impl<M: Memory> Peers<M> {
    /// Returns the number of places.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there is no place: the engine of this rank is elsewhere.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the state about `peer`, if it has a place: that of the silent peer before contact.
    #[inline(always)]
    pub(super) fn get(&self, peer: usize) -> Option<&Peer> {
        // SAFETY: every place leads to a live peer of this table, and `&self` excludes changes.
        self.places.get(peer).map(|place| unsafe { place.as_ref() })
    }

    /// Returns the state about `peer` for a short call, which changes nothing of the silent peer:
    /// its paths are shut and empty.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, peer: usize) -> Option<&mut Peer> {
        let place = self.places.get(peer)?;
        // SAFETY: every place leads to a live peer of this table, and `&mut self` makes the access
        // exclusive, although several places may lead to the silent peer.
        Some(unsafe { &mut *place.as_ptr() })
    }

    /// Returns the state about `peer`, if there has been contact.
    #[inline]
    pub(super) fn known(&self, peer: usize) -> Option<&Peer> {
        let is_known = self.places.get(peer).is_some_and(|place| *place != self.silent);
        if is_known { self.get(peer) } else { None }
    }

    /// Returns the state about `peer` for changes, if there has been contact.
    #[inline]
    pub(super) fn known_mut(&mut self, peer: usize) -> Option<&mut Peer> {
        let is_known = self.places.get(peer).is_some_and(|place| *place != self.silent);
        if is_known { self.get_mut(peer) } else { None }
    }

    /// Returns the ranks with which there has been contact, and the state about each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Peer)> {
        let known = |(rank, _): (u32, &NonNull<Peer>)| Some((rank, self.known(rank as usize)?));
        (0..).zip(self.places.iter()).filter_map(known)
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

/// For peers with which there has been contact.
impl<M: Memory> IndexMut<usize> for Peers<M> {
    #[inline(always)]
    fn index_mut(&mut self, peer: usize) -> &mut Peer {
        debug_assert!(self.places[peer] != self.silent, "no contact with rank {peer} yet");
        // SAFETY: every place leads to a live peer of this table, and `&mut self` makes the access
        // exclusive.
        unsafe { &mut *self.places[peer].as_ptr() }
    }
}

impl<M: Memory> Drop for Peers<M> {
    fn drop(&mut self) {
        for place in self.places.iter().filter(|place| **place != self.silent) {
            // SAFETY: `boxed` returned the peer, only this place leads to it, and nothing uses the
            // place afterwards.
            unsafe { unbox(&self.memory, *place) };
        }
        // SAFETY: `boxed` returned the peer, and nothing uses the places any more.
        unsafe { unbox(&self.memory, self.silent) };
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
/// `peer` came from [`boxed`] with the same `memory`, and nothing uses it afterwards.
unsafe fn unbox<M: Memory>(memory: &M, peer: NonNull<Peer>) {
    // SAFETY: the caller guarantees that the peer is live, and that the memory came from `allocate`
    // with this layout (contract of `unbox`).
    unsafe {
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
                peers.contact(segment, 1, 3).unwrap().end();
                memory.refuse(true);
                assert!(peers.contact(segment, 1, 3).unwrap().has_ended());
                let bytes = size_of::<Peer>();
                assert_eq!(peers.contact(segment, 1, 0).err(), Some(OutOfMemory { bytes }));
                memory.refuse(false);
                assert!(peers.known(0).is_none());
                assert!(!peers.contact(segment, 1, 0).unwrap().has_ended());
                let known: std::vec::Vec<u32> = peers.iter().map(|(rank, _)| rank).collect();
                assert_eq!(known, [0, 3]);
            });
        });
    }

    #[test]
    fn short_calls_decline_a_peer_without_contact() {
        with_segment(2, |segment| {
            let mut peers = Peers::new(Counted::default(), segment, 0, 2).unwrap();
            let silent = peers.get_mut(1).unwrap();
            assert!(silent.gone().is_some() && !silent.is_remote() && !silent.has_ended());
            assert!(!silent.paths.is_open() && silent.paths.find_next().is_none());
            assert_eq!(peers.contact(segment, 0, 1).unwrap().gone(), None);
        });
    }

    #[test]
    fn a_rank_beyond_the_segment_is_out_of_reach_after_contact() {
        with_segment(1, |segment| {
            let mut peers = Peers::new(Counted::default(), segment, 0, 1).unwrap();
            peers.extend(8).unwrap();
            assert!(peers.contact(segment, 0, 7).unwrap().gone().is_some());
            assert_eq!((peers.len(), peers.iter().count()), (8, 1));
        });
    }
}
