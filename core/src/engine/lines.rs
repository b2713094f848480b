//! Matching of messages that lie in lines: the short way to a posted receive, from any source, and
//! out of order.
//!
//! A receive looks at the unexpected messages, and then at the lines of its source. A message there
//! goes to the oldest posted receive that matches it, to this receive if none is older, or to the
//! unexpected messages. So a posted receive or an unexpected message does not keep other messages
//! from the short way.
//!
//! Everything else is declined, with nothing lost: cells, parcels, large messages, buffers of
//! several parts, messages that do not fit.

use core::ptr::NonNull;

use super::message::{UnexpectedData, UnexpectedMessage};
use super::request::RequestState;
use super::{Bypass, Engine, Owner, ProgressError, ReceivedShort, RequestId, Status, Ticket, Want};
use crate::buffer::copy::{copy_piece, copy_short};
use crate::buffer::{Cursor, Part};
use crate::matching::{ANY_SOURCE, Envelope, Pattern};
use crate::memory::{Memory, OutOfMemory};
use crate::shm::LineMessage;
use crate::wire::{Key, SHORT_MAX};

/// Returns the envelope of a message.
#[inline(always)]
pub(super) const fn envelope_of(source: u32, key: Key) -> Envelope {
    Envelope { context: key.context(), source, tag: key.tag() }
}

/// Copies a message out of its lines, which are in a row if it is `straight`.
///
/// # Safety
///
/// `to` is valid for writes of `length` bytes, which is the length of the message.
#[inline(always)]
pub(super) unsafe fn copy_out(
    message: LineMessage,
    to: NonNull<u8>,
    length: usize,
    straight: bool,
) {
    if length <= SHORT_MAX {
        // SAFETY: the caller guarantees room for the message (contract of `copy_out`).
        return unsafe { message.copy_short(to, length) };
    }
    if straight {
        // SAFETY: the caller guarantees room for the message, which no other code accesses
        // (contract of `copy_out`), and its lines are in a row.
        return unsafe {
            message.copy_straight(core::slice::from_raw_parts_mut(to.as_ptr(), length));
        };
    }
    let mut to = to.as_ptr();
    message.copy(length, |from, piece| {
        // SAFETY: `copy` gives consecutive pieces of `length` bytes in all, each at most one
        // line's, for which there is room (contract of `copy_out`).
        unsafe {
            copy_piece(from.as_ptr(), to, piece);
            to = to.add(piece);
        }
    });
}

impl<M: Memory + Clone> Engine<M> {
    /// Starts a receive of the oldest message that matches `pattern`. Receives it at once if it is
    /// short and has arrived, and posts the receive otherwise, or if the last messages came after
    /// their receives. Declines what [`Engine::irecv`] has to do, and changes nothing then but to
    /// deliver other messages.
    ///
    /// # Safety
    ///
    /// The contract of [`Engine::irecv`] holds for the bytes of `buffer`.
    #[inline]
    pub unsafe fn irecv_short(
        &mut self,
        pattern: Pattern,
        buffer: Part,
        owner: Owner,
    ) -> ReceivedShort {
        // An outcome needs a place as well ([`Engine::keep_outcome`]).
        let has_place = self.requests.reserve().is_ok();
        let is_short = !self.tuning.may_announce(buffer.length);
        if !has_place || !is_short || !self.may_receive_short(&pattern) {
            return ReceivedShort::Declined;
        }
        // SAFETY: the caller lends the bytes (contract of `irecv_short`), for writes.
        let bytes = unsafe { core::slice::from_raw_parts_mut(buffer.base.as_ptr(), buffer.length) };
        if !self.unexpected.is_empty() {
            match self.take_short_unexpected(&pattern, bytes) {
                Bypass::Received(status) => return ReceivedShort::Done(status),
                Bypass::Closed => return ReceivedShort::Declined,
                Bypass::Nothing => {}
            }
        }
        if self.should_look(pattern.source, buffer.length) {
            match self.recv_next(&pattern, bytes) {
                Bypass::Received(status) => {
                    self.early.found_at_once();
                    return ReceivedShort::Done(status);
                }
                Bypass::Closed => return ReceivedShort::Declined,
                Bypass::Nothing => self.early.looked_in_vain(),
            }
        }
        // SAFETY: the caller lends the bytes until the receive is over (contract of `irecv_short`).
        let buffer = unsafe { Cursor::contiguous(buffer) };
        self.post_short(pattern, buffer, owner).unwrap_or(ReceivedShort::Declined)
    }

