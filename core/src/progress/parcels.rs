//! Messages that go in parcels, from hand to hand: longer than a few lines, and not so long that they had better wait for
//! their receives.

use core::ptr::NonNull;

use super::packet::{Packet, Payload};
use super::peer::Outbox;
use super::request::Outgoing;
use super::{Bypass, Engine, ProgressError, SentShort, Status, Want};
use crate::layout::Corrupt;
use crate::memory::Memory;
use crate::shm::{PARCEL, copy_short};
use crate::wire::{Key, Kind, ParcelHead};

impl<M: Memory + Clone> Engine<M> {
    /// True when messages of `length` bytes to `destination` want the memory of parcels, and nobody has said yet whether
    /// there is any. Back the range that [`crate::layout::Plan::parcel_range`] gives for (this rank, `destination`), and say
    /// how it went with [`Engine::parcels_backed`]. Until then such messages take other ways.
    #[inline]
    #[must_use]
    pub fn wants_parcels(&self, destination: u32, length: usize) -> bool {
        self.tuning.suits_parcels(length)
            && self.segment.plan().parcel_bytes() > 0
            && self.peers.get(destination as usize).is_some_and(|peer| !peer.parcels_asked)
    }

    /// The answer to [`Engine::wants_parcels`].
    pub fn parcels_backed(&mut self, destination: u32, backed: bool) {
        let Some(peer) = self.peers.get_mut(destination as usize) else { return };
        let asked = core::mem::replace(&mut peer.parcels_asked, true);
        if backed && !asked {
            peer.parcels.open();
        }
    }

    /// Whether a message of `total` bytes to `destination` goes in parcels now.
    pub(super) fn goes_in_parcels(&self, destination: u32, total: usize) -> bool {
        let peer = &self.peers[destination as usize];
        self.tuning.suits_parcels(total)
            && peer.outbox == Outbox::Open
            && peer.parcels.hold(total)
            && !self.must_offer(destination, total)
    }

    /// Sends the next part of a message in a parcel, if one is here and there is room for the packet that names it.
    pub(super) fn push_parcel(
        &mut self,
        destination: u32,
        message: &mut Outgoing,
    ) -> Result<bool, Corrupt> {
        let Some((number, place)) = self.peers[destination as usize].parcels.next() else {
            return Ok(false);
        };
        let (mut data, length) = (message.data, message.left().min(PARCEL));
        // SAFETY: the parcel is in our hands and has room for so much; it lies in the segment, where no user buffer does.
        unsafe { data.gather(place, length) };
        let head = head(message.total, message.sent, length, number);
        let sent = self.push_control(destination, Kind::Parcel, message.key, &head.pack())?;
        if sent {
            self.peers[destination as usize].parcels.hand_over(number);
            message.data = data;
            message.sent += length;
        }
        Ok(sent)
    }

    /// As [`Engine::send_medium`], whose checks have been made, for a message that suits parcels.
    #[inline(always)]
    pub(super) fn send_parcel(&mut self, destination: u32, key: Key, payload: &[u8]) -> SentShort {
        let (peer, length) = (&mut self.peers[destination as usize], payload.len());
        let Some((number, place)) = peer.parcels.next().filter(|_| length <= PARCEL) else {
            return SentShort::No;
        };
        // SAFETY: as in `push_parcel`.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(payload).cast(), length) };
        let head = head(length, 0, length, number).pack();
        let fill = |to: NonNull<u8>, _, _| {
            // SAFETY: `send_lines` gives room for the head, which fits one line.
            unsafe { copy_short(head.as_ptr(), to.as_ptr(), ParcelHead::LENGTH) };
        };
        // Corruption is reported by the way that can, as in `send_medium`.
        if !peer.send_lines(Kind::Parcel, key, ParcelHead::LENGTH, fill).unwrap_or(false) {
            return SentShort::No;
        }
        peer.parcels.hand_over(number);
        peer.eager.set(key);
        peer.next_out += 1;
        if peer.bell.get().is_wanted() { SentShort::ToSleeper } else { SentShort::Yes }
    }

    /// As [`Engine::recv_medium`], for a message in one parcel.
    #[inline(never)]
    pub(super) fn take_parcel(
        &mut self,
        source: u32,
        want: Want,
        buffer: &mut [u8],
        idle: bool,
    ) -> Bypass {
        let peer = &mut self.peers[source as usize];
        let Some((found, by_baton)) = peer.find_next() else { return Bypass::Nothing };
        let message = peer.lines_of_next(by_baton);
        let key = message.key();
        if found.kind() != Ok(Kind::Parcel) || !want.accepts(key) || !idle {
            return Bypass::Closed;
        }
        let mut head = [0; ParcelHead::LENGTH];
        // SAFETY: the array has the length of a head.
        unsafe { message.copy_short(NonNull::from(&mut head).cast(), ParcelHead::LENGTH) };
        let Ok(head) = ParcelHead::parse(head) else { return Bypass::Closed };
        let Ok(place) = peer.parcels.find(head.number) else { return Bypass::Closed };
        let bytes = head.length as usize;
        if head.total != u64::from(head.length) || bytes > buffer.len() {
            return Bypass::Closed;
        }
        // SAFETY: the parcel is ours to read and holds so many bytes (`parse`); it lies in the segment, where no user buffer
        // does; the buffer has room for them.
        unsafe { place.copy_to_nonoverlapping(NonNull::from(buffer).cast(), bytes) };
        peer.release_next(by_baton, ParcelHead::LENGTH);
        peer.parcels.keep(head.number);
        Bypass::Received(Status { source, tag: key.tag(), bytes })
    }

    /// Delivers the part of a message that `packet` names, which lies in a parcel.
    pub(super) fn deliver_parcel(&mut self, packet: &Packet) -> Result<(), ProgressError> {
        let source = packet.envelope.source as usize;
        let ParcelHead { total, offset, length, number } =
            ParcelHead::parse(packet.head_of_payload()?)?;
        let place = self.peers[source].parcels.find(number)?;
        let kind = match offset {
            0 if u64::from(length) == total => Kind::Eager,
            0 => Kind::EagerFirst,
            _ => Kind::EagerMore,
        };
        // No message is longer than the address space is (`parse`).
        let (total, length) = (total as usize, length as usize);
        self.deliver(Packet { kind, total, length, payload: Payload::Whole(place), ..*packet })?;
        self.peers[source].parcels.keep(number);
        Ok(())
    }
}

/// Of the part of `length` bytes at `offset` of a message of `total` bytes. A part fits a parcel.
#[inline(always)]
const fn head(total: usize, offset: usize, length: usize, number: u32) -> ParcelHead {
    ParcelHead { total: total as u64, offset: offset as u64, length: length as u32, number }
}
