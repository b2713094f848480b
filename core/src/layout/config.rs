//! The numbers that determine a segment's layout, and their defaults.

/// Most ranks of a job with 32 pages for each pair by default.
pub const LONG_FASTBOXES: u32 = 16;

/// Most ranks of a job with 64 cells for each rank and eight pages for each pair by default.
pub const FULL_PAIRS: u32 = 64;

/// Most ranks of a job with cells of 16 KiB and a page for each pair by default.
pub const SMALL_PAIRS: u32 = 128;

/// Most ranks of a job with large copy rings and all parcels by default.
pub const FULL_RINGS: u32 = 4096;

/// Most ranks of a job with a default segment in an address space of 47 bits.
pub const RANKS_MAX: u32 = 26_000;

/// The numbers that determine a segment's layout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SegmentConfig {
    /// Number of ranks of the job, at least 1. Ranks of other nodes have places without memory.
    pub ranks: u32,
    /// Number of cells that each rank owns, at least 2.
    pub cells_per_rank: u32,
    /// Payload of one cell in bytes, a multiple of 64 and at least 1024.
    pub cell_payload: u32,
    /// Lines in the fastbox ring of an ordered pair; 1 is the single buffer of `[Nemesis07]` §2.
    pub fastbox_lines: u32,
    /// Number of lines in the baton of a pair; 0 means no baton.
    pub baton_lines: u32,
    /// Granules of [`GRANULE`](crate::shm::GRANULE) bytes in the copy ring of an ordered pair; 0
    /// means no copy ring.
    pub ring_granules: u32,
    /// Parcels of [`PARCEL`](crate::wire::PARCEL) bytes that a pair shares, an even number; 0 means
    /// no parcels.
    pub parcels: u32,
    /// Maximum size of one rank's heap in bytes, a multiple of [`PAGE`](super::PAGE); 0 means no
    /// heap. It reserves only address space: memory backs the heap as it is allocated.
    pub heap_bytes: u64,
}

impl SegmentConfig {
    /// Returns the defaults for `ranks` ranks:
    ///
    /// - 64 cells of 16 KiB each per rank, which stay in the first two cache levels of both sides;
    /// - 32 pages for each pair, with a baton that holds 1 KiB and two fastboxes of 55 KiB;
    /// - 64 KiB of parcels on either side for each pair that exchanges longer messages, 192 more if
    ///   they are longer than that, and 256 more if they are longer than both together;
    /// - for large messages, a copy ring of 1 MiB each way, more than the second cache level;
    /// - room for 4 GiB in each heap.
    ///
    /// More than [`LONG_FASTBOXES`] ranks save memory: each pair has eight pages. More than
    /// [`FULL_PAIRS`] save more: each has 16 cells, and each pair one page. More than
    /// [`SMALL_PAIRS`]: cells of 4 KiB, and four pairs in a page. More than [`FULL_RINGS`] save
    /// address space, of which each pair takes a part whether it communicates or not: smaller
    /// rings, fewer parcels, smaller heaps. It suffices for [`RANKS_MAX`] ranks.
    #[must_use]
    pub const fn new(ranks: u32) -> Self {
        let full = Self {
            ranks,
            cells_per_rank: 64,
            cell_payload: 16 * 1024,
            fastbox_lines: 1013,
            baton_lines: 20,
            ring_granules: 256,
            parcels: 64,
            heap_bytes: 4 << 30,
        };
        if ranks <= LONG_FASTBOXES {
            return full;
        }
        if ranks <= FULL_PAIRS {
            return Self { fastbox_lines: 245, ..full };
        }
        if ranks <= SMALL_PAIRS {
            return Self { cells_per_rank: 16, fastbox_lines: 21, ..full };
        }
        let small_pairs = Self {
            cells_per_rank: 16,
            cell_payload: 4 * 1024,
            fastbox_lines: 5,
            baton_lines: 4,
            ..full
        };
        if ranks <= FULL_RINGS {
            return small_pairs;
        }
        Self { ring_granules: 16, parcels: 8, heap_bytes: 1 << 30, ..small_pairs }
    }
}
