//! Receives that go round matching: the latency path.

use super::Bypass;
use super::Want;
use core::ptr::NonNull;

use super::unexpected::UnexpectedMessages;
use super::{Engine, ProgressError, Status};
use crate::buffer::copy::copy_piece;
use crate::matching::PostedQueue;
use crate::memory::Memory;
use crate::shm::LineMessage;
use crate::wire::{KindLength, SHORT_MAX};

/// A receive that a short path may serve: lengths that it accepts, a buffer, and a state in which
/// nothing is posted or unexpected.
struct Taker<'a, L, I> {
    source: u32,
    want: Want,
    buffer: &'a mut [u8],
    /// Returns the length if the receive accepts a message of that length.
    length: L,
    is_idle: I,
}

impl<L: Fn(KindLength) -> Option<usize>, I: Fn() -> bool> Taker<'_, L, I> {
    #[inline(always)]
    fn take(&mut self, found: KindLength, message: LineMessage) -> Option<Status> {
        let bytes = (self.length)(found)?;
        let key = message.key();
        if !self.want.accepts(key) || !(self.is_idle)() {
            return None;
        }
        // SAFETY: `length` accepts no more bytes than the buffer has room for, and no more than
        // `copy_short` copies.
        unsafe { message.copy_short(NonNull::from(&mut *self.buffer).cast(), bytes) };
        Some(Status { source: self.source, tag: key.tag(), bytes })
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Receives a message of up to [`SHORT_MAX`] bytes from `source`, if it is the next one in the
    /// fastbox and nothing is posted or unexpected: the posted-receive bypass (`[Nemesis07]` §3.3).
    ///
    /// This is the latency path: it takes no branch that the common case does not need.
    #[inline(always)]
    pub fn recv_short(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let most = SHORT_MAX.min(buffer.len());
        let length = |found: KindLength| found.eager_up_to(most);
        self.take_short(source, want, buffer, length, Self::is_idle)
    }

    /// Receives a short message as [`Engine::recv_short`] does, for an embedder that does its own
    /// matching. The embedder posts no receives for the messages that it wants here, and has
    /// already received those that were unexpected.
    #[inline(always)]
    pub fn take_next_short(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let most = SHORT_MAX.min(buffer.len());
        let length = |found: KindLength| found.eager_up_to(most);
        self.take_short(source, want, buffer, length, |_, _| true)
    }

    /// Returns whether the next message from `source` is in the baton or the fastbox.
    #[inline(always)]
    #[must_use]
    pub fn has_next(&self, source: u32) -> bool {
        self.peers.get(source as usize).is_some_and(|peer| peer.paths.find_next().is_some())
    }

    /// Receives a message that fills the buffer exactly, as [`Engine::recv_short`] does.
    #[inline(always)]
    pub fn recv_exactly<const BYTES: usize>(
        &mut self,
        source: u32,
        want: Want,
        buffer: &mut [u8; BYTES],
    ) -> Bypass {
        const { assert!(BYTES <= SHORT_MAX) };
        let length = |found: KindLength| found.is_eager_of(BYTES).then_some(BYTES);
        self.take_short(source, want, buffer, length, Self::is_idle)
    }

    /// Returns whether no posted receive could be older and no message that has arrived could be
    /// older. One branch serves both questions.
    #[inline(always)]
    const fn is_idle(posted: &PostedQueue<M>, unexpected: &UnexpectedMessages<M>) -> bool {
        posted.is_empty() & unexpected.is_empty()
    }

    #[inline(always)]
    fn take_short(
        &mut self,
        source: u32,
        want: Want,
        buffer: &mut [u8],
        length: impl Fn(KindLength) -> Option<usize>,
        may_take: impl Fn(&PostedQueue<M>, &UnexpectedMessages<M>) -> bool,
    ) -> Bypass {
        // `ANY_SOURCE` is no index, so it ends here.
        let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
        let is_idle = || may_take(&self.posted, &self.unexpected);
        let mut taker = Taker { source, want, buffer, length, is_idle };
        // The code is written twice. Otherwise a variable would have to record which of the two
        // paths it was, for a further branch.
        let status = if let Some(found) = peer.paths.peek_baton() {
            let Some(status) = taker.take(found, peer.paths.lines_of_next(true)) else {
                return Bypass::Closed;
            };
            peer.paths.release_short(true);
            status
        } else if let Some(found) = peer.paths.peek_fastbox() {
            let Some(status) = taker.take(found, peer.paths.lines_of_next(false)) else {
                return Bypass::Closed;
            };
            peer.paths.release_short(false);
            status
        } else {
            return Bypass::Nothing;
        };
        peer.paths.count_in();
        Bypass::Received(status)
    }

    /// Delivers the packets of `context` that lie ready in the baton or fastbox from `source` to
    /// their receives, up to the first packet of another context. Returns whether there were any.
    /// For an embedder that does its own matching in other contexts.
    ///
    /// # Errors
    ///
    /// [`ProgressError`] from a delivery.
    pub fn serve_context(&mut self, source: u32, context: u32) -> Result<bool, ProgressError> {
        let mut moved = false;
        while let Some(peer) = self.peers.get(source as usize)
            && let Some((_, by_baton)) = peer.paths.find_next()
            && peer.paths.lines_of_next(by_baton).key().context() == context
            && self.take_from_fastbox(source)?
        {
            moved = true;
        }
        Ok(moved)
    }

    /// Receives any message that comes by baton, through the fastbox or in one parcel, under the
    /// conditions of [`Engine::recv_short`].
    #[inline(never)]
    pub fn recv_medium(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let idle = self.posted.is_empty() && self.unexpected.is_empty();
        self.take_medium(source, want, buffer, idle)
    }

    /// Receives the messages of [`Engine::recv_medium`] for an embedder that does its own matching,
    /// under the conditions of [`Engine::take_next_short`].
    #[inline(never)]
    pub fn take_next_medium(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        self.take_medium(source, want, buffer, true)
    }

    #[inline(always)]
    fn take_medium(&mut self, source: u32, want: Want, buffer: &mut [u8], idle: bool) -> Bypass {
        let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
        let Some((found, by_baton)) = peer.paths.find_next() else { return Bypass::Nothing };
        let message = peer.paths.lines_of_next(by_baton);
        let length = found.length();
        if length > buffer.len() || !peer.paths.next_holds(by_baton, length) {
            return Bypass::Closed;
        }
        if by_baton {
            peer.paths.prefetch(length);
        }
        let key = message.key();
        if !found.is_eager_of(length) || !want.accepts(key) || !idle {
            return self.take_parcel(source, want, buffer, idle);
        }
        let mut to = buffer.as_mut_ptr();
        message.copy(length, |from, piece| {
            // SAFETY: `copy` gives consecutive pieces of `length` bytes in all, each at most one
            // line's. The buffer has room for `length` bytes.
            unsafe {
                copy_piece(from.as_ptr(), to, piece);
                to = to.add(piece);
            }
        });
        peer.paths.release_next(by_baton, length);
        Bypass::Received(Status { source, tag: key.tag(), bytes: length })
    }

    /// Returns whether this rank's receive queue has a packet.
    #[inline(always)]
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.segment.rank_block(self.rank).recv_queue.has_news()
    }

    /// Returns the source at `place` in the list of open fastboxes, for a look by
    /// [`Engine::recv_short`]. Returns `None` if there are no more than `place` of them.
    #[inline(always)]
    #[must_use]
    pub fn inbox(&self, place: usize) -> Option<u32> {
        (place < self.inbox.len()).then(|| self.inbox.source_at(place))
    }

    /// Returns whether [`Engine::progress`] has work outside batons and fastboxes: receives that
    /// wait, sends and large messages under way, packets in the queue or from other nodes.
    #[inline(always)]
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.posted.is_empty()
            || !self.outbox.is_empty()
            || !self.transfers.is_empty()
            || self.has_network()
            || self.has_queued()
    }
}
