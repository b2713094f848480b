//! The sends to ranks of the node that are not placed yet, and what the embedder has to do for
//! them.

use super::cells::CellPool;
use super::peer::Peer;
use super::rank_list::RankList;
use super::requests::Requests;
use crate::layout::Segment;
use crate::memory::{Memory, OutOfMemory};
use crate::shm::recovery::Producers;
use crate::wire::{CellIndex, Corrupt};

/// The cells of this rank, the destinations with sends that wait, and the requests to the embedder.
#[derive(Debug)]
pub(super) struct Outbox<M: Memory> {
    cells: CellPool<M>,
    /// Peers with sends that wait for cells, for a pull request or for an answer.
    blocked: RankList<M>,
    /// Peers to which a fastbox is wanted.
    wanted: RankList<M>,
    /// Peers that sleep and have something to look at.
    bells: RankList<M>,
}

impl<M: Memory + Clone> Outbox<M> {
    pub(super) fn new(memory: &M, segment: &Segment, rank: u32) -> Result<Self, OutOfMemory> {
        let list = || RankList::new(memory.clone());
        Ok(Self {
            cells: CellPool::new(memory.clone(), segment, rank)?,
            blocked: list(),
            wanted: list(),
            bells: list(),
        })
    }

    /// Makes room for `peers` peers.
    pub(super) fn make_room(&mut self, peers: usize) -> Result<(), OutOfMemory> {
        for list in [&mut self.blocked, &mut self.wanted, &mut self.bells] {
            list.make_room(peers)?;
        }
        Ok(())
    }

    /// Adds a send at the end of the line to `destination`.
    pub(super) fn line_up(
        &mut self,
        requests: &mut Requests<M>,
        (destination, peer): (u32, &mut Peer),
        id: u32,
    ) {
        // Later messages must not overtake this one through the fastbox.
        peer.paths.shut();
        requests.line_up(&mut peer.waiting, id);
        if !peer.is_remote() {
            self.blocked.insert(destination);
        }
    }

    /// Removes the oldest send from the line to `destination`, and returns it.
    pub(super) fn leave_line(
        &mut self,
        requests: &mut Requests<M>,
        (destination, peer): (u32, &mut Peer),
    ) -> Option<u32> {
        let first = requests.leave_line(&mut peer.waiting)?;
        if peer.owes_nothing() {
            self.blocked.remove(destination);
        }
        Some(first)
    }

    /// Has progress look for what `destination` tells about sends.
    pub(super) fn watch(&mut self, destination: u32) {
        self.blocked.insert(destination);
    }

