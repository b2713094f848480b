//! Messages whose sender wants to know that they have been taken, for an embedder that does its own matching.
//!
//! They go through the fastbox alone: the credit by which its receiver gives lines back says it. Nothing is sent for it, and the
//! sender looks when it likes.

use core::ptr::NonNull;

use super::{Engine, SentShort};
use crate::matching::TAG_MAX;
use crate::memory::Memory;
use crate::shm::copy_piece;
use crate::wire::{Key, Kind};

/// A message through the fastbox: the lines that have been consumed when it has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark(u64);

impl<M: Memory + Clone> Engine<M> {
    /// Sends a message through the fastbox, if that has room. `None`: nothing was sent.
    #[must_use]
    pub fn send_marked(
        &mut self,
        destination: u32,
        key: Key,
        payload: &[u8],
    ) -> Option<(Mark, SentShort)> {
        let peer = self.peers.get(destination as usize)?;
        let closed = !peer.short_ways || key.tag() > TAG_MAX;
        if closed || payload.len() > self.tuning.fastbox_max || self.is_told_to_keep(destination) {
            return None;
        }
        let peer = &mut self.peers[destination as usize];
        let fill = |to: NonNull<u8>, offset, piece| {
            // SAFETY: `send` asks for pieces of the payload, each at most a line's, and gives room for each in the segment.
            unsafe { copy_piece(payload.as_ptr().add(offset), to.as_ptr(), piece) };
        };
        let sequence = peer.next_out;
        // Corruption is reported by the way that can: the caller's `isend` meets it again.
        let sent = peer.fastbox_out.send(sequence, Kind::Eager, key, payload.len(), fill);
        if !sent.unwrap_or(false) {
            return None;
        }
        peer.eager.set(key);
        peer.next_out += 1;
        let woken = peer.bell.get().is_wanted();
        let sent = if woken { SentShort::ToSleeper } else { SentShort::Yes };
        Some((Mark(peer.fastbox_out.sent()), sent))
    }

    /// Whether `destination` has taken the message of `mark`, and said so.
    #[must_use]
    pub fn is_taken(&mut self, destination: u32, mark: Mark) -> bool {
        let peer = self.peers.get_mut(destination as usize);
        // Corruption is reported by who sends.
        peer.and_then(|peer| peer.fastbox_out.consumed().ok()).is_some_and(|lines| lines >= mark.0)
    }

    /// Says to `source` that what has come through its fastbox has been taken.
    pub fn tell_taken(&mut self, source: u32) {
        if let Some(peer) = self.peers.get_mut(source as usize)
            && peer.inbox_open
        {
            peer.fastbox_in.tell();
        }
    }
}
