//! Sends by the short paths: by the baton, through the fastbox, in one parcel. The latency path.

use super::SentShort;
use core::ptr::NonNull;

use super::Engine;
use crate::buffer::copy::copy_piece;
use crate::buffer::{Cursor, Part};
use crate::matching::TAG_MAX;
use crate::memory::Memory;
use crate::wire::{Key, PacketKind, SHORT_MAX};

impl<M: Memory + Clone> Engine<M> {
    /// Sends a message of up to [`SHORT_MAX`] bytes if that needs nothing but a free line in the
    /// fastbox.
    ///
    /// This is the latency path: it takes no branch that the common case does not need.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&mut self, destination: u32, key: Key, payload: &[u8]) -> SentShort {
        let Some(peer) = self.peers.get_mut(destination as usize) else { return SentShort::No };
        if payload.len() > SHORT_MAX || key.tag() > TAG_MAX || !peer.paths.send_short(key, payload)
        {
            return SentShort::No;
        }
        peer.eager.set(key);
        peer.paths.count_out();
        if peer.wants_bell() { SentShort::ToSleeper } else { SentShort::Yes }
    }

    /// Sends a message of more than [`SHORT_MAX`] bytes that goes by lines, if that needs nothing
    /// but enough free lines in a row.
    ///
    /// The receiver's wish to keep messages is read where the short path stops: what leaves before
    /// is bounded by the lines of the fastbox.
    #[inline(always)]
    #[must_use]
    pub fn send_straight(&mut self, destination: u32, key: Key, payload: &[u8]) -> SentShort {
        let Some(peer) = self.peers.get_mut(destination as usize) else { return SentShort::No };
        if payload.len() <= SHORT_MAX
            || !self.tuning.by_lines_first(payload.len())
            || key.tag() > TAG_MAX
            || !peer.paths.send_straight(key, payload)
        {
            return SentShort::No;
        }
        peer.eager.set(key);
        peer.paths.count_out();
        if peer.wants_bell() { SentShort::ToSleeper } else { SentShort::Yes }
    }

    /// Sends any message that goes by baton, through the fastbox or in one parcel. Unlike
    /// [`Engine::send_short`], it also continues where the ring's short path stops.
    #[inline(never)]
    #[must_use]
    pub fn send_medium(&mut self, destination: u32, key: Key, payload: &[u8]) -> SentShort {
        if destination == self.rank && key.tag() <= TAG_MAX {
            let part = Part { base: NonNull::from(payload).cast(), length: payload.len() };
            // SAFETY: the payload is borrowed until the message is copied.
            let data = unsafe { Cursor::contiguous(part) };
            // An error is reported by `isend`, as below.
            if self.give_to_oneself(key, data).unwrap_or(false) {
                let is_asleep = self.peers[destination as usize].wants_bell();
                return if is_asleep { SentShort::ToSleeper } else { SentShort::Yes };
            }
        }
        let Some(peer) = self.peers.get(destination as usize) else { return SentShort::No };
        let closed = !peer.paths.is_open() || key.tag() > TAG_MAX;
        if closed || self.is_told_to_keep(destination) {
            return SentShort::No;
        }
        if !self.tuning.by_lines_first(payload.len())
            && let Some(sent) = self.send_longer(destination, key, payload)
        {
            return sent;
        }
        // It fetches the lines all at once, as the general way does not.
        let sent = self.send_straight(destination, key, payload);
        if sent != SentShort::No {
            self.peers[destination as usize].paths.foresee_send(payload.len());
            return sent;
        }
        let peer = &mut self.peers[destination as usize];
        let fill = |to: NonNull<u8>, offset, piece| {
            // SAFETY: `send` asks for pieces of the payload, each at most one line's, and gives
            // room in the segment for each.
            unsafe { copy_piece(payload.as_ptr().add(offset), to.as_ptr(), piece) };
        };
        // Corruption is reported by `isend`: the caller uses it next, and it meets the same
        // corruption.
        if !peer.paths.send_lines(PacketKind::Eager, key, payload.len(), fill).unwrap_or(false) {
            return SentShort::No;
        }
        peer.eager.set(key);
        peer.paths.count_out();
        if peer.wants_bell() { SentShort::ToSleeper } else { SentShort::Yes }
    }

    /// Sends a message for which a parcel is better than lines. The caller has made the checks of
    /// [`Engine::send_medium`]. Returns `None` if the message goes by lines.
    #[inline(never)]
    fn send_longer(&mut self, destination: u32, key: Key, payload: &[u8]) -> Option<SentShort> {
        let large = payload.len() > self.tuning.eager_max;
        if large && self.negotiation.is_asked(destination, key) {
            return Some(SentShort::No);
        }
        if self.tuning.suits_parcels(payload.len()) {
            let sent = self.send_parcel(destination, key, payload);
            // The caller has to ask for the memory first.
            let is_without_memory = || {
                let peer = &self.peers[destination as usize];
                self.parcels_without_memory(peer, payload.len()).is_some()
            };
            if sent != SentShort::No || is_without_memory() {
                return Some(sent);
            }
        }
        (payload.len() > self.tuning.fastbox_max).then_some(SentShort::No)
    }
}
