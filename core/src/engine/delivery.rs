//! Messages with a sender that wants to know that they have been taken, for an embedder that does
//! its own matching.
//!
//! They go through the fastbox alone. The credit with which the receiver gives lines back also
//! reports the delivery. No message is sent for it, and the sender looks at any time.

use super::Mark;
use core::ptr::NonNull;

use super::{Engine, SentShort};
use crate::buffer::copy::copy_piece;
use crate::matching::TAG_MAX;
use crate::memory::Memory;
use crate::wire::Key;

impl<M: Memory + Clone> Engine<M> {
    /// Sends a message through the fastbox, if that has room. Returns `None` if nothing was sent.
    #[must_use]
    pub fn send_marked(
        &mut self,
        destination: u32,
        key: Key,
        payload: &[u8],
    ) -> Option<(Mark, SentShort)> {
        let peer = self.peers.get(destination as usize)?;
        let closed = !peer.paths.is_open() || key.tag() > TAG_MAX;
        if closed || payload.len() > self.tuning.fastbox_max || self.is_told_to_keep(destination) {
            return None;
        }
        let peer = &mut self.peers[destination as usize];
        let fill = |to: NonNull<u8>, offset, piece| {
            // SAFETY: `send` asks for pieces of the payload, each at most one line's, and gives
            // room in the segment for each.
            unsafe { copy_piece(payload.as_ptr().add(offset), to.as_ptr(), piece) };
        };
        // Corruption is reported by `isend`: the caller uses it next, and it meets the same
        // corruption.
        if !peer.paths.send_in_fastbox(key, payload.len(), fill).unwrap_or(false) {
            return None;
        }
        peer.eager.set(key);
        peer.paths.count_out();
        let sent = if peer.wants_bell() { SentShort::ToSleeper } else { SentShort::Yes };
        Some((Mark(peer.paths.lines_sent()), sent))
    }

    /// Returns whether `destination` has taken the message of `mark`, and has published that.
    #[must_use]
    pub fn is_taken(&mut self, destination: u32, mark: Mark) -> bool {
        let peer = self.peers.get_mut(destination as usize);
        // Corruption is reported by the next send.
        peer.and_then(|peer| peer.paths.lines_consumed().ok()).is_some_and(|lines| lines >= mark.0)
    }

    /// Publishes to `source` that the messages from its fastbox have been taken.
    pub fn tell_taken(&mut self, source: u32) {
        if let Some(peer) = self.peers.get_mut(source as usize) {
            peer.paths.tell_consumed();
        }
    }
}
