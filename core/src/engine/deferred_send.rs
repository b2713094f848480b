//! Deferred sends: messages that their sender keeps because the receiver has no room, or until
//! their receive has started. The sender offers them, and sends them when the receiver pulls them.
//!
//! An offer needs no descriptor, so there may be any number of them. The receiver's pull request
//! needs no cell, so it cannot wait behind data.

use core::ptr::NonNull;

use super::request::{OutgoingMessage, Pushed, RequestState, SendStage};
use super::send::CellPart;
use super::{Engine, Outcome};
use crate::layout::{Count, EventKind};
use crate::memory::Memory;
use crate::sync::{Step, reached};
use crate::wire::{Corrupt, Key, Offer, PacketKind};

impl<M: Memory + Clone> Engine<M> {
    /// Returns whether `destination` has no room for a message of `total` bytes that has no receive
    /// yet. A rank always has room for its own messages: no other rank could receive them
    /// meanwhile.
    pub(super) fn must_offer(&self, destination: u32, total: usize) -> bool {
        destination != self.rank
            && (total > self.tuning.unexpected_max || self.is_told_to_keep(destination))
    }

    /// Returns whether `destination`, a rank of the segment, has reported that it holds too much
    /// from this rank.
    #[inline]
    #[must_use]
    pub fn is_told_to_keep(&self, destination: u32) -> bool {
        destination < self.segment.ranks() && self.segment.flow(self.rank, destination).is_full()
    }

    /// Returns whether a send waits that needs this rank to continue. A message that a leaving rank
    /// has offered to itself is never pulled, so it does not count. The data of a synchronous
    /// message that waits for an answer have left.
    pub(super) fn is_blocked(&self) -> bool {
        (0..).map_while(|place| self.outbox.blocked_at(place)).any(|destination| {
            let peer = &self.peers[destination as usize];
            !peer.waiting.is_empty() || destination != self.rank && !peer.offers.is_empty()
        })
    }

    /// Offers the message of the request `place`, if there is room for the offer.
    pub(super) fn push_offer(
        &mut self,
        destination: u32,
        place: u32,
        message: &mut OutgoingMessage,
    ) -> Result<Pushed, Corrupt> {
        let offer = self.next_offer(destination, place, message.total);
        if !self.push_control(destination, PacketKind::Offer, message.key, &offer.pack())? {
            return Ok(Pushed::Blocked);
        }
        reached(Step::OfferSent);
        self.count(destination, Count::Deferred, 1);
        self.note(EventKind::Offered, destination, message.key, message.total as u64);
        message.stage = self.offered(destination, &offer);
        Ok(Pushed::Offered)
    }

    /// Returns the next offer to `destination`.
    pub(super) fn next_offer(&self, destination: u32, place: u32, total: usize) -> Offer {
        let number = self.peers[destination as usize].offers.next();
        Offer { total: total as u64, place, number }
    }

    /// Counts an offer that leaves. Returns the stage in which its message then waits.
    pub(super) fn offered(&mut self, destination: u32, offer: &Offer) -> SendStage {
        self.peers[destination as usize].offers.sent(offer.number);
        SendStage::Offered { destination, number: offer.number }
    }

    /// Sends a packet that says something about a message, through any path that has room. The
    /// payload has at most one line's bytes.
    pub(super) fn push_control(
        &mut self,
        destination: u32,
        kind: PacketKind,
        key: Key,
        payload: &[u8],
    ) -> Result<bool, Corrupt> {
        let length = payload.len();
        let fill = |to: NonNull<u8>| {
            // SAFETY: a line and a cell both have room for the payload. No part of the segment is
            // in `payload`.
            unsafe { to.copy_from_nonoverlapping(NonNull::from(payload).cast(), length) };
        };
        let peer = &mut self.peers[destination as usize];
        if peer.paths.is_announced() {
            // No older send waits.
            peer.open();
            // The payload fits one line, so `fill` is called once, for all of it.
            let sent = peer.paths.send_lines(kind, key, length, |to, _, _| fill(to))?;
            if sent {
                peer.paths.count_out();
            }
            self.shut_if_told_to_keep(destination);
            if sent {
                self.notify(destination);
                return Ok(true);
            }
        }
        self.put_cell(destination, CellPart { kind, key, total: length as u64, length }, fill)
    }

    /// Shuts the short paths if the receiver has no room. A send on them does not check for room.
    pub(super) fn shut_if_told_to_keep(&mut self, destination: u32) {
        if self.is_told_to_keep(destination) {
            self.peers[destination as usize].paths.shut();
        }
    }

    /// Looks whether `destination` has pulled a message that was offered to it, and queues that
    /// message for sending.
    pub(super) fn take_call(&mut self, destination: u32) -> bool {
        if self.peers[destination as usize].offers.is_empty() {
            return false;
        }
        let (place, number) = self.segment.flow(self.rank, destination).called();
        self.answer_call(destination, place, number)
    }

    /// Queues the message that `destination` pulls for sending. Returns false if the message was
    /// not offered or was pulled before.
    pub(super) fn answer_call(&mut self, destination: u32, place: u32, number: u32) -> bool {
        let Some(message) = self.requests.outgoing(place) else { return false };
        let is_offered = match message.stage {
            SendStage::Method { transfer } => {
                self.is_pulled_from_method(transfer, destination, number)
            }
            stage => stage == (SendStage::Offered { destination, number }),
        };
        let Some(message) = self.requests.outgoing_mut(place).filter(|_| is_offered) else {
            return false;
        };
        message.stage = SendStage::Called;
        reached(Step::CallTaken);
        self.peers[destination as usize].offers.answered();
        self.line_up(destination, place);
        true
    }

    /// Fails the messages that were offered to a rank that is gone, and those without an answer.
    pub(super) fn fail_offers_to(&mut self, rank: u32, outcome: Outcome) {
        let mut from = 0;
        while let Some((id, request)) = self.requests.next_from(from) {
            from = id + 1;
            let RequestState::Sending { message, .. } = request else { continue };
            let is_to_rank = match message.stage {
                SendStage::Offered { destination, .. }
                | SendStage::Unmatched { destination, .. } => destination == rank,
                SendStage::Method { transfer } => self.leave_method_to(transfer, rank),
                _ => false,
            };
            if is_to_rank {
                self.end_send(id, outcome);
            }
        }
        self.peers[rank as usize].offers.forget();
        self.peers[rank as usize].unmatched.clear();
        self.outbox.unblock(rank);
    }
}
