//! The plan of a segment: where everything lies, from four numbers that every rank agrees on.

use core::fmt;

use super::{Header, PAGE, RankBlock};
use crate::shm::{
    BarrierSlot, Cell, Descriptor, Flow, GRANULE, GranuleHead, Line, Mark, PARCEL, PARCELS_MAX,
    PIECES_MAX,
};
use crate::sync::CACHE_LINE;

/// Barrier slots in a segment: groups that can have barriers on shared words at a time. Further ones use messages.
pub const BARRIER_SLOTS: u32 = 32;

/// Large messages that one rank can have on their way at a time, each with a descriptor of its own. More go through
/// cells. A window of 64 is what benchmarks keep open, and costs two pages.
pub const DESCRIPTORS_PER_RANK: u32 = 64;

/// Where the heaps begin is a multiple of it, so that huge pages can lie behind them, bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// The numbers that fix a segment's shape.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// Ranks of the job, at least 1. Those of other nodes have their places too, with no memory behind them.
    pub ranks: u32,
    /// Cells that each rank owns, at least 2.
    pub cells_per_rank: u32,
    /// Payload of one cell, bytes; a multiple of 64.
    pub cell_payload: u32,
    /// Lines in the fastbox ring of one ordered pair; 1 gives the single-buffer fastbox of `[Nemesis07]` §2.
    pub fastbox_lines: u32,
    /// Lines in the baton of a pair; 0 goes without.
    pub baton_lines: u32,
    /// Granules of [`GRANULE`] bytes in the copy ring of one ordered pair; 0 goes without.
    pub ring_granules: u32,
    /// Parcels of [`PARCEL`] bytes that a pair shares, an even number; 0 goes without.
    pub parcels: u32,
    /// Most bytes that one rank can have in its heap at a time, a multiple of [`PAGE`]; 0 goes without. Address space, no
    /// memory: that is backed as it is allocated.
    pub heap_bytes: u64,
}

impl Config {
    /// The defaults for `ranks` ranks: 64 cells of 16 KiB each, which stay in the first two cache levels of both sides;
    /// for each pair two pages, with a baton that holds 1 KiB and two fastboxes; for each that exchanges longer messages 64 KiB
    /// of parcels on either side; for each ordered pair that exchanges large messages a copy ring of 1 MiB, which is more than
    /// the second cache level keeps; room for 4 GiB in each heap.
    #[must_use]
    pub const fn new(ranks: u32) -> Self {
        Self {
            ranks,
            cells_per_rank: 64,
            cell_payload: 16 * 1024,
            fastbox_lines: 53,
            baton_lines: 20,
            ring_granules: 256,
            parcels: 8,
            heap_bytes: 4 << 30,
        }
    }
}

/// Offsets and sizes, in bytes from the segment's start. Two processes with equal [`Config`] have equal plans.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plan {
    config: Config,
    rank_blocks: usize,
    barriers: usize,
    flows: usize,
    flow_stride: usize,
    descriptors: usize,
    cells: usize,
    cell_stride: usize,
    pairs: usize,
    pair_stride: usize,
    parcels: usize,
    parcel_stride: usize,
    rings: usize,
    ring_stride: usize,
    heaps: usize,
    heap_stride: usize,
    total: usize,
}

impl Plan {
    /// Lays out a segment.
    ///
    /// # Errors
    ///
    /// [`PlanError`] when a number is out of its range or the segment would not fit the address space.
    pub fn new(config: Config) -> Result<Self, PlanError> {
        let Config { ranks, cells_per_rank, cell_payload, fastbox_lines, heap_bytes, .. } = config;
        if ranks == 0 {
            return Err(PlanError::NoRanks);
        }
        if cells_per_rank < 2 {
            return Err(PlanError::TooFewCells { found: cells_per_rank });
        }
        if cell_payload < 1024 || !(cell_payload as usize).is_multiple_of(CACHE_LINE) {
            return Err(PlanError::CellPayload { found: cell_payload });
        }
        if fastbox_lines == 0 {
            return Err(PlanError::NoFastboxLines);
        }
        if config.parcels > PARCELS_MAX || !config.parcels.is_multiple_of(2) {
            return Err(PlanError::Parcels { found: config.parcels });
        }
        if !heap_bytes.is_multiple_of(PAGE as u64) {
            return Err(PlanError::HeapBytes { found: heap_bytes });
        }
        Self::lay_out(config).ok_or(PlanError::TooLarge { config })
    }