    /// Receives the next message of a source, if it matches and lies in lines. Earlier ones go to
    /// their receives.
    #[inline(always)]
    fn recv_next(&mut self, pattern: &Pattern, buffer: &mut [u8]) -> Bypass {
        let (source, want) = (pattern.source, Want::new(pattern.context, pattern.tag));
        // In most windows nothing is older, and each message takes one line.
        if buffer.len() <= SHORT_MAX {
            match self.recv_short(source, want, buffer) {
                Bypass::Closed => {}
                found => return found,
            }
        }
        self.recv_from_lines(pattern, source, buffer, false)
    }

    /// Returns whether a receive with this pattern may take the short way.
    #[inline(always)]
    fn may_receive_short(&self, pattern: &Pattern) -> bool {
        let comes_by_lines = match self.peers.get(pattern.source as usize) {
            Some(peer) => peer.is_plainly_here(),
            None => pattern.source == ANY_SOURCE && !self.peers.is_empty() && !self.has_network(),
        };
        comes_by_lines && pattern.has_valid_tag()
    }

    /// Returns whether a receive from `source` looks for its message before it is posted.
    #[inline(always)]
    fn should_look(&mut self, source: u32, length: usize) -> bool {
        // `ANY_SOURCE` is no index.
        let peer = self.peers.get_mut(source as usize);
        peer.is_some_and(|peer| self.early.starts(length, &mut peer.receives))
    }

