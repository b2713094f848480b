//! The end of operations with a peer that is gone.

use super::message::{MatchState, UnexpectedData};
use super::peer::StandIn;
use super::peers::Peers;
use super::reassembly::ArrivalTarget;
use super::{Engine, Fault, Gone, ProgressError};

use crate::layout::{EventKind, Segment};
use crate::memory::{Memory, OutOfMemory};
use crate::shm::recovery::{self, Producers, Repair};
use crate::shm::{Cell, RecvQueue};
use crate::wire::{CellIndex, Key};

impl<M: Memory + Clone> Engine<M> {
    /// Reports that `rank` sends and receives no more: its process has ended, or it has left.
    /// Returns whether its operations have ended.
    ///
    /// First, everything that the rank had handed over is delivered. Then each operation that needs
    /// the rank ends with its fault: sends to it, receives posted for it alone, a message that was
    /// arriving. A receive from any source stays, since another rank may match it. Later operations
    /// with the rank fail to start; other peers are not affected. A repeated call changes nothing.
    ///
    /// False has two causes, and nothing was decided in either case:
    ///
    /// - Another rank is in the middle of handing a packet over, to this rank or to the gone one.
    ///   Packets of the gone rank may be behind it, or a cell of this rank before it.
    /// - The rank is on another node, and [`Engine::poll_network`] has yet to read its stream to
    ///   the end. The stream may state the cause of the end more exactly.
    ///
    /// Call again after false, and for the other rank too if it is gone as well.
    ///
    /// # Errors
    ///
    /// [`ProgressError`] from the delivery of what was left; call again.
    pub fn peer_gone(&mut self, rank: u32, how: Gone) -> Result<bool, ProgressError> {
        match self.peers[rank as usize].stands_in() {
            Some(StandIn::Finished | StandIn::Unreachable) => return Ok(true),
            Some(StandIn::Leaving) => return Ok(false),
            // In a large job most ranks that leave had no contact with this one.
            Some(StandIn::Remote) if how == Gone::Finished => return self.leaves_unmet(rank),
            Some(StandIn::Remote | StandIn::OnNode) | None => {}
        }
        let peer = self.contact(rank)?;
        if peer.gone().is_some() {
            return Ok(true);
        }
        if peer.is_remote() {
            self.end_remote(rank, how);
            return Ok(false);
        }
        self.peers[rank as usize].end();
        self.note(EventKind::PeerGone, rank, Key::new(0, 0), 0);
        if !self.drain(rank)? {
            return Ok(false);
        }
        // This comes before the operations end: from then on no send puts a cell into that queue.
        let senders = Senders { segment: &self.segment, peers: &self.peers, consumer: rank };
        if !self.outbox.reclaim(&self.segment, rank, &senders)? {
            return Ok(false);
        }
        self.end_operations(rank, how);
        Ok(true)
    }

    /// Ends all operations with `rank`. Everything that it handed over has been delivered.
    pub(super) fn end_operations(&mut self, rank: u32, how: Gone) {
        if let Gone::Failed(_) = how {
            self.note_death(rank);
        }
        let fault = how.fault(rank);
        self.any_gone = true;
        let peer = &mut self.peers[rank as usize];
        peer.leave(how);
        let arriving = peer.arriving.give_up();
        self.inbox.close(rank);
        self.outbox.unwant_fastbox(rank);
        while !self.peers[rank as usize].waiting.is_empty() {
            self.finish_first_waiting(rank, Err(fault));
        }
        match arriving {
            Some(ArrivalTarget::Request(id)) => self.fail(id, fault),
            Some(ArrivalTarget::Message(number)) => self.forget_message(number),
            Some(ArrivalTarget::Due { message, request }) => {
                self.hand_over(message, None);
                request.into_iter().for_each(|id| self.fail(id, fault));
            }
            Some(ArrivalTarget::Nobody) | None => {}
        }
        self.negotiation.forget(rank);
        self.fail_posted_for(rank, fault);
        self.fail_offers_to(rank, Err(fault));
        self.fail_senders_to(rank, Err(fault));
        self.fail_calls_to(rank, fault);
        self.fail_receivers_from(rank, fault);
        self.fail_method_transfers_with(rank, fault);
        self.forget_kept_by(rank);
    }

    /// Marks `rank` as a rank on another node that cannot be reached. Operations with it fail to
    /// start. Call this before the first operation with the rank.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was changed.
    pub fn set_unreachable(&mut self, rank: u32) -> Result<(), OutOfMemory> {
        self.peers.note(&self.segment, self.rank, (rank, StandIn::Unreachable))?;
        self.any_gone = true;
        Ok(())
    }

    /// Returns whether `rank` exists.
    #[must_use]
    pub fn has_peer(&self, rank: u32) -> bool {
        self.peers.get(rank as usize).is_some()
    }