    fn lay_out(config: Config) -> Option<Self> {
        let ranks = config.ranks as usize;
        config.ranks.checked_mul(config.cells_per_rank)?;
        let cell_stride = (config.cell_payload as usize).checked_add(size_of::<Cell>())?;
        let pair_stride = (config.fastbox_lines as usize)
            .checked_mul(2)?
            .checked_add(config.baton_lines as usize)?
            .checked_mul(size_of::<Line>())?
            .checked_add(2 * CACHE_LINE)?
            .checked_next_multiple_of(PAGE)?;

        let ring_stride = match config.ring_granules as usize {
            0 => 0,
            granules => ring_bytes_offset(granules)?.checked_add(granules.checked_mul(GRANULE)?)?,
        };

        let rank_blocks = size_of::<Header>().next_multiple_of(PAGE);
        let barriers = ranks.checked_mul(size_of::<RankBlock>())?.checked_add(rank_blocks)?;
        let flows = barriers.checked_add(BARRIER_SLOTS as usize * size_of::<BarrierSlot>())?;
        let flow_stride =
            ranks.checked_mul(size_of::<Flow>())?.checked_next_multiple_of(CACHE_LINE)?;
        let descriptors =
            ranks.checked_mul(flow_stride)?.checked_add(flows)?.checked_next_multiple_of(PAGE)?;
        let cells = ranks
            .checked_mul(DESCRIPTORS_PER_RANK as usize * size_of::<Descriptor>())?
            .checked_add(descriptors)?
            .checked_next_multiple_of(PAGE)?;
        let pairs = ranks
            .checked_mul(config.cells_per_rank as usize)?
            .checked_mul(cell_stride)?
            .checked_add(cells)?
            .checked_next_multiple_of(PAGE)?;
        let pair_count = ranks.checked_mul(ranks.checked_add(1)?)? / 2;
        let parcels = pair_count.checked_mul(pair_stride)?.checked_add(pairs)?;
        let marks = (config.parcels * PIECES_MAX) as usize * size_of::<Mark>();
        let parcel_stride = (config.parcels as usize)
            .checked_mul(PARCEL)?
            .checked_add(marks.next_multiple_of(PAGE))?;
        let rings = pair_count.checked_mul(parcel_stride)?.checked_add(parcels)?;
        let behind = pair_count.checked_mul(2)?.checked_mul(ring_stride)?.checked_add(rings)?;
        let heap_stride = usize::try_from(config.heap_bytes).ok()?;
        // Smaller heaps have no use for huge pages.
        let huge = heap_stride >= HUGE_PAGE;
        let heaps = behind.checked_next_multiple_of(if huge { HUGE_PAGE } else { PAGE })?;
        let total = ranks.checked_mul(heap_stride)?.checked_add(heaps)?;
        isize::try_from(total).ok()?;
        Some(Self {
            config,
            rank_blocks,
            barriers,
            flows,
            flow_stride,
            descriptors,
            cells,
            cell_stride,
            pairs,
            pair_stride,
            parcels,
            parcel_stride,
            rings,
            ring_stride,
            heaps,
            heap_stride,
            total,
        })
    }

    /// The numbers this plan was made from.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes to map.
    #[must_use]
    pub const fn total_bytes(&self) -> usize {
        self.total
    }

    /// Bytes from the start that must be backed by memory whoever is on the node: header, rank blocks, barrier slots.
    #[must_use]
    pub const fn common_bytes(&self) -> usize {
        self.flows
    }

