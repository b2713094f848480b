//! A packet, wherever it was found.

use core::ptr::NonNull;

use super::Cursor;
use crate::layout::Corrupt;
use crate::matching::Envelope;
use crate::shm::LineMessage;
use crate::wire::Kind;

/// A packet as it was found, its numbers checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) envelope: Envelope,
    pub(super) kind: Kind,
    /// Length of the whole message, bytes; of [`Kind::Rts`], of the packet.
    pub(super) total: usize,
    /// Length of this packet's payload, bytes.
    pub(super) length: usize,
    pub(super) payload: Payload,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Payload {
    /// In one piece: in a cell or a parcel.
    Whole(NonNull<u8>),
    Lines(LineMessage),
    /// It comes later, out of a stream: the packet has none.
    Later,
}

impl Packet {
    /// Copies the payload, or as much of it as there is room for.
    pub(super) fn scatter_to(&self, cursor: &mut Cursor) {
        let mut take = |from, piece| {
            // SAFETY: the payload holds `length` bytes (checked where the packet was made) of the segment, where no user
            // buffer lies.
            unsafe { cursor.scatter(from, piece) };
        };
        match self.payload {
            Payload::Whole(from) => take(from, self.length),
            Payload::Lines(message) => message.copy(self.length, take),
            Payload::Later => {}
        }
    }

    /// The payload of a packet that has exactly `N` bytes.
    pub(super) fn head_of_payload<const N: usize>(&self) -> Result<[u8; N], Corrupt> {
        if self.length != N {
            return Err(Corrupt::Length { found: self.length as u64, max: N as u64 });
        }
        let mut bytes = [0; N];
        let part = super::Part { base: NonNull::from(&mut bytes).cast(), length: N };
        // SAFETY: the array is there for as long as the cursor.
        self.scatter_to(&mut unsafe { Cursor::contiguous(part) });
        Ok(bytes)
    }

    /// True when this packet is its whole message.
    pub(super) fn completes(&self) -> bool {
        self.length == self.total
    }
}
