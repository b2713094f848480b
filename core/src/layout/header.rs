//! The first page of a segment: what it is, which layout it has, whose it is.

use core::fmt;

use memoffset::offset_of;
use static_assertions::{const_assert, const_assert_eq};

use super::{Config, Plan, PlanError, golden};

/// `STRAIT` and two control bytes, little-endian: no text file and no zeroed page begins like this.
pub const MAGIC: u64 = u64::from_le_bytes(*b"STRAIT\x1a\x0a");

/// Version of everything that lies in the segment. Processes with different versions refuse each other.
pub const LAYOUT_VERSION: u32 = 9;

/// The header, written once by whoever makes the segment and only read afterwards.
///
/// | offset | size | field            | meaning                                   |
/// |-------:|-----:|------------------|-------------------------------------------|
/// |      0 |    8 | `magic`          | [`MAGIC`]                                 |
/// |      8 |    4 | `layout_version` | [`LAYOUT_VERSION`]                        |
/// |     12 |    4 | `ranks`          | ranks on this node                        |
/// |     16 |    8 | `nonce`          | drawn for each job; guards against mix-ups |
/// |     24 |    8 | `total_bytes`    | length of the whole segment               |
/// |     32 |    4 | `cells_per_rank` | [`Config`]                                |
/// |     36 |    4 | `cell_payload`   | [`Config`], bytes                         |
/// |     40 |    4 | `fastbox_lines`  | [`Config`]                                |
/// |     44 |    4 | `baton_lines`    | [`Config`]                                |
/// |     48 |    4 | `ring_granules`  | [`Config`]                                |
/// |     52 |    4 | `parcels`        | [`Config`]                                |
/// |     56 |    8 | `heap_bytes`     | [`Config`]                                |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Header {
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

golden::structure!(Header {
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

const_assert_eq!(size_of::<Header>(), 64);
const_assert_eq!(offset_of!(Header, layout_version), 8);
const_assert_eq!(offset_of!(Header, nonce), 16);
const_assert_eq!(offset_of!(Header, fastbox_lines), 40);
const_assert!(size_of::<Header>() <= super::PAGE);

impl Header {
    /// The header of a segment laid out by `plan` for the job that drew `nonce`.
    #[must_use]
    pub const fn new(plan: &Plan, nonce: u64) -> Self {
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

    /// The nonce that a segment's first bytes hold; `None` when they are not those of a segment of this version.
    #[must_use]
    pub fn nonce_of(start: &[u8; size_of::<Self>()]) -> Option<u64> {
        let eight = |at| start[at..].first_chunk().copied().map(u64::from_ne_bytes);
        let version = LAYOUT_VERSION.to_ne_bytes();
        let is_ours = eight(0) == Some(MAGIC)
            && start[offset_of!(Self, layout_version)..].starts_with(&version);
        eight(offset_of!(Self, nonce)).filter(|_| is_ours)
    }

    /// Checks a header that somebody else wrote and gives the plan it stands for.
    ///
    /// `mapped` is the length of the mapping the header lies in, bytes; `nonce` the number that the boot
    /// exchange said this job has.
    ///
    /// # Errors
    ///
    /// [`AttachError`], each with the numbers that differ.
    pub fn check(&self, mapped: usize, nonce: u64) -> Result<Plan, AttachError> {
        if self.magic != MAGIC {
            return Err(AttachError::Magic { found: self.magic });
        }
        if self.layout_version != LAYOUT_VERSION {
            return Err(AttachError::Version { found: self.layout_version });
        }
        if self.nonce != nonce {
            return Err(AttachError::Nonce { found: self.nonce, expected: nonce });
        }
        let plan = Plan::new(Config {
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

/// Why a segment was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AttachError {
    /// The mapping is too short to hold even a header.
    TooShort {
        /// Length of the mapping, bytes.
        mapped: usize,
    },
    /// The first eight bytes are not [`MAGIC`].
    Magic {
        /// The bytes found.
        found: u64,
    },
    /// Another layout version.
    Version {
        /// The version found.
        found: u32,
    },
    /// Another job's segment.
    Nonce {
        /// The nonce in the segment.
        found: u64,
        /// The nonce of this job.
        expected: u64,
    },
    /// The header's numbers describe no segment.
    Plan(PlanError),
    /// The header's length, the plan's and the mapping's disagree.
    Length {
        /// Length of the mapping, bytes.
        mapped: usize,
        /// Length in the header, bytes.
        header: u64,
        /// Length of a segment with the header's numbers, bytes.
        planned: usize,
    },
    /// The rank is no rank of this segment.
    Rank {
        /// The rank that wanted to attach.
        rank: u32,
        /// Ranks in the segment.
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
                "the segment belongs to another job: its nonce is {found:#x}, this job's is {expected:#x}"
            ),
            Self::Plan(error) => write!(f, "the segment header is damaged: {error}"),
            Self::Length { mapped, header, planned } => write!(
                f,
                "the segment header is damaged: it says {header} bytes, its numbers make {planned} bytes, \
                 {mapped} bytes are mapped"
            ),
            Self::Rank { rank, ranks } => {
                write!(f, "rank {rank} is no rank of a segment of {ranks} ranks")
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

    fn plan() -> Plan {
        Plan::new(Config::new(3)).unwrap()
    }

    #[test]
    fn a_header_gives_its_plan_back() {
        let header = Header::new(&plan(), 7);
        assert_eq!(header.check(plan().total_bytes(), 7), Ok(plan()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let good = Header::new(&plan(), 7);
        let mapped = plan().total_bytes();
        let check = |header: Header| header.check(mapped, 7);
        assert_eq!(check(Header { magic: 1, ..good }), Err(AttachError::Magic { found: 1 }));
        assert_eq!(
            check(Header { layout_version: 99, ..good }),
            Err(AttachError::Version { found: 99 })
        );
        assert_eq!(
            check(Header { nonce: 8, ..good }),
            Err(AttachError::Nonce { found: 8, expected: 7 })
        );
        assert_eq!(check(Header { ranks: 0, ..good }), Err(AttachError::Plan(PlanError::NoRanks)));
        assert!(matches!(
            check(Header { total_bytes: 5, ..good }),
            Err(AttachError::Length { header: 5, .. })
        ));
        assert!(matches!(good.check(mapped - 1, 7), Err(AttachError::Length { .. })));
    }
}