    /// Offset and length of what only `rank` and those who talk to it use: its flows, its descriptors, its cells. To be
    /// backed by memory on its node.
    #[must_use]
    pub const fn own_ranges(&self, rank: u32) -> [(usize, usize); 3] {
        let Config { cells_per_rank, .. } = self.config;
        let descriptors = self.descriptor(rank, 0);
        [
            (self.flow(rank, 0), self.flow_stride),
            (descriptors, self.descriptor(rank + 1, 0) - descriptors),
            (self.cell(rank * cells_per_rank), cells_per_rank as usize * self.cell_stride),
        ]
    }

    /// Bytes from the start that must be backed by memory before any rank starts, when all are on one node. The rest is
    /// backed on first use: the blocks of the pairs ([`Plan::pair_range`]), their parcels ([`Plan::parcel_range`]) and the copy rings
    /// ([`Plan::ring_range`]), and what lies in a heap when it is allocated ([`Plan::heap_range`]).
    #[must_use]
    pub const fn resident_bytes(&self) -> usize {
        self.pairs
    }

    /// Bytes backed by memory when `pairs` pairs of ranks talk, in either direction or both.
    #[must_use]
    pub const fn bytes_with_active_pairs(&self, pairs: usize) -> usize {
        self.pairs + pairs * self.pair_stride
    }

    /// Bytes of the parcels of a pair, backed when the first message goes in one.
    #[must_use]
    pub const fn parcel_bytes(&self) -> usize {
        self.parcel_stride
    }

    /// Bytes of the copy ring from one rank to another, backed when large messages first go that way.
    #[must_use]
    pub const fn ring_bytes(&self) -> usize {
        self.ring_stride
    }

    /// Number of cells in the segment.
    #[inline(always)]
    #[must_use]
    pub const fn cells(&self) -> u32 {
        // `lay_out` refuses a product that overflows.
        self.config.ranks * self.config.cells_per_rank
    }

    /// Offset of the block of `rank`, which is less than `ranks`.
    #[inline(always)]
    pub(super) const fn rank_block(&self, rank: u32) -> usize {
        self.rank_blocks + rank as usize * size_of::<RankBlock>()
    }

    /// Offset of the barrier slot `slot`, which is less than [`BARRIER_SLOTS`].
    pub(super) const fn barrier_slot(&self, slot: u32) -> usize {
        self.barriers + slot as usize * size_of::<BarrierSlot>()
    }

    /// Offset of what `destination` tells `source` about its messages; each is less than `ranks`.
    #[inline(always)]
    pub(super) const fn flow(&self, source: u32, destination: u32) -> usize {
        // What one source looks at lies together.
        self.flows + source as usize * self.flow_stride + destination as usize * size_of::<Flow>()
    }

    /// Offset of descriptor `number` of `rank`; each is less than there are.
    #[inline(always)]
    pub(super) const fn descriptor(&self, rank: u32, number: u32) -> usize {
        let descriptor = rank as usize * DESCRIPTORS_PER_RANK as usize + number as usize;
        self.descriptors + descriptor * size_of::<Descriptor>()
    }

    /// Offset of the cell with the zero-based number `cell`.
    #[inline(always)]
    pub(super) const fn cell(&self, cell: u32) -> usize {
        self.cells + cell as usize * self.cell_stride
    }

    /// Offset and length of the block that the ranks `a` and `b` share: the range that must be backed by memory before
    /// either touches it. Whole pages, the same for (`b`, `a`).
    ///
    /// | lines            | what                                              |
    /// |------------------|---------------------------------------------------|
    /// | 1                | credit of the fastbox from the lower to the higher rank |
    /// | 1                | credit of the other fastbox                       |
    /// | `baton_lines`    | the baton                                         |
    /// | `fastbox_lines`  | the fastbox from the lower to the higher rank     |
    /// | `fastbox_lines`  | the other fastbox                                 |
    #[must_use]
    pub const fn pair_range(&self, a: u32, b: u32) -> (usize, usize) {
        (self.pairs + pair_number(a, b) * self.pair_stride, self.pair_stride)
    }