    /// Returns whether no send to a rank of the node waits.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.blocked.is_empty()
    }

    /// Returns the destination at `place` among those with sends that wait. Another one takes the
    /// place of a destination that leaves.
    pub(super) fn blocked_at(&self, place: usize) -> Option<u32> {
        (place < self.blocked.len()).then(|| self.blocked.get(place))
    }

    /// Forgets a peer that is gone: no send to it waits any more.
    pub(super) fn unblock(&mut self, rank: u32) {
        self.blocked.remove(rank);
    }

    /// Asks the embedder for the memory of the fastbox to `peer`.
    pub(super) fn want_fastbox(&mut self, peer: u32) {
        self.wanted.insert(peer);
    }

    /// Takes the next request for memory of a fastbox.
    #[inline]
    pub(super) fn next_want(&mut self) -> Option<u32> {
        self.wanted.pop()
    }

    /// Takes the request for the fastbox to `peer` back.
    pub(super) fn unwant_fastbox(&mut self, peer: u32) {
        self.wanted.remove(peer);
    }

    /// Asks the embedder to wake `rank`.
    #[inline]
    pub(super) fn ring(&mut self, rank: u32) {
        self.bells.insert(rank);
    }

    /// Returns whether a rank is to be woken.
    #[inline(always)]
    pub(super) fn has_bells(&self) -> bool {
        !self.bells.is_empty()
    }

    /// Takes the next rank to wake.
    #[inline]
    pub(super) fn next_bell(&mut self) -> Option<u32> {
        self.bells.pop()
    }

    /// Takes a free cell for `destination`. Returns `None` if no cell is free.
    #[inline]
    pub(super) fn take_cell(
        &mut self,
        segment: &Segment,
        destination: u32,
    ) -> Result<Option<CellIndex>, Corrupt> {
        self.cells.take(segment, destination)
    }

    /// Returns whether receivers have given cells back since the last look.
    pub(super) fn cells_came_back(&mut self, segment: &Segment) -> Result<bool, Corrupt> {
        self.cells.came_back(segment)
    }

    /// Returns a cell that was taken and not sent.
    pub(super) fn put_back(&mut self, cell: CellIndex) {
        self.cells.put_back(cell);
    }

    /// Returns whether a message of many packets may have one more cell with `destination`. It
    /// leaves cells for other messages, so that a receiver that does not poll cannot starve the
    /// rest.
    pub(super) fn has_fair_share(
        &mut self,
        segment: &Segment,
        destination: u32,
    ) -> Result<bool, Corrupt> {
        let fair = (segment.plan().config().cells_per_rank as usize / 4).max(2);
        self.cells.collect(segment)?;
        Ok(self.cells.out_with(destination) < fair)
    }

    /// Takes back the cells that are with a dead rank; `producers` describe its senders. Returns
    /// false if a living rank may still write the link of one of these cells; call again.
    pub(super) fn reclaim(
        &mut self,
        segment: &Segment,
        dead: u32,
        producers: &impl Producers,
    ) -> Result<bool, Corrupt> {
        self.cells.reclaim(segment, dead, producers)
    }

    /// Returns the number of cells that are with any rank.
    pub(super) fn cells_out(&mut self, segment: &Segment) -> Result<usize, Corrupt> {
        self.cells.collect(segment)?;
        Ok(self.cells.out())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Owner;
    use crate::engine::request::RequestState;
    use crate::engine::testing::{sending, with_segment};
    use crate::memory::counted::Counted;

    #[test]
    fn a_destination_is_blocked_while_a_send_to_it_waits_or_was_offered() {
        with_segment(3, |segment| {
            let memory = Counted::default();
            let mut outbox = Outbox::new(&memory, segment, 0).unwrap();
            outbox.make_room(3).unwrap();
            let (mut requests, mut peer) = (Requests::new(memory), Peer::new(segment, 0, 2));
            peer.open();
            let ids = [0, 1].map(|tag| requests.insert(Owner(1), sending(tag)).unwrap());
            for id in ids {
                outbox.line_up(&mut requests, (2, &mut peer), id);
            }
            assert!(!peer.paths.is_open(), "a short message would overtake those that wait");
            assert_eq!((outbox.blocked_at(0), outbox.blocked_at(1)), (Some(2), None));
            assert_eq!(outbox.leave_line(&mut requests, (2, &mut peer)), Some(ids[0]));
            peer.offers.sent(1);
            assert_eq!(outbox.leave_line(&mut requests, (2, &mut peer)), Some(ids[1]));
            assert!(!outbox.is_empty());
            outbox.line_up(&mut requests, (2, &mut peer), ids[1]);
            peer.offers.answered();
            assert_eq!(outbox.leave_line(&mut requests, (2, &mut peer)), Some(ids[1]));
            assert!(outbox.is_empty());
            assert!(matches!(requests.get(ids[1]), Some(RequestState::Sending { .. })));
        });
    }

    #[test]
    fn a_send_to_another_node_blocks_no_rank_of_this_one() {
        with_segment(2, |segment| {
            let memory = Counted::default();
            let mut outbox = Outbox::new(&memory, segment, 0).unwrap();
            outbox.make_room(2).unwrap();
            let (mut requests, mut peer) = (Requests::new(memory), Peer::new(segment, 0, 1));
            peer.set_remote(0);
            let id = requests.insert(Owner(1), sending(0)).unwrap();
            outbox.line_up(&mut requests, (1, &mut peer), id);
            assert!(outbox.is_empty() && peer.waiting.first() == Some(id));
        });
    }

    #[test]
    fn the_embedder_is_asked_once() {
        with_segment(3, |segment| {
            let mut outbox = Outbox::new(&Counted::default(), segment, 0).unwrap();
            outbox.make_room(3).unwrap();
            for rank in [2, 1, 2] {
                outbox.want_fastbox(rank);
                outbox.ring(rank);
            }
            outbox.unwant_fastbox(2);
            assert_eq!([outbox.next_want(), outbox.next_want()], [Some(1), None]);
            assert_eq!([(); 3].map(|()| outbox.next_bell()), [Some(1), Some(2), None]);
        });
    }

    #[test]
    fn one_destination_gets_its_share_of_the_cells() {
        with_segment(2, |segment| {
            let mut outbox = Outbox::new(&Counted::default(), segment, 0).unwrap();
            let cells = segment.plan().config().cells_per_rank as usize;
            let mut last = None;
            while outbox.has_fair_share(segment, 1) == Ok(true) {
                last = outbox.take_cell(segment, 1).unwrap();
            }
            assert_eq!(outbox.cells_out(segment), Ok(cells / 4));
            outbox.put_back(last.unwrap());
            assert_eq!(outbox.cells_out(segment), Ok(cells / 4 - 1));
        });
    }
}