    /// Posts a receive that sends no RTR.
    #[inline]
    fn post_short(
        &mut self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<ReceivedShort, OutOfMemory> {
        let id = self.requests.next_id()?;
        let generation = self.requests.next_generation();
        let handle = self.posted.post(pattern, id)?;
        self.requests.insert(owner, RequestState::Posted { handle, buffer, asked: None })?;
        Ok(ReceivedShort::Pending(RequestId(id), Ticket { index: id, generation }))
    }

    /// Receives the oldest message that matches `pattern`, if it has arrived and is an unexpected
    /// short message or lies in lines. [`Bypass::Closed`] if only [`Engine::irecv`] can receive it.
    #[inline]
    pub fn recv_lines(&mut self, pattern: Pattern, buffer: &mut [u8]) -> Bypass {
        if !self.may_receive_short(&pattern) {
            return Bypass::Closed;
        }
        if !self.unexpected.is_empty() {
            match self.take_short_unexpected(&pattern, buffer) {
                Bypass::Nothing => {}
                found => return found,
            }
        }
        if pattern.source != ANY_SOURCE {
            return self.recv_from_lines(&pattern, pattern.source, buffer, true);
        }
        self.recv_from_any(&pattern, buffer)
    }

    /// Receives the oldest message that matches `pattern` from the lines of any source, or from the
    /// head of the queue. The two take turns, so that a stream through the one does not keep this
    /// rank from the other.
    #[inline]
    fn recv_from_any(&mut self, pattern: &Pattern, buffer: &mut [u8]) -> Bypass {
        let want = Want::new(pattern.context, pattern.tag);
        let has_queued = self.has_queued();
        self.queue_is_next = has_queued && !self.queue_is_next;
        if self.queue_is_next {
            match self.recv_queued(ANY_SOURCE, want, buffer) {
                Bypass::Nothing => {}
                found => return found,
            }
        }
        self.inbox.take_turns();
        // First by the shortest way, which serves messages of one line while nothing is posted.
        for place in 0..self.inbox.len() {
            let source = self.inbox.source_at(place);
            if let received @ Bypass::Received(_) = self.recv_short(source, want, buffer) {
                return received;
            }
        }
        for place in 0..self.inbox.len() {
            let source = self.inbox.source_at(place);
            match self.recv_from_lines(pattern, source, buffer, true) {
                Bypass::Nothing => {}
                found => return found,
            }
        }
        if has_queued && !self.queue_is_next {
            return self.recv_queued(ANY_SOURCE, want, buffer);
        }
        Bypass::Nothing
    }

    /// Receives a message that fills the buffer exactly, takes one line and comes from any source.
    /// Returns `None` if there is none, or if [`Engine::recv_lines`] might take another first.
    #[inline(always)]
    pub fn recv_exactly_from_any<const BYTES: usize>(
        &mut self,
        want: Want,
        buffer: &mut [u8; BYTES],
    ) -> Option<Status> {
        if self.has_network() || self.has_queued() || self.inbox.ends_turn() {
            return None;
        }
        (0..self.inbox.len()).find_map(|place| {
            // It looks for older messages and receives.
            match self.recv_exactly(self.inbox.source_at(place), want, buffer) {
                Bypass::Received(status) => Some(status),
                Bypass::Nothing | Bypass::Closed => None,
            }
        })
    }

    /// Receives a message from any source as [`Engine::recv_short`] does from one. It looks at the
    /// sources in turn. [`Bypass::Closed`]: a message is to be received in another way, or may come
    /// in another way.
    #[inline(always)]
    pub fn recv_short_from_any(&mut self, want: Want, buffer: &mut [u8]) -> Bypass {
        if self.has_network() {
            return Bypass::Closed;
        }
        self.inbox.take_turns();
        for place in 0..self.inbox.len() {
            match self.recv_short(self.inbox.source_at(place), want, buffer) {
                Bypass::Nothing => {}
                found => return found,
            }
        }
        Bypass::Nothing
    }

    /// Receives an unexpected short message.
    #[inline]
    fn take_short_unexpected(&mut self, pattern: &Pattern, buffer: &mut [u8]) -> Bypass {
        let Some(found) = self.unexpected.find(pattern) else { return Bypass::Nothing };
        let Some((bytes, length)) = self.unexpected.short(found.message) else {
            return Bypass::Closed;
        };
        if length > buffer.len() {
            return Bypass::Closed;
        }
        // SAFETY: a short message has at most `SHORT_MAX` bytes, and the buffer has room for them.
        unsafe { copy_short(bytes.cast(), buffer.as_mut_ptr(), length) };
        let Envelope { source, tag, .. } = found.envelope;
        self.unexpected.discard(found.message, found.handle);
        self.let_go(source, length);
        Bypass::Received(Status { source, tag, bytes: length })
    }

    /// Receives the next message that matches `pattern` from the lines of `source`. Messages before
    /// it go to their receives. If it `may_keep` them, the others become unexpected.
    #[inline(always)]
    fn recv_from_lines(
        &mut self,
        pattern: &Pattern,
        source: u32,
        buffer: &mut [u8],
        may_keep: bool,
    ) -> Bypass {
        let want = Want::new(pattern.context, pattern.tag);
        for _ in 0..self.segment.plan().config().fastbox_lines {
            let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
            let Some((found, by_baton)) = peer.paths.find_next() else { return Bypass::Nothing };
            let length = found.length();
            let is_eager = found.is_eager_of(length);
            let is_whole = is_eager || found.is_synchronous_of(length);
            if !is_whole || !peer.paths.next_holds(by_baton, length) {
                return Bypass::Closed;
            }
            let message = peer.paths.lines_of_next(by_baton);
            let key = message.key();
            let envelope = envelope_of(source, key);
            let is_wanted = want.accepts(key);
            if !self.posted.is_empty() && self.posted.awaits(&envelope) {
                // An older receive takes it.
            } else if !is_wanted {
                if !may_keep {
                    return Bypass::Nothing;
                }
                if is_eager
                    && length <= SHORT_MAX
                    && self.keep_short(envelope, message, length).is_ok()
                {
                    self.peers[source as usize].paths.release_next(by_baton, length);
                    continue;
                }
            } else if length > buffer.len() {
                return Bypass::Closed;
            } else {
                let straight = peer.paths.prepare_to_read(by_baton, length);
                let to = NonNull::from(&mut *buffer).cast();
                // SAFETY: the buffer has room for the message.
                unsafe { copy_out(message, to, length, straight) };
                peer.paths.release_next(by_baton, length);
                if !is_eager {
                    self.end_synchronous(source);
                }
                return Bypass::Received(Status { source, tag: key.tag(), bytes: length });
            }
            // The next progress call meets and reports an error.
            if self.take_line(source) != Ok(true) {
                return Bypass::Closed;
            }
        }
        Bypass::Closed
    }

    /// Takes what lies in lines, of every source, and returns whether anything did. The next
    /// progress call meets and reports an error.
    #[inline]
    pub fn serve_lines(&mut self) -> bool {
        let mut came = false;
        for place in 0..self.inbox.len() {
            let source = self.inbox.source_at(place);
            for _ in 0..self.segment.plan().config().fastbox_lines {
                if self.take_line(source) != Ok(true) {
                    break;
                }
                came = true;
                // The peer is about to write the next line. A look would take the line from it.
                if self.posted.is_empty() {
                    break;
                }
            }
        }
        self.early.wait_looked(came);
        came
    }

    /// Takes the next packet from `source`, if it lies in lines. Returns whether there was one.
    #[inline]
    pub(super) fn take_line(&mut self, source: u32) -> Result<bool, ProgressError> {
        let Some(peer) = self.peers.get(source as usize) else { return Ok(false) };
        let Some((found, by_baton)) = peer.paths.find_next() else { return Ok(false) };
        let length = found.length();
        if !found.is_eager_of(length) || !peer.paths.next_holds(by_baton, length) {
            return self.take_from_fastbox(source);
        }
        let message = peer.paths.lines_of_next(by_baton);
        let straight = peer.paths.prepare_to_read(by_baton, length);
        let envelope = envelope_of(source, message.key());
        let requests = &mut self.requests;
        let met = self.posted.take_with(&envelope, |id| {
            let (state, to) = requests.posted_place(*id, length)?;
            // SAFETY: the receive lends room for the message (contract of `irecv`).
            unsafe { copy_out(message, to, length, straight) };
            *state = RequestState::Done(Ok(Status { source, tag: envelope.tag, bytes: length }));
            Some(())
        });
        match met {
            Some(Some(())) => {}
            None if length <= SHORT_MAX => self.keep_short(envelope, message, length)?,
            // The receive has no room in one piece or has sent an RTR, or the message needs memory.
            None | Some(None) => return self.take_from_fastbox(source),
        }
        self.peers[source as usize].paths.release_next(by_baton, length);
        Ok(true)
    }

    /// Keeps a short message that has no receive. On an error nothing has changed.
    fn keep_short(
        &mut self,
        envelope: Envelope,
        message: LineMessage,
        length: usize,
    ) -> Result<(), OutOfMemory> {
        let body = UnexpectedData::Short([0; SHORT_MAX / 8]);
        let kept = UnexpectedMessage::new(envelope, body, length, length);
        let number = self.unexpected.insert(kept)?;
        if let Some(bytes) = self.unexpected.short_mut(number) {
            // SAFETY: the array has room for a short message.
            unsafe { message.copy_short(NonNull::from(bytes).cast(), length) };
        }
        self.hold(envelope.source, length);
        Ok(())
    }

    /// Returns whether [`Engine::progress`] has work outside lines: sends and large messages under
    /// way, packets in the queue or from other nodes.
    #[inline(always)]
    #[must_use]
    pub fn has_work_outside_lines(&self) -> bool {
        self.has_network() || self.has_work_in_queues()
    }

    /// Returns whether [`Engine::progress`] has work outside batons and fastboxes, of which
    /// [`Engine::poll_network`] does none.
    #[inline(always)]
    #[must_use]
    pub fn has_work_in_queues(&self) -> bool {
        !self.outbox.is_empty() || !self.transfers.is_empty() || self.has_queued()
    }

    /// Returns whether [`Engine::poll_bell`] would return a peer.
    #[inline(always)]
    #[must_use]
    pub fn has_bells(&self) -> bool {
        self.outbox.has_bells()
    }

    /// Returns whether more than one receive is posted.
    #[inline(always)]
    #[must_use]
    pub const fn awaits_several(&self) -> bool {
        self.posted.len() > 1
    }

    /// Returns whether a message waits that no receive has taken.
    #[inline(always)]
    #[must_use]
    pub const fn has_unexpected(&self) -> bool {
        !self.unexpected.is_empty()
    }

    /// Returns whether no source has a packet in lines. That counts as a look of
    /// [`Engine::serve_lines`], of which it saves the loops and calls.
    #[inline(always)]
    #[must_use]
    pub fn finds_no_lines(&mut self) -> bool {
        let found = self.others_have_lines(ANY_SOURCE);
        if !found {
            self.early.wait_looked(false);
        }
        !found
    }

    /// Returns whether a source other than `source` has a packet in lines.
    #[inline(always)]
    #[must_use]
    pub fn others_have_lines(&self, source: u32) -> bool {
        (0..self.inbox.len()).any(|place| {
            let other = self.inbox.source_at(place);
            other != source && self.peers[other as usize].paths.find_next().is_some()
        })
    }
}

#[cfg(test)]
mod tests;
