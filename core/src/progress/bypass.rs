//! Receiving round matching: the latency path.

use core::ptr::NonNull;

use super::{Engine, ProgressError, Status};
use crate::matching::{ANY_TAG, Posted, Unexpected};
use crate::memory::Memory;
use crate::shm::{LineMessage, SHORT_MAX, copy_piece};
use crate::wire::{Key, KindLength};

/// What [`Engine::recv_short`] found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bypass {
    /// The message, which is received.
    Received(Status),
    /// Nothing from this source yet. Looking again may help.
    Nothing,
    /// This receive cannot go round matching; use [`Engine::irecv`].
    Closed,
}

/// Context and tag that a receive wants, as a comparison of one word.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    key: u64,
    mask: u64,
}

impl Want {
    /// Messages of `context` with `tag`, or with any tag for [`ANY_TAG`].
    #[inline(always)]
    #[must_use]
    pub const fn new(context: u32, tag: u32) -> Self {
        let mask = if tag == ANY_TAG { !0 << 32 } else { !0 };
        Self { key: Key::new(context, tag).0, mask }
    }

    /// Messages of `context` with `tag` alone: one that is [`ANY_TAG`] accepts none.
    #[inline(always)]
    #[must_use]
    pub const fn exactly(context: u32, tag: u32) -> Self {
        Self { key: Key::new(context, tag).0, mask: !0 }
    }

    #[inline(always)]
    pub(super) const fn accepts(self, key: Key) -> bool {
        (key.0 ^ self.key) & self.mask == 0
    }
}