    /// Offset and length of the parcels that the ranks `a` and `b` share, likewise. The lower rank begins with the first half.
    ///
    /// | bytes               | what                                         |
    /// |---------------------|----------------------------------------------|
    /// | 256 · `parcels`     | the marks of each parcel, up to the next page |
    /// | 16,384 · `parcels`  | the parcels                                  |
    #[must_use]
    pub const fn parcel_range(&self, a: u32, b: u32) -> (usize, usize) {
        (self.parcels + pair_number(a, b) * self.parcel_stride, self.parcel_stride)
    }

    /// Offset and length of the copy ring from `source` to `destination`: the range that must be backed by memory before
    /// either touches it. Whole pages; none where the segment has no copy rings.
    ///
    /// | bytes                  | what                                                   |
    /// |------------------------|--------------------------------------------------------|
    /// | 64                     | position up to which the receiver has emptied the ring |
    /// | 64 · `ring_granules`   | the heads of the granules, up to the next page         |
    /// | 4096 · `ring_granules` | the granules                                           |
    #[must_use]
    pub const fn ring_range(&self, source: u32, destination: u32) -> (usize, usize) {
        let number = 2 * pair_number(source, destination) + (source > destination) as usize;
        (self.rings + number * self.ring_stride, self.ring_stride)
    }

    /// Offset and length of the heap of `rank`: memory that its user allocates, and that peers copy from and to without the
    /// kernel's help. What is allocated must be backed by memory before anybody touches it.
    #[must_use]
    pub const fn heap_range(&self, rank: u32) -> (usize, usize) {
        (self.heaps + rank as usize * self.heap_stride, self.heap_stride)
    }

    /// Offset of the first heap, a multiple of [`HUGE_PAGE`] where a heap has room for one.
    #[must_use]
    pub const fn heaps(&self) -> usize {
        self.heaps
    }

    /// Offset of the granules in a ring.
    pub(super) const fn ring_bytes_offset(&self) -> usize {
        self.ring_stride - self.config.ring_granules as usize * GRANULE
    }
}

/// Pairs are numbered so that those among the first ranks come first.
const fn pair_number(a: u32, b: u32) -> usize {
    let (low, high) = if a < b { (a as usize, b as usize) } else { (b as usize, a as usize) };
    high * (high + 1) / 2 + low
}

fn ring_bytes_offset(granules: usize) -> Option<usize> {
    granules
        .checked_mul(size_of::<GranuleHead>())?
        .checked_add(CACHE_LINE)?
        .checked_next_multiple_of(PAGE)
}

/// Why a segment cannot be laid out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// A job of no ranks.
    NoRanks,
    /// A rank needs at least two cells: one to fill while the other travels.
    TooFewCells {
        /// Cells per rank asked for.
        found: u32,
    },
    /// The cell payload is under 1 KiB or no multiple of 64 bytes.
    CellPayload {
        /// Bytes asked for.
        found: u32,
    },
    /// A fastbox of no lines.
    NoFastboxLines,
    /// An odd number of parcels, or more than [`PARCELS_MAX`].
    Parcels {
        /// Parcels of a pair asked for.
        found: u32,
    },
    /// The length of a heap is no multiple of 4096 bytes.
    HeapBytes {
        /// Bytes asked for.
        found: u64,
    },
    /// Offsets would overflow.
    TooLarge {
        /// The shape asked for.
        config: Config,
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
                "a segment of {} ranks with {} cells of {} bytes and a heap of {} bytes each does not fit the address \
                 space",
                config.ranks, config.cells_per_rank, config.cell_payload, config.heap_bytes
            ),
        }
    }
}

