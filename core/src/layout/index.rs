//! Indices that are parsed, not trusted.

use core::fmt;
use core::num::NonZeroU32;

/// The index of a cell in the segment, in `1 ..= cells`. Zero is the null link, so zero-filled memory is empty.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct CellIndex(NonZeroU32);

impl CellIndex {
    /// The null link as it stands in shared memory.
    pub const NIL: u32 = 0;

    /// Parses a link that another process may have written: `None` for the null link.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] when `raw` is beyond `cells`, the number of cells in the segment.
    #[inline(always)]
    pub const fn parse(raw: u32, cells: u32) -> Result<Option<Self>, Corrupt> {
        match NonZeroU32::new(raw) {
            None => Ok(None),
            Some(index) if raw <= cells => Ok(Some(Self(index))),
            Some(_) => Err(Corrupt::CellIndex { found: raw, cells }),
        }
    }

    /// The value as it stands in shared memory.
    #[inline(always)]
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0.get()
    }
}

/// A value in the segment that no correct peer writes. The segment can no longer be trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Corrupt {
    /// A link or index beyond the last cell.
    CellIndex {
        /// The value found.
        found: u32,
        /// The number of cells in the segment.
        cells: u32,
    },
    /// A cell or fastbox line names a source that is no rank of the segment.
    Source {
        /// The value found.
        found: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// A payload length beyond what its container holds.
    Length {
        /// The value found, bytes.
        found: u64,
        /// The most the container holds, bytes.
        max: u64,
    },
    /// A packet kind that this version does not know.
    Kind {
        /// The value found.
        found: u8,
    },
    /// A message out of its order: neither the next of its source nor explained by the source's fastbox.
    Sequence {
        /// The sending rank.
        source: u32,
        /// The sequence number found.
        found: u64,
        /// The sequence number that had to come next.
        expected: u64,
    },
    /// A rank was told to use a barrier slot that does not exist or is another group's.
    BarrierSlot {
        /// The slot's number.
        found: u32,
    },
    /// A parcel that does not exist, or that is not the peer's to hand over.
    Parcel {
        /// The parcel's number.
        found: u32,
        /// Parcels of the pair.
        parcels: u32,
    },
    /// A buffer that is said to lie in a kind of memory that this version does not know.
    Place {
        /// The value found.
        found: u32,
    },
    /// What a member of a window and a lock manager of it cannot say to each other.
    Lock {
        /// The value found.
        found: u32,
    },
    /// The word of a window's lock names no state that its members can have brought about.
    LockWord {
        /// The value found.
        found: u64,
        /// Members of the window.
        members: u32,
    },
    /// The word of a lock names a holder that is no process of the job.
    Holder {
        /// The rank found.
        found: u32,
    },
    /// Bytes that are said to lie in a rank's heap, and do not.
    Heap {
        /// Where they begin, bytes from the heap's start.
        found: u64,
        /// Their number.
        length: u64,
        /// Bytes of the heap.
        heap: u64,
    },
    /// A message that uses an RTR that its receive has not sent, or does not use the one that the peer has taken.
    Rtr,
    /// A fastbox credit that says the receiver consumed more than was sent.
    Credit {
        /// Lines consumed, as the receiver wrote it.
        found: u64,
        /// Lines sent.
        sent: u64,
    },
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::CellIndex { found, cells } => {
                write!(f, "cell index {found} is beyond the segment's {cells} cells")
            }
            Self::Source { found, ranks } => {
                write!(f, "source {found} is no rank of a segment of {ranks} ranks")
            }
            Self::Length { found, max } => {
                write!(f, "payload length {found} bytes exceeds its container's {max} bytes")
            }
            Self::Kind { found } => write!(f, "packet kind {found} is unknown"),
            Self::Sequence { source, found, expected } => write!(
                f,
                "message {found} of rank {source} arrived where message {expected} had to come next"
            ),
            Self::BarrierSlot { found } => {
                write!(f, "barrier slot {found} does not belong to the group that was sent there")
            }
            Self::Parcel { found, parcels } => {
                write!(f, "parcel {found} of the pair's {parcels} is not the peer's to hand over")
            }
            Self::Place { found } => write!(f, "memory of the kind {found} is unknown"),
            Self::Lock { found } => {
                write!(
                    f,
                    "a member of a window and a lock manager do not understand each other at {found}"
                )
            }
            Self::LockWord { found, members } => write!(
                f,
                "a word of a window's lock is {found:#x}, which none of its {members} members wrote"
            ),
            Self::Holder { found } => {
                write!(f, "a lock is held by rank {found}, which does not exist")
            }
            Self::Heap { found, length, heap } => {
                write!(f, "{length} bytes at {found} do not lie in a heap of {heap} bytes")
            }
            Self::Rtr => f.write_str("a message and the receive that asked for it do not meet"),
            Self::Credit { found, sent } => {
                write!(f, "fastbox credit {found} is not within the {sent} lines sent")
            }
        }
    }
}

impl core::error::Error for Corrupt {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_null_or_within_the_pool_or_an_error() {
        assert_eq!(CellIndex::parse(0, 4), Ok(None));
        assert_eq!(CellIndex::parse(4, 4).map(|i| i.map(CellIndex::raw)), Ok(Some(4)));
        assert_eq!(CellIndex::parse(5, 4), Err(Corrupt::CellIndex { found: 5, cells: 4 }));
        assert_eq!(
            CellIndex::parse(u32::MAX, 4),
            Err(Corrupt::CellIndex { found: u32::MAX, cells: 4 })
        );
    }
}
