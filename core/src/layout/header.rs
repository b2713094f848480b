//! The first page of a segment: its magic number, its layout and its job.

use core::fmt;

use memoffset::offset_of;
use static_assertions::{const_assert, const_assert_eq};

use super::{PlanError, SegmentConfig, SegmentPlan};
use crate::golden;

/// `STRAIT` and two control bytes, little-endian. No text file and no zeroed page starts with it.
pub const MAGIC: u64 = u64::from_le_bytes(*b"STRAIT\x1a\x0a");

/// Version of the segment's layout. Processes with different versions refuse each other.
pub const LAYOUT_VERSION: u32 = 22;

/// The header of a segment. The creator of the segment writes it once; afterwards it is only read.
///
/// | offset | size | field            | meaning                                           |
/// |-------:|-----:|------------------|---------------------------------------------------|
/// |      0 |    8 | `magic`          | [`MAGIC`]                                         |
/// |      8 |    4 | `layout_version` | [`LAYOUT_VERSION`]                                |
/// |     12 |    4 | `ranks`          | ranks of the job                                  |
/// |     16 |    8 | `nonce`          | random number of the job; guards against mix-ups  |
/// |     24 |    8 | `total_bytes`    | length of the whole segment, bytes                |
/// |     32 |    4 | `cells_per_rank` | [`SegmentConfig`]                                        |
/// |     36 |    4 | `cell_payload`   | [`SegmentConfig`], bytes                                 |
/// |     40 |    4 | `fastbox_lines`  | [`SegmentConfig`]                                        |
/// |     44 |    4 | `baton_lines`    | [`SegmentConfig`]                                        |
/// |     48 |    4 | `ring_granules`  | [`SegmentConfig`]                                        |
/// |     52 |    4 | `parcels`        | [`SegmentConfig`]                                        |
/// |     56 |    8 | `heap_bytes`     | [`SegmentConfig`]                                        |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct SegmentHeader {
    magic: u64,
    layout_version: u32,
    ranks: u32,
    nonce: u64,
    total_bytes: u64,
    cells_per_rank: u32,
    cell_payload: u32,
    fastbox_lines: u32,
    baton_lines: u32,
    ring_granules: u32,
    parcels: u32,
    heap_bytes: u64,
}

golden::structure!(SegmentHeader {
    magic,
    layout_version,
    ranks,
    nonce,
    total_bytes,
    cells_per_rank,
    cell_payload,
    fastbox_lines,
    baton_lines,
    ring_granules,
    parcels,
    heap_bytes
});

const_assert_eq!(size_of::<SegmentHeader>(), 64);
const_assert_eq!(offset_of!(SegmentHeader, layout_version), 8);
const_assert_eq!(offset_of!(SegmentHeader, nonce), 16);
const_assert_eq!(offset_of!(SegmentHeader, fastbox_lines), 40);
const_assert!(size_of::<SegmentHeader>() <= super::PAGE);

impl SegmentHeader {
    /// Creates the header of a segment with the layout of `plan`, for the job with this `nonce`.
    #[must_use]
    pub const fn new(plan: &SegmentPlan, nonce: u64) -> Self {
        let config = plan.config();
        Self {
            magic: MAGIC,
            layout_version: LAYOUT_VERSION,
            ranks: config.ranks,
            nonce,
            total_bytes: plan.total_bytes() as u64,
            cells_per_rank: config.cells_per_rank,
            cell_payload: config.cell_payload,
            fastbox_lines: config.fastbox_lines,
            baton_lines: config.baton_lines,
            ring_granules: config.ring_granules,
            parcels: config.parcels,
            heap_bytes: config.heap_bytes,
        }
    }

    /// Returns the nonce in a segment's first bytes, or `None` if they are not the header of a
    /// segment of any version.
    #[must_use]
    pub fn nonce_of(start: &[u8; size_of::<Self>()]) -> Option<u64> {
        let eight = |at| start[at..].first_chunk().copied().map(u64::from_ne_bytes);
        eight(offset_of!(Self, nonce)).filter(|_| eight(0) == Some(MAGIC))
    }

