//! What unexpected messages take: counted for each source, which is told when it is too much.

use super::arrive::{Body, Message};
use super::{Engine, Peer};
use crate::memory::Memory;
use crate::sync::CACHE_LINE;

/// What the queue's entries for one message take, bytes: so that a flood of empty messages counts, too.
const ENTRIES: usize = 256;

/// Private memory in unexpected messages whose data are here ([`Engine::held`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Held {
    /// Bytes now.
    pub bytes: usize,
    /// The most there ever were.
    pub peak: usize,
}

impl<M: Memory + Clone> Engine<M> {
    /// Private memory that unexpected messages take, of all sources together.
    #[must_use]
    pub const fn held(&self) -> Held {
        self.held
    }

    /// Counts a message that came in. Before its cell or line goes back: [`crate::shm::Flow::set_full`].
    ///
    /// An embedder that does its own matching says so of what it keeps of `source`, a rank of the segment, for a receive to come.
    pub fn hold(&mut self, source: u32, length: usize) {
        let bytes = cost(length);
        self.held.bytes += bytes;
        self.held.peak = self.held.peak.max(self.held.bytes);
        let peer = &mut self.peers[source as usize];
        peer.held += bytes;
        if !peer.full && peer.held > self.tuning.unexpected_max {
            peer.full = true;
            peer.baton.shut();
            self.tell_full(source, true);
        }
    }

    /// Says to `source` whether there is room for messages of its that nobody waits for.
    fn tell_full(&mut self, source: u32, full: bool) {
        if self.peers[source as usize].stream.is_none() {
            self.segment.flow(source, self.rank).set_full(full);
        } else if let Some(stream) = self.stream_mut(source) {
            stream.tell_full(full);
        }
    }

    /// Forgets a message that nobody had received, wherever it stands.
    pub(super) fn take_unexpected(&mut self, number: u32) -> Option<Message> {
        let message = self.messages.remove(number)?;
        self.leave_matching(message.standing);
        if let Body::Here(_) = message.body {
            self.let_go(message.envelope.source, message.total);
        }
        Some(message)
    }

    /// Counts a message that went. A source may go on when half of its share is free, so that it is not told at each message.
    ///
    /// An embedder says so of what it said to [`Engine::hold`].
    pub fn let_go(&mut self, source: u32, length: usize) {
        let bytes = cost(length);
        self.held.bytes -= bytes;
        let peer: &mut Peer = &mut self.peers[source as usize];
        peer.held -= bytes;
        if peer.full && peer.held <= self.tuning.unexpected_max / 2 {
            peer.full = false;
            if peer.short_ways {
                peer.baton.open();
            }
            self.tell_full(source, false);
        }
    }
}

/// Bytes that an unexpected message of this length takes.
const fn cost(length: usize) -> usize {
    // No message is longer than the address space is.
    length.next_multiple_of(CACHE_LINE) + ENTRIES
}