/// What a short way takes: messages of so many bytes, to a buffer, if nothing is posted or unexpected.
struct Taker<'a, L, I> {
    source: u32,
    want: Want,
    buffer: &'a mut [u8],
    /// The length, if the receive takes such a one.
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
        // SAFETY: `length` lets no more bytes pass than the buffer has room for, and no more than are short.
        unsafe { message.copy_short(NonNull::from(&mut *self.buffer).cast(), bytes) };
        Some(Status { source: self.source, tag: key.tag(), bytes })
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Receives a message of up to [`SHORT_MAX`] bytes from `source` if it is the next one in the fastbox and nothing
    /// is posted or unexpected: the posted-receive bypass (`[Nemesis07]` §3.3).
    ///
    /// This is the latency path: no branch here is taken that the common case does not need.
    #[inline(always)]
    pub fn recv_short(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let most = SHORT_MAX.min(buffer.len());
        let length = |found: KindLength| found.eager_up_to(most);
        self.take_short(source, want, buffer, length, Self::is_idle)
    }

    /// As [`Engine::recv_short`], for an embedder that does its own matching: it posts receives for none of the messages that it
    /// wants here, and has received all of them that were unexpected.
    #[inline(always)]
    pub fn take_next_short(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let most = SHORT_MAX.min(buffer.len());
        let length = |found: KindLength| found.eager_up_to(most);
        self.take_short(source, want, buffer, length, |_, _| true)
    }

    /// True when the next message from `source` has come by baton or fastbox.
    #[inline(always)]
    #[must_use]
    pub fn has_next(&self, source: u32) -> bool {
        self.peers.get(source as usize).is_some_and(|peer| peer.find_next().is_some())
    }

    /// As [`Engine::recv_short`], for a message that fills the buffer.
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

    /// Whether no receive is posted that could be an older one's, and no message has come that could be older. One branch for both.
    #[inline(always)]
    const fn is_idle(posted: &Posted<M>, unexpected: &Unexpected<M>) -> bool {
        posted.is_empty() & unexpected.is_empty()
    }

    #[inline(always)]
    fn take_short(
        &mut self,
        source: u32,
        want: Want,
        buffer: &mut [u8],
        length: impl Fn(KindLength) -> Option<usize>,
        may_take: impl Fn(&Posted<M>, &Unexpected<M>) -> bool,
    ) -> Bypass {
        // `ANY_SOURCE` is no index.
        let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
        let is_idle = || may_take(&self.posted, &self.unexpected);
        let mut taker = Taker { source, want, buffer, length, is_idle };
        // Twice the same, or what tells the two ways apart would have to be kept and looked at again.
        let status = if let Some(found) = peer.baton.peek(peer.next_in) {
            let Some(status) = taker.take(found, peer.baton.message()) else {
                return Bypass::Closed;
            };
            peer.baton.release();
            status
        } else if let Some(found) = peer.fastbox_in.peek(peer.next_in) {
            let Some(status) = taker.take(found, peer.fastbox_in.message()) else {
                return Bypass::Closed;
            };
            peer.fastbox_in.release_short();
            status
        } else {
            return Bypass::Nothing;
        };
        peer.next_in += 1;
        Bypass::Received(status)
    }

    /// Hands what has come by baton or fastbox from `source` to the receives that were posted before, as far as it lies
    /// ready. A program that posts many receives at once catches up with its sender by this, and its further ones go round
    /// matching. What is wrong is reported by [`Engine::progress`], which meets it again.
    #[inline(always)]
    pub fn serve_posted(&mut self, source: u32) {
        if !self.posted.is_empty() && (source as usize) < self.peers.len() {
            while !self.posted.is_empty() && self.take_from_fastbox(source) == Ok(true) {}
        }
    }

    /// Hands what has come by baton or fastbox from `source` in `context` to its receives, up to the first packet of another
    /// context. Says whether there was any. For an embedder that does its own matching in other contexts.
    ///
    /// # Errors
    ///
    /// [`ProgressError`].
    pub fn serve_context(&mut self, source: u32, context: u32) -> Result<bool, ProgressError> {
        let mut moved = false;
        while let Some(peer) = self.peers.get(source as usize)
            && let Some((_, by_baton)) = peer.find_next()
            && peer.lines_of_next(by_baton).key().context() == context
            && self.take_from_fastbox(source)?
        {
            moved = true;
        }
        Ok(moved)
    }

    /// As [`Engine::recv_short`], for any message that comes by baton, through the fastbox, or in one parcel.
    #[inline(never)]
    pub fn recv_medium(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let idle = self.posted.is_empty() && self.unexpected.is_empty();
        self.take_medium(source, want, buffer, idle)
    }

    /// As [`Engine::take_next_short`], for the messages of [`Engine::recv_medium`].
    #[inline(never)]
    pub fn take_next_medium(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        self.take_medium(source, want, buffer, true)
    }

    #[inline(always)]
    fn take_medium(&mut self, source: u32, want: Want, buffer: &mut [u8], idle: bool) -> Bypass {
        let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
        let Some((found, by_baton)) = peer.find_next() else { return Bypass::Nothing };
        let message = peer.lines_of_next(by_baton);
        let length = found.length();
        if length > buffer.len() || !peer.next_holds(by_baton, length) {
            return Bypass::Closed;
        }
        if by_baton {
            peer.baton.prefetch(length);
        }
        let key = message.key();
        if !found.is_eager_of(length) || !want.accepts(key) || !idle {
            return self.take_parcel(source, want, buffer, idle);
        }
        let mut to = buffer.as_mut_ptr();
        message.copy(length, |from, piece| {
            // SAFETY: `copy` gives consecutive pieces of `length` bytes in all, each at most a line's, which the buffer has
            // room for.
            unsafe {
                copy_piece(from.as_ptr(), to, piece);
                to = to.add(piece);
            }
        });
        peer.release_next(by_baton, length);
        Bypass::Received(Status { source, tag: key.tag(), bytes: length })
    }

    /// True when something is in this rank's queue.
    #[inline(always)]
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.segment.rank_block(self.rank).recv_queue.has_news()
    }

    /// A source whose baton and fastbox are worth a look by [`Engine::recv_short`]; `None` when there are no more than `place` of them.
    #[inline(always)]
    #[must_use]
    pub fn inbox(&self, place: usize) -> Option<u32> {
        (place < self.inboxes.len()).then(|| self.inboxes.get(place))
    }

    /// True when there is something to do for [`Engine::progress`] that does not lie in batons and fastboxes: receives that wait,
    /// sends and large messages under way, messages in the queue or from other nodes.
    #[inline(always)]
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.posted.is_empty()
            || !self.blocked.is_empty()
            || !self.no_transfers()
            || self.has_network()
            || self.has_queued()
    }

    /// True when waiting for the next message of `source`'s fastbox alone, by [`Engine::recv_short`], would starve
    /// something else or could miss it: messages elsewhere, operations under way.
    #[inline(always)]
    #[must_use]
    pub fn must_progress(&self, source: u32) -> bool {
        !self.unexpected.is_empty()
            || self.has_work()
            || (0..self.inboxes.len()).any(|place| {
                let other = self.inboxes.get(place);
                let peer = &self.peers[other as usize];
                other != source && peer.find_next().is_some()
            })
    }
}