    /// Checks a header that another process wrote and returns the plan that it describes.
    ///
    /// `mapped` is the length in bytes of the mapping that contains the header. `nonce` is the
    /// job's nonce from the boot exchange.
    ///
    /// # Errors
    ///
    /// [`AttachError`], with the numbers that differ.
    pub fn check(&self, mapped: usize, nonce: u64) -> Result<SegmentPlan, AttachError> {
        if self.magic != MAGIC {
            return Err(AttachError::Magic { found: self.magic });
        }
        if self.layout_version != LAYOUT_VERSION {
            return Err(AttachError::Version { found: self.layout_version });
        }
        if self.nonce != nonce {
            return Err(AttachError::Nonce { found: self.nonce, expected: nonce });
        }
        let plan = SegmentPlan::new(SegmentConfig {
            ranks: self.ranks,
            cells_per_rank: self.cells_per_rank,
            cell_payload: self.cell_payload,
            fastbox_lines: self.fastbox_lines,
            baton_lines: self.baton_lines,
            ring_granules: self.ring_granules,
            parcels: self.parcels,
            heap_bytes: self.heap_bytes,
        })
        .map_err(AttachError::Plan)?;
        if plan.total_bytes() as u64 != self.total_bytes || plan.total_bytes() > mapped {
            return Err(AttachError::Length {
                mapped,
                header: self.total_bytes,
                planned: plan.total_bytes(),
            });
        }
        Ok(plan)
    }
}

/// The reason to refuse a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AttachError {
    /// The mapping is shorter than a header.
    TooShort {
        /// Length of the mapping, in bytes.
        mapped: usize,
    },
    /// The first eight bytes are not [`MAGIC`].
    Magic {
        /// The bytes found.
        found: u64,
    },
    /// The segment has another layout version.
    Version {
        /// The version found.
        found: u32,
    },
    /// The segment belongs to another job.
    Nonce {
        /// The nonce in the segment.
        found: u64,
        /// The nonce of this job.
        expected: u64,
    },
    /// The header's numbers do not describe a valid segment.
    Plan(PlanError),
    /// The lengths of the header, the plan and the mapping disagree.
    Length {
        /// Length of the mapping, in bytes.
        mapped: usize,
        /// Length in the header, in bytes.
        header: u64,
        /// Length of a segment with the header's numbers, in bytes.
        planned: usize,
    },
    /// The rank is outside the segment.
    Rank {
        /// The rank that tried to attach.
        rank: u32,
        /// Number of ranks in the segment.
        ranks: u32,
    },
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { mapped } => {
                write!(f, "{mapped} bytes are too short for a segment header")
            }
            Self::Magic { found } => {
                write!(f, "not a strait segment: it begins with {found:#018x}, not {MAGIC:#018x}")
            }
            Self::Version { found } => write!(
                f,
                "the segment has layout version {found}, this library has {LAYOUT_VERSION}: \
                 start every rank and the launcher with the same version of strait"
            ),
            Self::Nonce { found, expected } => write!(
                f,
                "the segment belongs to another job: its nonce is {found:#x}, this job's is \
                 {expected:#x}"
            ),
            Self::Plan(error) => write!(f, "the segment header is damaged: {error}"),
            Self::Length { mapped, header, planned } => write!(
                f,
                "the segment header is damaged: it says {header} bytes, its numbers make {planned} \
                 bytes, {mapped} bytes are mapped"
            ),
            Self::Rank { rank, ranks } => {
                write!(f, "rank {rank} is out of range: the segment has {ranks} ranks")
            }
        }
    }
}

impl core::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Plan(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> SegmentPlan {
        SegmentPlan::new(SegmentConfig::new(3)).unwrap()
    }

    #[test]
    fn a_header_gives_its_plan_back() {
        let header = SegmentHeader::new(&plan(), 7);
        assert_eq!(header.check(plan().total_bytes(), 7), Ok(plan()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let good = SegmentHeader::new(&plan(), 7);
        let mapped = plan().total_bytes();
        let check = |header: SegmentHeader| header.check(mapped, 7);
        assert_eq!(check(SegmentHeader { magic: 1, ..good }), Err(AttachError::Magic { found: 1 }));
        assert_eq!(
            check(SegmentHeader { layout_version: 99, ..good }),
            Err(AttachError::Version { found: 99 })
        );
        assert_eq!(
            check(SegmentHeader { nonce: 8, ..good }),
            Err(AttachError::Nonce { found: 8, expected: 7 })
        );
        assert_eq!(
            check(SegmentHeader { ranks: 0, ..good }),
            Err(AttachError::Plan(PlanError::NoRanks))
        );
        assert!(matches!(
            check(SegmentHeader { total_bytes: 5, ..good }),
            Err(AttachError::Length { header: 5, .. })
        ));
        assert!(matches!(good.check(mapped - 1, 7), Err(AttachError::Length { .. })));
    }
}