impl core::error::Error for PlanError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_overlap() {
        for ranks in [1, 2, 7, 256] {
            let plan = Plan::new(Config::new(ranks)).unwrap();
            assert!(plan.rank_block(0) >= size_of::<Header>());
            assert!(plan.rank_block(ranks) <= plan.barrier_slot(0));
            assert!(plan.barrier_slot(BARRIER_SLOTS) <= plan.flow(0, 0));
            assert!(plan.flow(0, ranks) <= plan.flow(1, 0));
            assert!(plan.flow(ranks, 0) <= plan.descriptor(0, 0));
            assert!(plan.descriptor(ranks, 0) <= plan.cell(0));
            assert!(plan.cell(plan.cells()) <= plan.resident_bytes());
            assert_eq!(plan.pair_range(0, 0).0, plan.resident_bytes());
            assert_eq!(plan.pair_range(0, ranks - 1), plan.pair_range(ranks - 1, 0));
            let (last, length) = plan.pair_range(ranks - 1, ranks - 1);
            assert_eq!(last + length, plan.parcel_range(0, 0).0);
            assert_eq!(plan.parcel_range(0, ranks - 1), plan.parcel_range(ranks - 1, 0));
            let (last, length) = plan.parcel_range(ranks - 1, ranks - 1);
            assert_eq!(last + length, plan.ring_range(0, 0).0);
            let (last, length) = plan.ring_range(ranks - 1, ranks - 1);
            // Nobody sends to itself this way: the second ring of its block is room for nothing.
            assert!(last + 2 * length <= plan.heaps() && plan.heaps().is_multiple_of(HUGE_PAGE));
            if ranks > 1 {
                let [(up, length), (down, _)] = [plan.ring_range(0, 1), plan.ring_range(1, 0)];
                assert_eq!(up + length, down);
            }
            assert_eq!(plan.heap_range(0).0, plan.heaps());
            let (last, length) = plan.heap_range(ranks - 1);
            assert_eq!(last + length, plan.total_bytes());
        }
    }

    #[test]
    fn a_segment_without_heaps_ends_with_its_rings() {
        let plan = Plan::new(Config { heap_bytes: 0, ..Config::new(3) }).unwrap();
        let (last, length) = plan.ring_range(2, 2);
        let end = last + 2 * length;
        assert_eq!((plan.total_bytes(), plan.heap_range(2)), (end, (end, 0)));
    }

    /// The formula of `docs/layout.md`, in numbers: what a user's node pays.
    #[test]
    fn memory_is_what_the_layout_page_says() {
        let two = Plan::new(Config::new(2)).unwrap();
        assert_eq!(two.bytes_with_active_pairs(0), 2_150_400);
        assert_eq!(two.bytes_with_active_pairs(1) - two.bytes_with_active_pairs(0), 8192);
        assert_eq!(two.parcel_bytes(), 135_168);
        assert_eq!(two.ring_bytes(), 1_069_056);
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused() {
        let base = Config::new(2);
        assert_eq!(Plan::new(Config { ranks: 0, ..base }), Err(PlanError::NoRanks));
        assert_eq!(
            Plan::new(Config { cells_per_rank: 1, ..base }),
            Err(PlanError::TooFewCells { found: 1 })
        );
        assert_eq!(
            Plan::new(Config { cell_payload: 1000, ..base }),
            Err(PlanError::CellPayload { found: 1000 })
        );
        for found in [7, 34] {
            let refused = Err(PlanError::Parcels { found });
            assert_eq!(Plan::new(Config { parcels: found, ..base }), refused);
        }
        assert_eq!(
            Plan::new(Config { heap_bytes: 5000, ..base }),
            Err(PlanError::HeapBytes { found: 5000 })
        );
        let endless = Config { heap_bytes: 1 << 63, ..base };
        assert_eq!(Plan::new(endless), Err(PlanError::TooLarge { config: endless }));
        let huge = Config { ranks: u32::MAX, ..base };
        assert_eq!(Plan::new(huge), Err(PlanError::TooLarge { config: huge }));
    }
}
