//! Synchronous messages that travel with their data. The receiver answers when the receive has
//! started (MPI-4.1 §3.4).
//!
//! An answer is one bit in the flow words of the pair, so it needs no packet, no memory and no room
//! on the way back. Both sides count the pair's synchronous messages that carry their data, and the
//! number of a message says which bit is its own. A message that finds the bit still in use is
//! offered instead.

use super::answers::Unanswered;
use super::packet::Packet;
use super::reassembly::ArrivalTarget;
use super::request::{OutgoingMessage, Pushed, RequestState, SendStage};
use super::wait_list::WaitList;
use super::{Engine, Owner, ProgressError, RequestId, Sent, StartError, Status, Ticket, Ticketed};
use crate::memory::Memory;
use crate::sync::{Step, reached};

impl<M: Memory + Clone> Engine<M> {
    /// Returns what a synchronous send waits for that has handed its message over. `None` for every
    /// other operation.
    #[must_use]
    pub fn unanswered(&self, ticket: Ticket) -> Option<Unanswered> {
        match self.requests.outgoing(ticket.index)?.stage {
            SendStage::Unmatched { destination, answer }
                if self.find_ticket(ticket) != Ticketed::Nothing =>
            {
                Some(Unanswered { destination, answer })
            }
            _ => None,
        }
    }

    /// Returns whether the receiver has answered. [`Engine::end_answered`] ends the send then.
    #[inline(always)]
    #[must_use]
    pub fn is_answered(&self, Unanswered { destination, answer }: Unanswered) -> bool {
        self.missing_from(destination) & answer == 0
    }

    /// Ends the synchronous sends that the receiver has answered.
    pub fn end_answered(&mut self, Unanswered { destination, .. }: Unanswered) {
        self.take_answers(destination);
    }

    /// Returns the bits of the answers that `destination` has not given.
    #[inline(always)]
    fn missing_from(&self, destination: u32) -> u32 {
        let published = self.segment.flow(self.rank, destination).matched();
        self.peers.of(destination).answers.missing(published)
    }

    /// Returns whether a synchronous message may go to `destination` with its data.
    pub(super) fn goes_synchronously(&self, destination: u32, total: usize) -> bool {
        let bit = self.peers.of(destination).answers.next_sent();
        !self.must_offer(destination, total) && self.missing_from(destination) & bit == 0
    }

    /// Returns what has become of a message all of which was handed over. A synchronous one gets
    /// its bit now, though its answer may be here already: no other has left since it began to.
    pub(super) fn handed_over(
        &mut self,
        destination: u32,
        message: &mut OutgoingMessage,
    ) -> Pushed {
        if message.stage != SendStage::Synchronous {
            return Pushed::Whole;
        }
        let answer = self.peers.of_mut(destination).answers.count_sent();
        message.stage = SendStage::Unmatched { destination, answer };
        Pushed::Unmatched
    }

    /// Has a synchronous send wait for its answer. Room for its request was reserved.
    pub(super) fn await_answer(
        &mut self,
        destination: u32,
        message: OutgoingMessage,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        let request = RequestState::Sending { message, next: None, detached: None };
        let id = self.requests.insert(owner, request)?;
        self.join_unmatched(destination, id);
        Ok(Sent::Pending(RequestId(id)))
    }

    /// Moves the oldest send that waited for room to those that wait for their answers.
    pub(super) fn move_to_unmatched(&mut self, destination: u32) {
        if let Some(id) = self.leave_line(destination) {
            self.join_unmatched(destination, id);
        }
    }

    /// Adds a send to those that wait for their answers.
    fn join_unmatched(&mut self, destination: u32, id: u32) {
        self.requests.line_up(&mut self.peers.of_mut(destination).unmatched, id);
        self.outbox.watch(destination);
    }

    /// Ends the synchronous sends to `destination` that it has answered. Returns whether there were
    /// any.
    pub(super) fn take_answers(&mut self, destination: u32) -> bool {
        if self.peers.of(destination).unmatched.is_empty() {
            return false;
        }
        let missing = self.missing_from(destination);
        self.keep_unmatched(destination, |_, answer| missing & answer != 0)
    }

    /// Forgets a send that waits for its answer. Its message goes on.
    pub(super) fn give_answer_up(&mut self, destination: u32, id: u32) {
        self.keep_unmatched(destination, |other, _| other != id);
        self.requests.remove(id);
    }

    /// Ends the sends to `destination` that wait for answers and for which `waits` returns false,
    /// given the request and the bit. Returns whether there were any.
    fn keep_unmatched(&mut self, destination: u32, waits: impl Fn(u32, u32) -> bool) -> bool {
        let (mut rest, mut ended) = (WaitList::default(), false);
        loop {
            let line = &mut self.peers.of_mut(destination).unmatched;
            let Some(id) = self.requests.leave_line(line) else { break };
            let Some(message) = self.requests.outgoing(id) else { continue };
            if let SendStage::Unmatched { answer, .. } = message.stage
                && waits(id, answer)
            {
                self.requests.line_up(&mut rest, id);
            } else {
                let (tag, bytes) = (message.key.tag(), message.total);
                self.end_send(id, Ok(Status { source: destination, tag, bytes }));
                ended = true;
            }
        }
        let peer = self.peers.of_mut(destination);
        peer.unmatched = rest;
        if peer.owes_nothing() {
            self.outbox.unblock(destination);
        }
        ended
    }

    /// Delivers the first packet of a synchronous message. On an error nothing has changed.
    pub(super) fn deliver_synchronous(
        &mut self,
        packet: &Packet,
    ) -> Result<ArrivalTarget, ProgressError> {
        let source = packet.envelope.source;
        let answer = self.peers.of(source).answers.next_received();
        let target = match self.posted.take(&packet.envelope) {
            Some(id) => {
                let target = self.meet(id, packet)?;
                self.answer_synchronous(source, answer);
                target
            }
            None => self.keep_packet(packet, answer)?,
        };
        self.peers.of_mut(source).answers.count_received();
        Ok(target)
    }

    /// Counts and answers a synchronous message that a receive has taken out of its lines.
    #[cold]
    #[inline(never)]
    pub(super) fn end_synchronous(&mut self, source: u32) {
        let answers = &mut self.peers.of_mut(source).answers;
        let answer = answers.next_received();
        answers.count_received();
        self.answer_synchronous(source, answer);
    }

    /// Tells the sender of a synchronous message that the receive has started.
    pub(super) fn answer_synchronous(&mut self, source: u32, answer: u32) {
        let bits = self.peers.of_mut(source).answers.give(answer);
        self.segment.flow(source, self.rank).set_matched(bits);
        reached(Step::Answered);
        self.notify(source);
    }
}

#[cfg(test)]
mod tests;
