//! The receive that is first in the queue: posted to an empty queue, and ended by a wait that finds
//! its message in the next line. Most programs have one receive at a time, and these are the fewest
//! steps for it.

use super::lines::{copy_out, envelope_of};
use super::request::RequestState;
use super::{Bypass, Engine, Owner, RequestId, Status, Ticket};
use crate::buffer::{Cursor, Part};
use crate::matching::{ANY_SOURCE, EMPTY_HANDLE, Pattern};
use crate::memory::Memory;
use crate::wire::{FASTBOX_LENGTH_MAX, SHORT_MAX};

impl<M: Memory + Clone> Engine<M> {
    /// Posts a receive from one source, which sends no RTR, if nothing is posted or unexpected and
    /// the receive is to be posted without a look. Returns `None` otherwise. Then nothing has
    /// changed, and [`Engine::irecv_short`] starts the receive.
    ///
    /// # Safety
    ///
    /// The contract of [`Engine::irecv`] holds for the bytes of `buffer`.
    #[inline(always)]
    pub unsafe fn post_first(
        &mut self,
        pattern: Pattern,
        buffer: Part,
        owner: Owner,
    ) -> Option<(RequestId, Ticket)> {
        // In a window of receives this tells most of them.
        if !(self.posted.is_empty() & self.unexpected.is_empty()) {
            return None;
        }
        // `ANY_SOURCE` is no index.
        let peer = self.peers.get_mut(pattern.source as usize)?;
        // A receive that may send an RTR, being long, looks.
        let looks = self.early.looks(buffer.length, peer.receives);
        if looks || !peer.is_plainly_here() || !pattern.has_valid_tag() {
            return None;
        }
        // SAFETY: the caller lends the bytes until the receive is over (contract of `post_first`).
        let buffer = unsafe { Cursor::contiguous(buffer) };
        let state = RequestState::Posted { handle: EMPTY_HANDLE, buffer, asked: None };
        let ticket = self.requests.insert_at_place(owner, state)?;
        self.posted.post_to_empty(pattern, ticket.index);
        self.early.starts_without_look(&mut peer.receives);
        Some((RequestId(ticket.index), ticket))
    }

    /// Returns whether [`Engine::take_first`] may end the receive with this ticket, which has one
    /// source.
    #[inline(always)]
    #[must_use]
    pub fn is_first(&self, ticket: Ticket) -> bool {
        let first = self.posted.first();
        first.is_some_and(|(pattern, id)| id == ticket.index && pattern.source != ANY_SOURCE)
    }

    /// Ends the receive that is the [first](crate::matching::PostedQueue::first) in the queue, if
    /// its message is the next packet of its source and lies in lines. Returns the status. The
    /// ticket is that of the receive's request.
    #[inline(always)]
    pub fn take_first(&mut self, ticket: Ticket) -> Option<Status> {
        match self.take_first_up_to(FASTBOX_LENGTH_MAX, ticket) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing | Bypass::Closed => None,
        }
    }

    /// Does what [`Engine::take_first`] does, if the message takes one line. [`Bypass::Nothing`]:
    /// the receive is the first, and nothing has come from its source by lines.
    #[inline(always)]
    pub fn take_first_short(&mut self, ticket: Ticket) -> Bypass {
        self.take_first_up_to(SHORT_MAX, ticket)
    }

    /// Takes a message of at most `most` bytes, which the compiler knows.
    #[inline(always)]
    fn take_first_up_to(&mut self, most: usize, Ticket { index, generation }: Ticket) -> Bypass {
        let Some((pattern, id)) = self.posted.first() else { return Bypass::Closed };
        let source = pattern.source;
        let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
        if id != index {
            return Bypass::Closed;
        }
        let Some((found, by_baton)) = peer.paths.find_next() else { return Bypass::Nothing };
        let Some(length) = found.eager_up_to(most) else { return Bypass::Closed };
        if most > SHORT_MAX && !peer.paths.next_holds(by_baton, length) {
            return Bypass::Closed;
        }
        let message = peer.paths.lines_of_next(by_baton);
        let envelope = envelope_of(source, message.key());
        if !pattern.matches(&envelope) {
            return Bypass::Closed;
        }
        let Some(to) = self.requests.take_posted(id, generation, length) else {
            return Bypass::Closed;
        };
        let straight = peer.paths.prepare_to_read(by_baton, length);
        // SAFETY: the receive lends room for the message (contract of `irecv`).
        unsafe { copy_out(message, to, length, straight) };
        peer.paths.release_next(by_baton, length);
        self.posted.take_first();
        self.early.wait_looked(true);
        Bypass::Received(Status { source, tag: envelope.tag, bytes: length })
    }
}

#[cfg(test)]
mod tests;
