//! The location of a large message's buffer, and how the other side accesses it.

use core::ptr::NonNull;

use crate::buffer::Cursor;
use crate::layout::Segment;
use crate::wire::Corrupt;

/// What a rank tells the other side about the location of a buffer. A cookie holds a number and a
/// word that gives its meaning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WireAddress {
    /// Not accessible: the buffer has several parts, or is not lent. The word is 0.
    Nowhere,
    /// An address in the rank's private memory. The word is 1.
    Private(u64),
    /// An offset in bytes from the start of the rank's heap, which every rank maps. The word is 2.
    Heap(u64),
}

impl WireAddress {
    /// Returns the location of the rest of `buffer`, a buffer of `rank`.
    pub(crate) fn of(buffer: &Cursor, segment: &Segment, rank: u32) -> Self {
        let Some(part) = buffer.in_one_part() else { return Self::Nowhere };
        match segment.heap_offset(rank, part.base, part.length) {
            Some(offset) => Self::Heap(offset),
            None => Self::Private(part.base.addr().get() as u64),
        }
    }

    /// Returns the number and the word for a cookie.
    pub(crate) const fn pack(self) -> (u64, u32) {
        match self {
            Self::Nowhere => (0, 0),
            Self::Private(address) => (address, 1),
            Self::Heap(offset) => (offset, 2),
        }
    }

    /// Parses a location that a peer wrote into a cookie.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Place`] for an unknown word.
    pub(crate) const fn parse(number: u64, meaning: u32) -> Result<Self, Corrupt> {
        match meaning {
            0 => Ok(Self::Nowhere),
            1 => Ok(Self::Private(number)),
            2 => Ok(Self::Heap(number)),
            found => Err(Corrupt::Place { found }),
        }
    }

    /// Returns how to access the `length` bytes of `rank` at this location.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Heap`] if they are outside its heap.
    pub(crate) fn reach(
        self,
        segment: &Segment,
        rank: u32,
        length: usize,
    ) -> Result<Option<RemoteBuffer>, Corrupt> {
        Ok(match self {
            Self::Nowhere => None,
            Self::Private(address) => Some(RemoteBuffer::Private(address)),
            Self::Heap(offset) => {
                Some(RemoteBuffer::Mapped(segment.heap_place(rank, offset, length)?))
            }
        })
    }
}

/// When a receiver may read its sender's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReadTime {
    /// At any time: both sides move the message.
    Always,
    /// While the sender is not waiting inside the library. While it is, it moves the message
    /// through the copy ring.
    SenderAway,
}

impl ReadTime {
    /// Bit of the word that gives the meaning of a location.
    const AWAY: u32 = 1 << 8;

    /// Adds this time to the word of a location.
    pub(crate) const fn pack(self, meaning: u32) -> u32 {
        match self {
            Self::Always => meaning,
            Self::SenderAway => meaning | Self::AWAY,
        }
    }

    /// Separates the time from the word of a location.
    pub(crate) const fn parse(word: u32) -> (u32, Self) {
        let time = if word & Self::AWAY == 0 { Self::Always } else { Self::SenderAway };
        (word & !Self::AWAY, time)
    }
}

/// How this side accesses a buffer of the other side.
#[derive(Clone, Copy, Debug)]
pub enum RemoteBuffer {
    /// By a system call, at an address that the peer gave and the kernel checks.
    Private(u64),
    /// By a copy, at a place in the peer's heap.
    Mapped(NonNull<u8>),
}

impl RemoteBuffer {
    /// Returns the place `bytes` bytes further on, which is still in the buffer.
    pub(crate) fn after(self, bytes: usize) -> Self {
        match self {
            Self::Private(address) => Self::Private(address.wrapping_add(bytes as u64)),
            // SAFETY: the caller stays within the buffer, all of which lies in the heap.
            Self::Mapped(place) => Self::Mapped(unsafe { place.add(bytes) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for place in [WireAddress::Nowhere, WireAddress::Private(0x7000), WireAddress::Heap(0)] {
            let (number, meaning) = place.pack();
            assert_eq!(WireAddress::parse(number, meaning), Ok(place));
        }
        for time in [ReadTime::Always, ReadTime::SenderAway] {
            assert_eq!(ReadTime::parse(time.pack(1)), (1, time));
        }
        assert_eq!(WireAddress::parse(7, 3), Err(Corrupt::Place { found: 3 }));
    }
}
