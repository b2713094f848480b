//! Why a segment cannot be laid out.

use core::fmt;

use super::{PAGE, SegmentConfig};
use crate::wire::PARCELS_MAX;

/// The reason why a segment cannot be laid out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// The job has no ranks.
    NoRanks,
    /// A rank needs at least two cells: one to fill while the other is in flight.
    TooFewCells {
        /// Number of cells per rank requested.
        found: u32,
    },
    /// The cell payload is smaller than 1 KiB or not a multiple of 64 bytes.
    CellPayload {
        /// Number of bytes requested.
        found: u32,
    },
    /// A fastbox has no lines.
    NoFastboxLines,
    /// The number of parcels is odd or exceeds [`PARCELS_MAX`].
    Parcels {
        /// Number of parcels of a pair requested.
        found: u32,
    },
    /// The length of a heap is not a multiple of 4096 bytes.
    HeapBytes {
        /// Number of bytes requested.
        found: u64,
    },
    /// The offsets overflow.
    TooLarge {
        /// The configuration requested.
        config: SegmentConfig,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoRanks => f.write_str("a job needs at least 1 rank"),
            Self::TooFewCells { found } => {
                write!(f, "{found} cells per rank are too few: at least 2 are needed")
            }
            Self::CellPayload { found } => {
                write!(
                    f,
                    "a cell payload of {found} bytes is not a multiple of 64 of at least 1024"
                )
            }
            Self::NoFastboxLines => f.write_str("a fastbox needs at least 1 line"),
            Self::Parcels { found } => {
                write!(
                    f,
                    "{found} parcels of a pair are not an even number of at most {PARCELS_MAX}"
                )
            }
            Self::HeapBytes { found } => {
                write!(f, "a heap of {found} bytes is not a multiple of {PAGE}")
            }
            Self::TooLarge { config } => write!(
                f,
                "a segment of {} ranks with {} cells of {} bytes and a heap of {} bytes each does \
                 not fit the address space",
                config.ranks, config.cells_per_rank, config.cell_payload, config.heap_bytes
            ),
        }
    }
}

impl core::error::Error for PlanError {}
