//! Where a buffer of a large message lies, and how the other side reaches it.

use core::ptr::NonNull;

use crate::layout::{Corrupt, Segment};
use crate::progress::Cursor;

/// What a rank tells the other side of a buffer. In a cookie: a number, and a word that says what the number means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// Not to be reached: it has several parts, or is not lent. 0.
    Nowhere,
    /// At an address of the rank's own memory. 1.
    Private(u64),
    /// So many bytes behind the start of the rank's heap, which everybody maps. 2.
    Heap(u64),
}

impl Place {
    /// Where what is left of `buffer` lies, a buffer of `rank`.
    pub(crate) fn of(buffer: &Cursor, segment: &Segment, rank: u32) -> Self {
        let Some(part) = buffer.in_one_part() else { return Self::Nowhere };
        match segment.heap_offset(rank, part.base, part.length) {
            Some(offset) => Self::Heap(offset),
            None => Self::Private(part.base.addr().get() as u64),
        }
    }

    /// As it stands in a cookie.
    pub(crate) const fn pack(self) -> (u64, u32) {
        match self {
            Self::Nowhere => (0, 0),
            Self::Private(address) => (address, 1),
            Self::Heap(offset) => (offset, 2),
        }
    }

    /// What a peer wrote into a cookie.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Place`] when the word has no meaning.
    pub(crate) const fn parse(number: u64, meaning: u32) -> Result<Self, Corrupt> {
        match meaning {
            0 => Ok(Self::Nowhere),
            1 => Ok(Self::Private(number)),
            2 => Ok(Self::Heap(number)),
            found => Err(Corrupt::Place { found }),
        }
    }

    /// How to reach the `length` bytes that `rank` says lie here.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Heap`] when they do not lie in its heap.
    pub(crate) fn reach(
        self,
        segment: &Segment,
        rank: u32,
        length: usize,
    ) -> Result<Option<Remote>, Corrupt> {
        Ok(match self {
            Self::Nowhere => None,
            Self::Private(address) => Some(Remote::Private(address)),
            Self::Heap(offset) => Some(Remote::Mapped(segment.heap_place(rank, offset, length)?)),
        })
    }
}

/// How this side reaches a buffer of the other's.
#[derive(Clone, Copy, Debug)]
pub enum Remote {
    /// By a system call: an address that the peer gave, for the kernel to check.
    Private(u64),
    /// By a copy: a place in the peer's heap.
    Mapped(NonNull<u8>),
}

impl Remote {
    /// The place `bytes` bytes further on, still in the buffer.
    pub(crate) fn after(self, bytes: usize) -> Self {
        match self {
            Self::Private(address) => Self::Private(address.wrapping_add(bytes as u64)),
            // SAFETY: within the buffer, all of which lies in the heap.
            Self::Mapped(place) => Self::Mapped(unsafe { place.add(bytes) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for place in [Place::Nowhere, Place::Private(0x7000), Place::Heap(0)] {
            let (number, meaning) = place.pack();
            assert_eq!(Place::parse(number, meaning), Ok(place));
        }
        assert_eq!(Place::parse(7, 3), Err(Corrupt::Place { found: 3 }));
    }
}
