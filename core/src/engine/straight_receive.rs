//! Receives of messages in several lines that go round matching.

use super::tuning::LINES_FIRST;
use super::{Bypass, Engine, Status, Want};
use crate::memory::Memory;

impl<M: Memory + Clone> Engine<M> {
    /// Receives a message that goes by lines from `source`, if it is the next one in the fastbox,
    /// fits `buffer`, and nothing is posted or unexpected. It does for several lines what
    /// [`Engine::recv_short`] does for one. [`Engine::recv_medium`] receives what this function
    /// leaves: messages in the baton, and those that reach the ring's end.
    #[inline(always)]
    pub fn recv_straight(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let idle = self.posted.is_empty() & self.unexpected.is_empty();
        // `ANY_SOURCE` is no index, so it ends here.
        let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
        let Some(found) = peer.paths.peek_fastbox() else { return Bypass::Nothing };
        let Some(bytes) = found.eager_up_to(LINES_FIRST.min(buffer.len())) else {
            return Bypass::Closed;
        };
        let key = peer.paths.lines_of_next(false).key();
        if !want.accepts(key) || !idle || !peer.paths.take_straight(&mut buffer[..bytes]) {
            return Bypass::Closed;
        }
        Bypass::Received(Status { source, tag: key.tag(), bytes })
    }

    /// Fetches the lines behind the first of the next message from `source` ahead of time, for a
    /// receive of `length` bytes that polls for it.
    #[inline(always)]
    pub fn prefetch_next(&self, source: u32, length: usize) {
        if let Some(peer) = self.peers.get(source as usize) {
            peer.paths.prefetch_next(length);
        }
    }
}