    /// Returns whether any rank of the segment has ended its communication, or was out of reach at
    /// some time. A caller that waits for many ranks asks this first.
    #[inline]
    #[must_use]
    pub const fn is_any_gone(&self) -> bool {
        self.any_gone
    }

    /// Returns how `rank` ended its communication, if it did.
    #[must_use]
    pub fn gone(&self, rank: u32) -> Option<Gone> {
        let peer = self.peers.get(rank as usize)?;
        peer.stands_in().map_or_else(|| peer.gone(), StandIn::gone)
    }

    /// Delivers everything that `gone` had handed over. Returns false if that has to wait for
    /// another rank.
    fn drain(&mut self, gone: u32) -> Result<bool, ProgressError> {
        self.progress()?;
        let (queue, senders) = self.queue_and_senders();
        if recovery::repair(queue, &self.segment, &senders)? == Repair::Later {
            return Ok(false);
        }
        // Takes the whole chain, except a last cell behind which a living rank has swapped its own
        // cell and not linked it yet.
        self.progress()?;
        let (queue, senders) = self.queue_and_senders();
        if recovery::holds_message_of(queue, &self.segment, &senders, gone)? {
            return Ok(false);
        }
        while self.poll_fastbox(gone)? {}
        Ok(true)
    }

    fn queue_and_senders(&self) -> (&RecvQueue, Senders<'_, M>) {
        let queue = &self.segment.rank_block(self.rank).recv_queue;
        (queue, Senders { segment: &self.segment, peers: &self.peers, consumer: self.rank })
    }

    fn fail_posted_for(&mut self, rank: u32, fault: Fault) {
        let mut from = 0;
        while let Some((handle, pattern, id)) = self.posted.next_from(from) {
            if pattern.source == rank {
                self.posted.cancel(handle);
                self.fail(id, fault);
            }
            from = handle + 1;
        }
    }

    pub(super) fn fail(&mut self, id: u32, fault: Fault) {
        self.requests.finish(id, Err(fault));
    }

    /// Drops an unexpected message of which the rest will never arrive. A message that a probe has
    /// matched stays, to report the loss.
    pub(super) fn forget_message(&mut self, number: u32) {
        let Some(message) = self.unexpected.get(number) else { return };
        if message.standing == MatchState::Matched {
            self.lose(number);
        } else {
            self.take_unexpected(number);
        }
        if let Some(owned) = message.body.owned() {
            self.buffers.put_back(owned);
        }
    }

    /// Drops the messages that a gone rank had kept, since their data went with it, and all its
    /// messages that arrived after the first of them. Otherwise a receive would take a later
    /// message in place of the lost one.
    fn forget_kept_by(&mut self, rank: u32) {
        let (mut from, mut gap) = (0, u64::MAX);
        while let Some((number, message)) = self.unexpected.next_from(from) {
            from = number + 1;
            if matches!(message.body, UnexpectedData::There(_)) && message.envelope.source == rank {
                gap = gap.min(message.arrival);
            }
        }
        let mut from = 0;
        while let Some((number, message)) = self.unexpected.next_from(from) {
            from = number + 1;
            let is_kept = matches!(message.body, UnexpectedData::There(_));
            let is_queued = matches!(message.standing, MatchState::Queued(_));
            let is_behind = is_queued && message.arrival > gap;
            if message.envelope.source == rank && (is_kept || is_behind) {
                self.forget_message(number);
            }
        }
    }
}

/// The ranks that send to `consumer`, which is this rank or a dead one.
struct Senders<'a, M: Memory> {
    segment: &'a Segment,
    peers: &'a Peers<M>,
    consumer: u32,
}

impl<M: Memory> Producers for Senders<'_, M> {
    fn ranks(&self) -> u32 {
        self.segment.ranks()
    }

    fn cells(&self) -> u32 {
        self.segment.plan().cells()
    }

    fn is_dead(&self, rank: u32) -> bool {
        self.peers[rank as usize].has_ended()
    }

    fn in_flight(&self, rank: u32) -> Option<CellIndex> {
        let cell =
            self.segment.rank_block(rank).liveness.in_flight.holds_for(self.segment, self.consumer);
        cell.filter(|cell| self.segment.owner(*cell) == rank)
    }

    fn place(&self, cell: CellIndex) -> (u32, u64) {
        // SAFETY: only this rank writes a cell in its own queue. A cell of a dead owner is not
        // written either.
        let head = unsafe { Cell::read_head(self.segment.cell(cell)) };
        (head.source, head.sequence)
    }

    fn is_taken(&self, source: u32, sequence: u64) -> bool {
        match self.peers.known(source as usize) {
            Some(peer) => sequence < peer.paths.next_in().number(),
            // Nothing was taken before the first contact.
            None => source as usize >= self.peers.len(),
        }
    }
}
