//! Indices that are parsed before use.

use core::fmt;
use core::num::NonZeroU32;

/// The index of a cell in the segment, in `1 ..= cells`. Zero is the null link, so zero-filled
/// memory is empty.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct CellIndex(NonZeroU32);

impl CellIndex {
    /// The null link in shared memory.
    pub const NIL: u32 = 0;

    /// Parses a link that another process may have written. Returns `None` for the null link.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] if `raw` exceeds `cells`, the number of cells in the segment.
    #[inline(always)]
    pub const fn parse(raw: u32, cells: u32) -> Result<Option<Self>, Corrupt> {
        match NonZeroU32::new(raw) {
            None => Ok(None),
            Some(index) if raw <= cells => Ok(Some(Self(index))),
            Some(_) => Err(Corrupt::CellIndex { found: raw, cells }),
        }
    }

    /// Returns the value as shared memory stores it.
    #[inline(always)]
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0.get()
    }
}

/// A value in the segment that no correct peer writes. The segment is no longer trustworthy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Corrupt {
    /// A link or index exceeds the last cell.
    CellIndex {
        /// The value found.
        found: u32,
        /// The number of cells in the segment.
        cells: u32,
    },
    /// A cell or fastbox line names a source that is not a rank of the segment.
    Source {
        /// The value found.
        found: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// A payload length exceeds its container.
    Length {
        /// The value found, in bytes.
        found: u64,
        /// Size of the container, in bytes.
        max: u64,
    },
    /// A packet kind is unknown to this version.
    Kind {
        /// The value found.
        found: u8,
    },
    /// A message is out of order: it is not the next one of its source, and the source's fastbox
    /// does not explain the gap.
    Sequence {
        /// The sending rank.
        source: u32,
        /// The sequence number found.
        found: u64,
        /// The sequence number expected next.
        expected: u64,
    },
    /// A rank was told to use a barrier slot that does not exist or belongs to another group.
    BarrierSlot {
        /// The slot's number.
        found: u32,
    },
    /// A parcel does not exist, or does not belong to the peer that hands it over.
    Parcel {
        /// The parcel's number.
        found: u32,
        /// Number of parcels of the pair.
        parcels: u32,
    },
    /// A buffer has a kind of memory that is unknown to this version.
    Place {
        /// The value found.
        found: u32,
    },
    /// A message between a member of a window and a lock manager is invalid.
    Lock {
        /// The value found.
        found: u32,
    },
    /// The word of a window's lock has a state that no operation of its members produces.
    LockWord {
        /// The value found.
        found: u64,
        /// Number of members of the window.
        members: u32,
    },
    /// The word of a lock names a holder that is not a process of the job.
    Holder {
        /// The rank found.
        found: u32,
    },
    /// Bytes are outside the heap that a peer said they are in.
    Heap {
        /// Offset of the first byte from the heap's start, in bytes.
        found: u64,
        /// Number of bytes.
        length: u64,
        /// Size of the heap, in bytes.
        heap: u64,
    },
    /// A message uses an RTR that its receive did not send, or does not use the RTR that the peer
    /// took.
    Rtr,
    /// A fastbox credit says that the receiver consumed more than was sent.
    Credit {
        /// Number of lines consumed, as the receiver wrote it.
        found: u64,
        /// Number of lines sent.
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
                write!(f, "source {found} is out of range: the segment has {ranks} ranks")
            }
            Self::Length { found, max } => {
                write!(f, "payload length {found} bytes exceeds its container's {max} bytes")
            }
            Self::Kind { found } => write!(f, "packet kind {found} is unknown"),
            Self::Sequence { source, found, expected } => {
                write!(f, "message {found} of rank {source} arrived instead of message {expected}")
            }
            Self::BarrierSlot { found } => {
                write!(f, "barrier slot {found} does not belong to the group that uses it")
            }
            Self::Parcel { found, parcels } => {
                write!(f, "parcel {found} of the pair's {parcels} does not belong to the peer")
            }
            Self::Place { found } => write!(f, "memory kind {found} is unknown"),
            Self::Lock { found } => {
                write!(
                    f,
                    "a message between a window's member and a lock manager is invalid ({found})"
                )
            }
            Self::LockWord { found, members } => write!(
                f,
                "a window's lock word is {found:#x}, which none of its {members} members writes"
            ),
            Self::Holder { found } => {
                write!(f, "a lock is held by rank {found}, which does not exist")
            }
            Self::Heap { found, length, heap } => {
                write!(f, "{length} bytes at offset {found} exceed a heap of {heap} bytes")
            }
            Self::Rtr => f.write_str("a message and its receive disagree about their RTR"),
            Self::Credit { found, sent } => {
                write!(f, "fastbox credit {found} exceeds the {sent} lines sent")
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
