//! The plan of a segment: where everything lies, from four numbers that every rank agrees on.

use core::fmt;

use super::{Header, PAGE, RankBlock};
use crate::shm::{BarrierSlot, Cell, Descriptor, Flow, Line};
use crate::sync::CACHE_LINE;

/// Barrier slots in a segment: groups that can have barriers on shared words at a time. Further ones use messages.
pub const BARRIER_SLOTS: u32 = 32;

/// Large messages that one rank can have on their way at a time, each with a descriptor of its own. More go through
/// cells. A window of 64 is what benchmarks keep open, and costs two pages.
pub const DESCRIPTORS_PER_RANK: u32 = 64;

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
}

impl Config {
    /// The defaults for `ranks` ranks: 64 cells of 16 KiB each, which stay in the first two cache levels of both sides;
    /// for each pair two pages, with a baton that holds 1 KiB and two fastboxes.
    #[must_use]
    pub const fn new(ranks: u32) -> Self {
        Self {
            ranks,
            cells_per_rank: 64,
            cell_payload: 16 * 1024,
            fastbox_lines: 53,
            baton_lines: 20,
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
    total: usize,
}

impl Plan {
    /// Lays out a segment.
    ///
    /// # Errors
    ///
    /// [`PlanError`] when a number is out of its range or the segment would not fit the address space.
    pub fn new(config: Config) -> Result<Self, PlanError> {
        let Config { ranks, cells_per_rank, cell_payload, fastbox_lines, .. } = config;
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
        let total =
            (ranks.checked_mul(ranks + 1)? / 2).checked_mul(pair_stride)?.checked_add(pairs)?;
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

    /// Bytes from the start that must be backed by memory before any rank starts, when all are on one node. The rest, the blocks of the pairs,
    /// is backed one at a time when the pair first talks ([`Plan::pair_range`]).
    #[must_use]
    pub const fn resident_bytes(&self) -> usize {
        self.pairs
    }

    /// Bytes backed by memory when `pairs` pairs of ranks talk, in either direction or both.
    #[must_use]
    pub const fn bytes_with_active_pairs(&self, pairs: usize) -> usize {
        self.pairs + pairs * self.pair_stride
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
        let (low, high) = if a < b { (a as usize, b as usize) } else { (b as usize, a as usize) };
        let pair = high * (high + 1) / 2 + low;
        (self.pairs + pair * self.pair_stride, self.pair_stride)
    }
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
            Self::TooLarge { config } => write!(
                f,
                "a segment of {} ranks with {} cells of {} bytes each does not fit the address space",
                config.ranks, config.cells_per_rank, config.cell_payload
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
            assert_eq!(last + length, plan.total_bytes());
        }
    }

    /// The formula of `docs/layout.md`, in numbers: what a user's node pays.
    #[test]
    fn memory_is_what_the_layout_page_says() {
        let two = Plan::new(Config::new(2)).unwrap();
        assert_eq!(two.bytes_with_active_pairs(0), 2_150_400);
        assert_eq!(two.bytes_with_active_pairs(1) - two.bytes_with_active_pairs(0), 8192);
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
        let huge = Config { ranks: u32::MAX, ..base };
        assert_eq!(Plan::new(huge), Err(PlanError::TooLarge { config: huge }));
    }
}
