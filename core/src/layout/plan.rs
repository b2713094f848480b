//! The plan of a segment: the offsets of its parts, computed from numbers that every rank knows.

use super::{PAGE, PairCounters, RankBlock, RankRecord, SegmentHeader};
use super::{PlanError, SegmentConfig};
use crate::shm::{
    BarrierSlot, Cell, Descriptor, FlowWords, GRANULE, GranuleHead, Line, ParcelSet, ParcelWord,
    parcel_words,
};
use crate::sync::CACHE_LINE;
use crate::wire::{PARCEL, PARCELS_MAX};

/// Number of barrier slots in a segment. Further groups have their barriers by messages.
pub const BARRIER_SLOTS: u32 = 32;

/// Number of large messages that one rank can have in flight at a time; further ones go through
/// cells. Each has a descriptor. The 64, which benchmarks keep open, take two pages.
pub const DESCRIPTORS_PER_RANK: u32 = 64;

/// Alignment of the heaps' start in bytes, so that huge pages can back the heaps.
pub const HUGE_PAGE: usize = 2 << 20;

/// Offsets and sizes in bytes from the segment's start. Equal [`SegmentConfig`]s give equal plans.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SegmentPlan {
    config: SegmentConfig,
    rank_blocks: usize,
    barriers: usize,
    flows: usize,
    flow_stride: usize,
    descriptors: usize,
    records: usize,
    record_stride: usize,
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

