//! A packet, independent of the path on which it came.

use core::ptr::NonNull;

use crate::buffer::Cursor;
use crate::matching::Envelope;
use crate::shm::LineMessage;
use crate::wire::{Corrupt, PacketKind};

/// A packet with checked numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) envelope: Envelope,
    pub(super) kind: PacketKind,
    /// Length of the whole message, in bytes. For [`PacketKind::Rts`] and other control packets,
    /// length of the packet.
    pub(super) total: usize,
    /// Length of this packet's payload, in bytes.
    pub(super) length: usize,
    pub(super) payload: PacketPayload,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PacketPayload {
    /// In one piece, in a cell or a parcel.
    Whole(NonNull<u8>),
    Lines(LineMessage),
    /// In the buffer of a send of this rank.
    Own(Cursor),
    /// Not here: it comes later, out of a stream.
    Later,
}

impl Packet {
    /// Copies the payload, or as much of it as there is room for.
    pub(super) fn scatter_to(&self, cursor: &mut Cursor) {
        let mut take = |from, piece| {
            // SAFETY: the payload holds `length` bytes of the segment, which was checked where the
            // packet was made, and no user buffer overlaps the segment. Or it is the buffer of a
            // send, which nothing else may change meanwhile (contract of `isend`).
            unsafe { cursor.scatter(from, piece) };
        };
        match self.payload {
            PacketPayload::Whole(from) => take(from, self.length),
            PacketPayload::Lines(message) => message.copy(self.length, take),
            PacketPayload::Own(data) => {
                data.pieces(self.length, |part| take(part.base, part.length));
            }
            PacketPayload::Later => {}
        }
    }

    /// Returns the payload of a packet that must have exactly `N` bytes.
    pub(super) fn head_of_payload<const N: usize>(&self) -> Result<[u8; N], Corrupt> {
        if self.length != N {
            return Err(Corrupt::Length { found: self.length as u64, max: N as u64 });
        }
        if let PacketPayload::Lines(message) = self.payload {
            return Ok(message.payload());
        }
        let mut bytes = [0; N];
        let part = crate::buffer::Part { base: NonNull::from(&mut bytes).cast(), length: N };
        // SAFETY: the array lives as long as the cursor.
        self.scatter_to(&mut unsafe { Cursor::contiguous(part) });
        Ok(bytes)
    }

    /// Returns whether this packet is its whole message.
    pub(super) fn completes(&self) -> bool {
        self.length == self.total
    }
}
