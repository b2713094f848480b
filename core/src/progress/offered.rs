//! Messages that are kept back because their receiver has no room, or until their receive has begun: offered, and sent when they
//! are called for.
//!
//! An offer needs no descriptor, so there may be any number of them; and the receiver's call needs no cell, so it cannot
//! wait behind data.

use core::ptr::NonNull;

use super::peer::{Outbox, Pushed};
use super::request::{Outgoing, Request, Stage};
use super::send::CellPart;
use super::{Engine, Outcome};
use crate::layout::Corrupt;
use crate::memory::Memory;
use crate::sync::{Step, reached};
use crate::wire::{Key, Kind, Offer};

impl<M: Memory + Clone> Engine<M> {
    /// True when `destination` has no room for a message of `total` bytes that it may not wait for. A rank has room for its
    /// own: nobody else could receive them meanwhile.
    pub(super) fn must_offer(&self, destination: u32, total: usize) -> bool {
        destination != self.rank
            && (total > self.tuning.unexpected_max || self.is_told_to_keep(destination))
    }

    /// True when `destination`, a rank of the segment, said that it holds too much of ours.
    #[inline]
    #[must_use]
    pub fn is_told_to_keep(&self, destination: u32) -> bool {
        destination < self.segment.ranks() && self.segment.flow(self.rank, destination).is_full()
    }

    /// Whether a send waits that somebody else can let go on. Nobody will call for what a rank that leaves has offered to itself.
    pub(super) fn is_blocked(&self) -> bool {
        (0..self.blocked.len()).any(|place| {
            let destination = self.blocked.get(place);
            destination != self.rank || self.peers[destination as usize].waiting.ends.is_some()
        })
    }

    /// Offers the message of the request `place`, if there is room for the offer.
    pub(super) fn push_offer(
        &mut self,
        destination: u32,
        place: u32,
        message: &mut Outgoing,
    ) -> Result<Pushed, Corrupt> {
        let offer = self.next_offer(destination, place, message.total);
        if !self.push_control(destination, Kind::Offer, message.key, &offer.pack())? {
            return Ok(Pushed::Blocked);
        }
        reached(Step::OfferSent);
        message.stage = self.offered(destination, &offer);
        Ok(Pushed::Offered)
    }

    /// The next offer to `destination`.
    pub(super) fn next_offer(&self, destination: u32, place: u32, total: usize) -> Offer {
        // Zeroed memory calls for number 0: no offer has it.
        let number = self.peers[destination as usize].last_offer.wrapping_add(1).max(1);
        Offer { total: total as u64, place, number }
    }

    /// Counts an offer that leaves. What its message then waits for.
    pub(super) fn offered(&mut self, destination: u32, offer: &Offer) -> Stage {
        let peer = &mut self.peers[destination as usize];
        peer.last_offer = offer.number;
        peer.offers += 1;
        Stage::Offered { destination, number: offer.number }
    }

    /// Sends a packet that says something of a message, by whatever way has room. At most a line's payload.
    pub(super) fn push_control(
        &mut self,
        destination: u32,
        kind: Kind,
        key: Key,
        payload: &[u8],
    ) -> Result<bool, Corrupt> {
        let length = payload.len();
        let fill = |to: NonNull<u8>| {
            // SAFETY: a line, and a cell, has room for the payload; no part of the segment is in `payload`.
            unsafe { to.copy_from_nonoverlapping(NonNull::from(payload).cast(), length) };
        };
        let peer = &mut self.peers[destination as usize];
        if peer.outbox == Outbox::Open {
            // No older send waits.
            peer.open();
            // One line, so that it asks once, for all of it.
            let sent = peer.send_lines(kind, key, length, |to, _, _| fill(to))?;
            peer.next_out += u64::from(sent);
            self.shut_if_told_to_keep(destination);
            if sent {
                self.notify(destination);
                return Ok(true);
            }
        }
        self.put_cell(destination, CellPart { kind, key, total: length as u64, length }, fill)
    }

    /// Shuts the short ways, on which nobody looks whether the receiver has room, if it has none.
    pub(super) fn shut_if_told_to_keep(&mut self, destination: u32) {
        if self.is_told_to_keep(destination) {
            self.peers[destination as usize].shut();
        }
    }

    /// Looks whether `destination` has called for a message that was offered to it, and lines that up for sending.
    pub(super) fn take_call(&mut self, destination: u32) -> bool {
        if self.peers[destination as usize].offers == 0 {
            return false;
        }
        let (place, number) = self.segment.flow(self.rank, destination).called();
        self.answer_call(destination, place, number)
    }

    /// Lines up for sending what `destination` calls for. False: it was not offered, or was called for before.
    pub(super) fn answer_call(&mut self, destination: u32, place: u32, number: u32) -> bool {
        let Some(Request::Sending { message, .. }) = self.request_mut(place) else { return false };
        if message.stage != (Stage::Offered { destination, number }) {
            return false;
        }
        message.stage = Stage::Called;
        reached(Step::CallTaken);
        self.peers[destination as usize].offers -= 1;
        self.line_up(destination, place);
        true
    }

    /// Fails what was offered to a rank that is gone.
    pub(super) fn fail_offers_to(&mut self, rank: u32, outcome: Outcome) {
        let mut from = 0;
        while let Some((id, entry)) = self.requests.next_from(from) {
            from = id + 1;
            let Request::Sending { message, .. } = entry.request else { continue };
            if matches!(message.stage, Stage::Offered { destination, .. } if destination == rank) {
                self.end_send(id, outcome);
            }
        }
        self.peers[rank as usize].offers = 0;
        self.blocked.remove(rank);
    }
}