impl SegmentPlan {
    /// Lays out a segment.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if a number is out of range or the segment does not fit the address space.
    pub fn new(config: SegmentConfig) -> Result<Self, PlanError> {
        let SegmentConfig {
            ranks, cells_per_rank, cell_payload, fastbox_lines, heap_bytes, ..
        } = config;
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

    fn lay_out(config: SegmentConfig) -> Option<Self> {
        let ranks = config.ranks as usize;
        config.ranks.checked_mul(config.cells_per_rank)?;
        let cell_stride = (config.cell_payload as usize).checked_add(size_of::<Cell>())?;
        let pair_stride = (config.fastbox_lines as usize)
            .checked_mul(2)?
            .checked_add(config.baton_lines as usize)?
            .checked_mul(size_of::<Line>())?
            .checked_add(2 * CACHE_LINE)?;
        // Small blocks divide a page, so that none takes part of two.
        let pair_stride = match pair_stride {
            small if small <= PAGE => small.next_power_of_two(),
            large => large.checked_next_multiple_of(PAGE)?,
        };

        let ring_stride = match config.ring_granules as usize {
            0 => 0,
            granules => ring_bytes_offset(granules)?.checked_add(granules.checked_mul(GRANULE)?)?,
        };

        let rank_blocks = size_of::<SegmentHeader>().next_multiple_of(PAGE);
        let barriers = ranks.checked_mul(size_of::<RankBlock>())?.checked_add(rank_blocks)?;
        let flows = barriers.checked_add(BARRIER_SLOTS as usize * size_of::<BarrierSlot>())?;
        let flow_stride =
            ranks.checked_mul(size_of::<FlowWords>())?.checked_next_multiple_of(CACHE_LINE)?;
        let descriptors =
            ranks.checked_mul(flow_stride)?.checked_add(flows)?.checked_next_multiple_of(PAGE)?;
        let records = ranks
            .checked_mul(DESCRIPTORS_PER_RANK as usize * size_of::<Descriptor>())?
            .checked_add(descriptors)?
            .checked_next_multiple_of(PAGE)?;
        let record_stride = ranks
            .checked_mul(size_of::<PairCounters>())?
            .checked_add(size_of::<RankRecord>())?
            .checked_next_multiple_of(PAGE)?;
        let cells = ranks.checked_mul(record_stride)?.checked_add(records)?;
        let pairs = ranks
            .checked_mul(config.cells_per_rank as usize)?
            .checked_mul(cell_stride)?
            .checked_add(cells)?
            .checked_next_multiple_of(PAGE)?;
        let pair_count = ranks.checked_mul(ranks.checked_add(1)?)? / 2;
        let parcels = pair_count
            .checked_mul(pair_stride)?
            .checked_add(pairs)?
            .checked_next_multiple_of(PAGE)?;
        let words = parcel_words(config.parcels) * size_of::<ParcelWord>();
        let parcel_stride = (config.parcels as usize)
            .checked_mul(PARCEL)?
            .checked_add(words.next_multiple_of(PAGE))?;
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
            records,
            record_stride,
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

    /// Returns the numbers from which this plan was made.
    #[must_use]
    pub const fn config(&self) -> &SegmentConfig {
        &self.config
    }

    /// Returns the number of bytes to map.
    #[must_use]
    pub const fn total_bytes(&self) -> usize {
        self.total
    }

    /// Returns the bytes at the start that memory must back on every node, up to the barrier slots.
    #[must_use]
    pub const fn common_bytes(&self) -> usize {
        self.flows
    }

    /// Returns the offset and length in bytes of the four ranges that only `rank` and its peers
    /// use: its flows, its descriptors, its records for observers, its cells. Memory must back them
    /// on the rank's node.
    #[must_use]
    pub const fn own_ranges(&self, rank: u32) -> [(usize, usize); 4] {
        let SegmentConfig { cells_per_rank, .. } = self.config;
        let descriptors = self.descriptor(rank, 0);
        [
            (self.flow(rank, 0), self.flow_stride),
            (descriptors, self.descriptor(rank + 1, 0) - descriptors),
            (self.record(rank), self.record_stride),
            (self.cell(rank * cells_per_rank), cells_per_rank as usize * self.cell_stride),
        ]
    }

    /// Returns the bytes at the start that memory must back before any rank starts, on one node.
    ///
    /// Memory backs pair blocks, parcels and copy rings on first use, and heaps on allocation.
    #[must_use]
    pub const fn resident_bytes(&self) -> usize {
        self.pairs
    }

    /// Returns the number of bytes that memory backs when `pairs` pairs of ranks communicate, of
    /// which no two have their blocks in one page.
    #[must_use]
    pub const fn bytes_with_active_pairs(&self, pairs: usize) -> usize {
        self.pairs + pairs * self.pair_stride.next_multiple_of(PAGE)
    }

    /// Returns the number of bytes of a pair's parcels, which memory backs on first use.
    #[must_use]
    pub const fn parcel_bytes(&self) -> usize {
        self.parcel_stride
    }

    /// Returns the number of bytes of one copy ring, which memory backs on first use.
    #[must_use]
    pub const fn ring_bytes(&self) -> usize {
        self.ring_stride
    }

    /// Returns the number of cells in the segment.
    #[inline(always)]
    #[must_use]
    pub const fn cells(&self) -> u32 {
        // `lay_out` refuses a product that overflows.
        self.config.ranks * self.config.cells_per_rank
    }

    /// Returns the offset of the block of `rank`, which is less than `ranks`.
    #[inline(always)]
    pub(super) const fn rank_block(&self, rank: u32) -> usize {
        self.rank_blocks + rank as usize * size_of::<RankBlock>()
    }

    /// Returns the offset of the barrier slot `slot`, which is less than [`BARRIER_SLOTS`].
    pub(super) const fn barrier_slot(&self, slot: u32) -> usize {
        self.barriers + slot as usize * size_of::<BarrierSlot>()
    }

    /// Returns the offset of the flow words from `destination` to `source`; both are in range.
    #[inline(always)]
    pub(super) const fn flow(&self, source: u32, destination: u32) -> usize {
        // The words that one source polls lie together.
        self.flows
            + source as usize * self.flow_stride
            + destination as usize * size_of::<FlowWords>()
    }

    /// Returns the offset of descriptor `number` of `rank`; both are in range.
    #[inline(always)]
    pub(super) const fn descriptor(&self, rank: u32, number: u32) -> usize {
        let descriptor = rank as usize * DESCRIPTORS_PER_RANK as usize + number as usize;
        self.descriptors + descriptor * size_of::<Descriptor>()
    }

    /// Returns the offset of what `rank`, which is less than `ranks`, leaves for observers.
    #[inline(always)]
    pub(super) const fn record(&self, rank: u32) -> usize {
        self.records + rank as usize * self.record_stride
    }

    /// Returns the offset of the counters of `rank` about `peer`; both are in range.
    #[inline(always)]
    pub(super) const fn counters(&self, rank: u32, peer: u32) -> usize {
        self.record(rank) + size_of::<RankRecord>() + peer as usize * size_of::<PairCounters>()
    }

    /// Returns the offset of the cell with the zero-based number `cell`.
    #[inline(always)]
    pub(super) const fn cell(&self, cell: u32) -> usize {
        self.cells + cell as usize * self.cell_stride
    }

    /// Returns the offset and length of the block that the ranks `a` and `b` share. Memory must
    /// back it before either rank touches it. It consists of whole pages, or of the half, quarter,
    /// … of one. It is the same for (`b`, `a`).
    ///
    /// Its lines are, in order: two credits, the baton (`baton_lines`), two fastboxes
    /// (`fastbox_lines` each). The first credit and fastbox are those from the lower to the higher
    /// rank.
    #[must_use]
    pub const fn pair_range(&self, a: u32, b: u32) -> (usize, usize) {
        (self.pairs + pair_number(a, b) * self.pair_stride, self.pair_stride)
    }

    /// Returns the offset and length of a set of the parcels that the ranks `a` and `b` share.
    /// Memory must back it before either rank touches it. It consists of whole pages, the same for
    /// (`b`, `a`), and the lower rank initially owns the first half.
    ///
    /// First come the words of all parcels (256 · `parcels` + 128 bytes, up to the next page), then
    /// the parcels (16,384 · `parcels` bytes). The words belong to the first set.
    #[must_use]
    pub const fn parcel_range(&self, a: u32, b: u32, set: ParcelSet) -> (usize, usize) {
        let count = self.config.parcels;
        let (number, of_set) = set.numbers(count);
        let words = self.parcel_stride - count as usize * PARCEL;
        let begin = self.parcels + pair_number(a, b) * self.parcel_stride;
        let length = of_set as usize * PARCEL;
        match set {
            ParcelSet::First => (begin, words + length),
            ParcelSet::Further | ParcelSet::Last => {
                (begin + words + number as usize * PARCEL, length)
            }
        }
    }

    /// Returns the offset and length of the copy ring from `source` to `destination`. Memory must
    /// back it before either rank touches it. It consists of whole pages; it is empty in a segment
    /// without copy rings.
    ///
    /// First comes the position up to which the receiver has emptied the ring (64 bytes). The heads
    /// of the granules (64 · `ring_granules` bytes, up to the next page) and the granules follow.
    #[must_use]
    pub const fn ring_range(&self, source: u32, destination: u32) -> (usize, usize) {
        let number = 2 * pair_number(source, destination) + (source > destination) as usize;
        (self.rings + number * self.ring_stride, self.ring_stride)
    }

    /// Returns the offset and length of the heap of `rank`, where its user allocates. Peers copy to
    /// and from it without the kernel. Memory must back an allocation before any rank touches it.
    #[must_use]
    pub const fn heap_range(&self, rank: u32) -> (usize, usize) {
        (self.heaps + rank as usize * self.heap_stride, self.heap_stride)
    }

    /// Returns the offset of the first heap, a multiple of [`HUGE_PAGE`] if a heap has room for it.
    #[must_use]
    pub const fn heaps(&self) -> usize {
        self.heaps
    }

    /// Returns the offset of the granules in a ring.
    pub(super) const fn ring_bytes_offset(&self) -> usize {
        self.ring_stride - self.config.ring_granules as usize * GRANULE
    }
}

/// Returns the number of a pair. Pairs among the first ranks have the lowest numbers.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{FULL_PAIRS, FULL_RINGS, LONG_FASTBOXES, RANKS_MAX, SMALL_PAIRS};

    #[test]
    fn many_ranks_have_small_pairs_and_fit_the_address_space() {
        // A sixteenth of it is left to the rest of the process.
        let most = (1_usize << 47) / 16 * 15;
        let limits = [LONG_FASTBOXES, FULL_PAIRS, SMALL_PAIRS, FULL_RINGS];
        let around = limits.into_iter().flat_map(|limit| [limit, limit + 1]);
        for ranks in around.chain([10_000, RANKS_MAX]) {
            let plan = SegmentPlan::new(SegmentConfig::new(ranks)).unwrap();
            let bytes = match ranks {
                _ if ranks <= LONG_FASTBOXES => 32 * PAGE,
                _ if ranks <= FULL_PAIRS => 8 * PAGE,
                _ if ranks <= SMALL_PAIRS => PAGE,
                _ => PAGE / 4,
            };
            let (begin, length) = plan.pair_range(0, 1);
            assert_eq!((begin % bytes.min(PAGE), length), (0, bytes), "{ranks}");
            assert!(plan.total_bytes() <= most, "{ranks}: {}", plan.total_bytes());
        }
    }

    #[test]
    fn parts_follow_each_other_without_overlap() {
        for ranks in [1, 2, 7, 256] {
            let plan = SegmentPlan::new(SegmentConfig::new(ranks)).unwrap();
            assert!(plan.rank_block(0) >= size_of::<SegmentHeader>());
            assert!(plan.rank_block(ranks) <= plan.barrier_slot(0));
            assert!(plan.barrier_slot(BARRIER_SLOTS) <= plan.flow(0, 0));
            assert!(plan.flow(0, ranks) <= plan.flow(1, 0));
            assert!(plan.flow(ranks, 0) <= plan.descriptor(0, 0));
            assert!(plan.descriptor(ranks, 0) <= plan.record(0));
            assert!(plan.counters(0, ranks) <= plan.record(1));
            assert!(plan.record(ranks) <= plan.cell(0));
            assert!(plan.cell(plan.cells()) <= plan.resident_bytes());
            assert_eq!(plan.pair_range(0, 0).0, plan.resident_bytes());
            assert_eq!(plan.pair_range(0, ranks - 1), plan.pair_range(ranks - 1, 0));
            let (last, length) = plan.pair_range(ranks - 1, ranks - 1);
            let sets = ParcelSet::ALL.map(|set| plan.parcel_range(0, ranks - 1, set));
            let parcels = plan.parcel_range(0, 0, ParcelSet::First).0;
            assert_eq!((last + length).next_multiple_of(PAGE), parcels);
            for pair in sets.windows(2) {
                assert_eq!(pair[0].0 + pair[0].1, pair[1].0);
            }
            assert_eq!(sets[0], plan.parcel_range(ranks - 1, 0, ParcelSet::First));
            let (last, length) = plan.parcel_range(ranks - 1, ranks - 1, ParcelSet::Last);
            assert_eq!(last + length, plan.ring_range(0, 0).0);
            let (last, length) = plan.ring_range(ranks - 1, ranks - 1);
            // No rank uses the second ring of its own block.
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
        let plan =
            SegmentPlan::new(SegmentConfig { heap_bytes: 0, ..SegmentConfig::new(3) }).unwrap();
        let (last, length) = plan.ring_range(2, 2);
        let end = last + 2 * length;
        assert_eq!((plan.total_bytes(), plan.heap_range(2)), (end, (end, 0)));
    }

    /// Compares the formula of `docs/layout.md` with the memory that a node pays.
    #[test]
    fn memory_is_what_the_layout_page_says() {
        let two = SegmentPlan::new(SegmentConfig::new(2)).unwrap();
        assert_eq!(two.bytes_with_active_pairs(0), 2_179_072);
        assert_eq!(two.bytes_with_active_pairs(1) - two.bytes_with_active_pairs(0), 131_072);
        let sets = ParcelSet::ALL.map(|set| two.parcel_range(0, 1, set).1);
        assert_eq!((sets, two.parcel_bytes()), ([151_552, 393_216, 524_288], 1_069_056));
        assert_eq!(two.ring_bytes(), 1_069_056);
    }

    #[test]
    fn an_impossible_configuration_is_refused() {
        let base = SegmentConfig::new(2);
        assert_eq!(SegmentPlan::new(SegmentConfig { ranks: 0, ..base }), Err(PlanError::NoRanks));
        assert_eq!(
            SegmentPlan::new(SegmentConfig { cells_per_rank: 1, ..base }),
            Err(PlanError::TooFewCells { found: 1 })
        );
        assert_eq!(
            SegmentPlan::new(SegmentConfig { cell_payload: 1000, ..base }),
            Err(PlanError::CellPayload { found: 1000 })
        );
        for found in [7, PARCELS_MAX + 2] {
            let refused = Err(PlanError::Parcels { found });
            assert_eq!(SegmentPlan::new(SegmentConfig { parcels: found, ..base }), refused);
        }
        let odd = SegmentConfig { heap_bytes: 5000, ..base };
        assert_eq!(SegmentPlan::new(odd), Err(PlanError::HeapBytes { found: 5000 }));
        let endless = SegmentConfig { heap_bytes: 1 << 63, ..base };
        assert_eq!(SegmentPlan::new(endless), Err(PlanError::TooLarge { config: endless }));
        let huge = SegmentConfig { ranks: u32::MAX, ..base };
        assert_eq!(SegmentPlan::new(huge), Err(PlanError::TooLarge { config: huge }));
    }
}
