//! Sends by the short paths: by the baton, through the fastbox, in one parcel. The latency path.

use super::SentShort;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use super::{Engine, Peer};
use crate::buffer::copy::copy_piece;
use crate::matching::TAG_MAX;
use crate::memory::Memory;
use crate::wire::{Corrupt, Key, MORE_PER_LINE, PacketKind, SHORT_MAX};

/// Lengths in bytes that go through the ring although this rank has the baton: messages of two or
/// three lines.
///
/// For an answer by the baton, the core must take back each line but the first from the asker's
/// cache before it can publish. The next lines of the ring are nearly all in its own cache. With
/// more lines the ring loses what it gains.
///
/// Measured one-way latency by the baton and through the ring, for 64 bytes: 97 and 73 ns between
/// near cores, 340 and 245 ns between far ones. From 256 bytes on there is no difference.
const RING_FIRST: RangeInclusive<usize> = SHORT_MAX + 1..=SHORT_MAX + 2 * MORE_PER_LINE;

impl<M: Memory + Clone> Engine<M> {
    /// Sends a message of up to [`SHORT_MAX`] bytes if that needs nothing but a free line in the
    /// fastbox.
    ///
    /// This is the latency path: it takes no branch that the common case does not need.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&mut self, destination: u32, key: Key, payload: &[u8]) -> SentShort {
        let Some(peer) = self.peers.get_mut(destination as usize) else { return SentShort::No };
        if payload.len() > SHORT_MAX
            || key.tag() > TAG_MAX
            || !(peer.baton.send_short(peer.next_out, key, payload)
                || peer.fastbox_out.send_short(peer.next_out, key, payload))
        {
            return SentShort::No;
        }
        peer.eager.set(key);
        peer.next_out += 1;
        if peer.bell.get().is_wanted() { SentShort::ToSleeper } else { SentShort::Yes }
    }

    /// Sends any message that goes by baton, through the fastbox or in one parcel. Unlike
    /// [`Engine::send_short`], it also continues where the ring's short path stops.
    #[inline(never)]
    #[must_use]
    pub fn send_medium(&mut self, destination: u32, key: Key, payload: &[u8]) -> SentShort {
        let Some(peer) = self.peers.get(destination as usize) else { return SentShort::No };
        let closed = !peer.short_ways || key.tag() > TAG_MAX;
        if closed || self.is_told_to_keep(destination) {
            return SentShort::No;
        }
        if !self.tuning.by_lines_first(payload.len())
            && let Some(sent) = self.send_longer(destination, key, payload)
        {
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
        if !peer.send_lines(PacketKind::Eager, key, payload.len(), fill).unwrap_or(false) {
            return SentShort::No;
        }
        peer.eager.set(key);
        peer.next_out += 1;
        if peer.bell.get().is_wanted() { SentShort::ToSleeper } else { SentShort::Yes }
    }

    /// Sends a message for which a parcel is better than lines. The caller has made the checks of
    /// [`Engine::send_medium`]. Returns `None` if the message goes by lines.
    #[inline(never)]
    fn send_longer(&mut self, destination: u32, key: Key, payload: &[u8]) -> Option<SentShort> {
        let large = payload.len() > self.tuning.eager_max;
        if large && self.asked_by.is_asked(destination, key) {
            return Some(SentShort::No);
        }
        if self.tuning.suits_parcels(payload.len()) {
            let sent = self.send_parcel(destination, key, payload);
            // The caller has to ask for the memory first.
            if sent != SentShort::No || self.wants_parcels(destination, payload.len()) {
                return Some(sent);
            }
        }
        (payload.len() > self.tuning.fastbox_max).then_some(SentShort::No)
    }
}

impl Peer {
    /// Sends a whole message by the baton or through the fastbox, whichever has room. The better of
    /// the two is tried first.
    #[inline(always)]
    pub(super) fn send_lines(
        &mut self,
        kind: PacketKind,
        key: Key,
        length: usize,
        fill: impl Fn(NonNull<u8>, usize, usize),
    ) -> Result<bool, Corrupt> {
        let sequence = self.next_out;
        if RING_FIRST.contains(&length)
            && self.fastbox_out.send(sequence, kind, key, length, &fill)?
        {
            return Ok(true);
        }
        if self.baton.send(sequence, kind, key, length, &fill) {
            return Ok(true);
        }
        self.fastbox_out.send(sequence, kind, key, length, fill)
    }
}
