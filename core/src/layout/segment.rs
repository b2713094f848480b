//! The view of a mapped segment. It is the only place that turns offsets into references.

use core::ptr::NonNull;

use super::{
    AttachError, BARRIER_SLOTS, CellIndex, Corrupt, DESCRIPTORS_PER_RANK, PairCounters, RankBlock,
    RankRecord, SegmentConfig, SegmentHeader, SegmentPlan,
};
use crate::shm::{
    BarrierSlot, Baton, Cell, CellArena, CopyRingPtr, Descriptor, DoorbellPtr, FastboxPtr,
    FlowWords, ParcelSet, Parcels,
};
use crate::sync::{AtomicU32, CACHE_LINE};
use crate::wire::PARCEL;

/// A mapped segment. Copies are views of the same memory.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    base: NonNull<u8>,
    plan: SegmentPlan,
    nonce: u64,
}

// SAFETY: every structure reached through a segment supports concurrent processes, hence threads.
// The pointer is an address that stays valid as long as the mapping (contract of `format` and
// `attach`).
unsafe impl Send for Segment {}

impl Segment {
    /// Turns zero-filled memory into an empty segment. Zero is the empty state of every structure,
    /// so only the header is written.
    ///
    /// # Safety
    ///
    /// `base` is aligned to [`super::PAGE`]. It is valid for reads and writes of
    /// `plan.total_bytes()` bytes for as long as the segment or a copy of it is used. The memory is
    /// zero, and no other thread or process uses it yet.
    pub unsafe fn format(base: NonNull<u8>, plan: SegmentPlan, nonce: u64) -> Self {
        // SAFETY: the caller guarantees aligned, writable memory that holds at least a header and
        // has no other user (contract of `format`).
        unsafe { base.cast::<SegmentHeader>().write(SegmentHeader::new(&plan, nonce)) };
        Self { base, plan, nonce }
    }

    /// Checks the segment at `base` and returns the view of `rank`.
    ///
    /// # Errors
    ///
    /// [`AttachError`] if this is not the segment of the job with this `nonce`, or `rank` is out of
    /// range.
    ///
    /// # Safety
    ///
    /// `base` is aligned to [`super::PAGE`]. It is valid for reads and writes of `mapped` bytes for
    /// as long as the segment or a copy of it is used. Every process that maps the memory accesses
    /// it through this crate.
    pub unsafe fn attach(
        base: NonNull<u8>,
        mapped: usize,
        nonce: u64,
        rank: u32,
    ) -> Result<Self, AttachError> {
        if mapped < size_of::<SegmentHeader>() {
            return Err(AttachError::TooShort { mapped });
        }
        // SAFETY: the header is in bounds (checked above) and aligned (contract of `attach`). It
        // was written before the segment was handed out and is never written again, so a plain copy
        // causes no race.
        let header = unsafe { base.cast::<SegmentHeader>().read() };
        let plan = header.check(mapped, nonce)?;
        let ranks = plan.config().ranks;
        if rank >= ranks {
            return Err(AttachError::Rank { rank, ranks });
        }
        Ok(Self { base, plan, nonce })
    }

    /// Returns the plan of this segment.
    #[inline(always)]
    #[must_use]
    pub const fn plan(&self) -> &SegmentPlan {
        &self.plan
    }

    /// Returns the number of ranks.
    #[inline(always)]
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.plan.config().ranks
    }

    /// Returns the nonce of the job.
    #[must_use]
    pub const fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Returns the control block of `rank`.
    ///
    /// # Panics
    ///
    /// If `rank` is out of range.
    #[inline(always)]
    #[must_use]
    pub fn rank_block(&self, rank: u32) -> &RankBlock {
        self.check_rank(rank);
        // SAFETY: the plan puts the blocks of ranks below `ranks` inside the mapping, 64-aligned. A
        // block consists of atomics, for which any bytes are valid.
        unsafe { self.base.add(self.plan.rank_block(rank)).cast::<RankBlock>().as_ref() }
    }

    #[inline(always)]
    fn check_rank(&self, rank: u32) {
        /// A message made in place would take room on the stack of every caller.
        #[cold]
        #[inline(never)]
        fn no_such_rank(rank: u32, ranks: u32) -> ! {
            panic!("rank {rank} of {ranks}")
        }

        if rank >= self.ranks() {
            no_such_rank(rank, self.ranks());
        }
    }

    /// Returns the doorbell of `rank`. The caller keeps it no longer than the mapping.
    ///
    /// # Panics
    ///
    /// If `rank` is out of range.
    #[must_use]
    pub fn doorbell(&self, rank: u32) -> DoorbellPtr {
        // SAFETY: the mapping outlives every copy of the segment and everything made from one
        // (contract of `format` and `attach`).
        unsafe { DoorbellPtr::new(&self.rank_block(rank).doorbell) }
    }

    /// Returns the barrier slot with this number, or `None` if `slot` is not below
    /// [`BARRIER_SLOTS`].
    #[must_use]
    pub fn barrier_slot(&self, slot: u32) -> Option<NonNull<BarrierSlot>> {
        if slot >= BARRIER_SLOTS {
            return None;
        }
        // SAFETY: the plan puts this many slots inside the mapping, 64-aligned.
        Some(unsafe { self.base.add(self.plan.barrier_slot(slot)).cast() })
    }

    /// Returns what `destination` tells `source` about unexpected messages.
    ///
    /// # Panics
    ///
    /// If either rank is out of range.
    #[inline]
    #[must_use]
    pub fn flow(&self, source: u32, destination: u32) -> &FlowWords {
        assert!(source < self.ranks() && destination < self.ranks());
        // SAFETY: the plan puts the words of each pair of ranks inside the mapping, 8-aligned. They
        // are atomics, for which any bytes are valid.
        unsafe { self.base.add(self.plan.flow(source, destination)).cast::<FlowWords>().as_ref() }
    }

    /// Returns descriptor `number` of `rank`.
    ///
    /// # Panics
    ///
    /// If `rank` or `number` is out of range.
    #[must_use]
    pub fn descriptor(&self, rank: u32, number: u32) -> &Descriptor {
        assert!(rank < self.ranks() && number < DESCRIPTORS_PER_RANK, "{number} of rank {rank}");
        // SAFETY: the plan puts the descriptors of ranks below `ranks` inside the mapping,
        // 64-aligned. A descriptor consists of atomics, for which any bytes are valid.
        unsafe { self.base.add(self.plan.descriptor(rank, number)).cast::<Descriptor>().as_ref() }
    }

    /// Returns what `rank` leaves for observers.
    ///
    /// # Panics
    ///
    /// If `rank` is out of range.
    #[must_use]
    pub fn rank_record(&self, rank: u32) -> &RankRecord {
        self.check_rank(rank);
        // SAFETY: the plan puts the records of ranks below `ranks` inside the mapping, 64-aligned.
        // A record consists of atomics, for which any bytes are valid.
        unsafe { self.base.add(self.plan.record(rank)).cast::<RankRecord>().as_ref() }
    }

    /// Returns the counters of `rank` about `peer`.
    ///
    /// # Panics
    ///
    /// If either rank is out of range.
    #[inline]
    #[must_use]
    pub fn counters(&self, rank: u32, peer: u32) -> &PairCounters {
        self.check_rank(rank);
        self.check_rank(peer);
        // SAFETY: the plan puts the counters of each pair of ranks inside the mapping, 8-aligned.
        // They are atomics, for which any bytes are valid.
        unsafe { self.base.add(self.plan.counters(rank, peer)).cast::<PairCounters>().as_ref() }
    }

    /// Returns the cell `index`, header and payload; the pointer is valid as long as the mapping.
    #[inline(always)]
    #[must_use]
    pub fn cell(&self, index: CellIndex) -> NonNull<Cell> {
        debug_assert!(index.raw() <= self.plan.cells());
        // SAFETY: an index was parsed against the number of cells, and the plan puts all cells
        // inside the mapping.
        unsafe { self.base.add(self.plan.cell(index.raw() - 1)).cast() }
    }

    /// Returns the zero-based rank that owns the cell.
    #[inline(always)]
    #[must_use]
    pub fn owner(&self, index: CellIndex) -> u32 {
        (index.raw() - 1) / self.plan.config().cells_per_rank
    }

    /// Returns a fastbox that never holds a message. A receiver polls it until its source opens the
    /// real one.
    #[must_use]
    pub fn empty_fastbox(&self) -> FastboxPtr {
        // SAFETY: the first page holds the header and zeros; its second and third line are inside
        // the mapping.
        unsafe {
            let zeros = self.base.add(CACHE_LINE);
            FastboxPtr::new(zeros.cast(), zeros.add(CACHE_LINE).cast(), 1)
        }
    }

    /// Returns a baton that is never passed. A receiver polls it until its source opens the real
    /// one.
    #[must_use]
    pub fn empty_baton(&self) -> Baton {
        // SAFETY: the third line of the first page is inside the mapping; a baton with no lines is
        // never written.
        unsafe { Baton::new(self.base.add(2 * CACHE_LINE).cast(), 0, false) }
    }

    /// Returns the fastbox from `source` to `destination`. Memory must back the range of the pair
    /// ([`SegmentPlan::pair_range`]) before any access to it.
    ///
    /// # Panics
    ///
    /// If either rank is out of range.
    #[must_use]
    pub fn fastbox(&self, source: u32, destination: u32) -> FastboxPtr {
        let upward = usize::from(source > destination);
        let SegmentConfig { fastbox_lines, baton_lines, .. } = *self.plan.config();
        let ring = 2 + baton_lines as usize + upward * fastbox_lines as usize;
        let block = self.pair(source, destination);
        // SAFETY: the plan puts credit line and ring of each direction inside the pair's block,
        // 64-aligned.
        unsafe {
            let credit = block.add(upward * CACHE_LINE);
            FastboxPtr::new(credit.cast(), block.add(ring * CACHE_LINE).cast(), fastbox_lines)
        }
    }

    /// Returns the end of `rank` of its baton with `peer`. Memory must back the range of the pair
    /// ([`SegmentPlan::pair_range`]) before any access to it. A rank has no baton with itself.
    ///
    /// # Panics
    ///
    /// If either rank is out of range.
    #[must_use]
    pub fn baton(&self, rank: u32, peer: u32) -> Baton {
        let count = self.plan.config().baton_lines;
        if rank == peer || count == 0 {
            // The memory at the baton's offset is then part of a fastbox, and the baton would take
            // the fastbox's messages for its own.
            return self.empty_baton();
        }
        // SAFETY: the plan puts the baton behind the two credit lines of the pair's block,
        // 64-aligned.
        unsafe { Baton::new(self.pair(rank, peer).add(2 * CACHE_LINE).cast(), count, rank > peer) }
    }

    /// Returns the view of `rank` of the parcels that it shares with `peer`. Memory must back their
    /// range ([`SegmentPlan::parcel_range`]) before any access to it. A rank shares no parcels with
    /// itself.
    ///
    /// # Panics
    ///
    /// If either rank is out of range.
    #[must_use]
    pub fn parcels(&self, rank: u32, peer: u32) -> Parcels {
        assert!(rank < self.ranks() && peer < self.ranks());
        let count = if rank == peer { 0 } else { self.plan.config().parcels };
        let (offset, _) = self.plan.parcel_range(rank, peer, ParcelSet::First);
        let words = self.plan.parcel_bytes() - self.plan.config().parcels as usize * PARCEL;
        // SAFETY: the plan puts the parcels of each pair inside the mapping, page-aligned, behind
        // their words.
        unsafe {
            let range = self.base.add(offset);
            Parcels::new(range.cast(), range.add(words), count, rank > peer)
        }
    }

    /// Returns the copy ring from `source` to `destination` and its granules, or `None` if the
    /// segment has no copy rings. Memory must back its range ([`SegmentPlan::ring_range`]) before
    /// any access to it.
    ///
    /// # Panics
    ///
    /// If either rank is out of range.
    #[must_use]
    pub fn copy_ring(&self, source: u32, destination: u32) -> Option<(CopyRingPtr, NonNull<u8>)> {
        assert!(source < self.ranks() && destination < self.ranks());
        let count = self.plan.config().ring_granules;
        if count == 0 {
            return None;
        }
        let (offset, _) = self.plan.ring_range(source, destination);
        // SAFETY: the plan puts word, heads and granules of each ordered pair inside the mapping,
        // aligned to their sizes.
        unsafe {
            let ring = self.base.add(offset);
            let heads = ring.add(CACHE_LINE).cast();
            let granules = ring.add(self.plan.ring_bytes_offset());
            Some((CopyRingPtr::new(ring.cast(), heads, count), granules))
        }
    }

    /// Returns the start of the heap of `rank`, and its length in bytes.
    ///
    /// # Panics
    ///
    /// If `rank` is out of range.
    #[must_use]
    pub fn heap(&self, rank: u32) -> (NonNull<u8>, usize) {
        self.check_rank(rank);
        let (offset, length) = self.plan.heap_range(rank);
        // SAFETY: the plan puts the heaps of ranks below `ranks` inside the mapping.
        (unsafe { self.base.add(offset) }, length)
    }

    /// Returns the offset in the heap of `rank` of the `length` bytes at `address`, or `None` if
    /// not all of them are in the heap.
    ///
    /// # Panics
    ///
    /// If `rank` is out of range.
    #[inline]
    #[must_use]
    pub fn heap_offset(&self, rank: u32, address: NonNull<u8>, length: usize) -> Option<u64> {
        let (heap, bytes) = self.heap(rank);
        let offset = address.addr().get().checked_sub(heap.addr().get())?;
        let end = offset.checked_add(length)?;
        (end <= bytes).then_some(offset as u64)
    }

    /// Returns the place at `offset` in the heap of `rank`, where `length` bytes are according to a
    /// peer.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Heap`] if not all of the bytes are in the heap.
    ///
    /// # Panics
    ///
    /// If `rank` is out of range.
    pub fn heap_place(
        &self,
        rank: u32,
        offset: u64,
        length: usize,
    ) -> Result<NonNull<u8>, Corrupt> {
        let (heap, bytes) = self.heap(rank);
        let end = offset.checked_add(length as u64).filter(|end| *end <= bytes as u64);
        if end.is_none() {
            let (length, heap) = (length as u64, bytes as u64);
            return Err(Corrupt::Heap { found: offset, length, heap });
        }
        // SAFETY: the check above keeps the place inside the heap, and the heap fits the address
        // space.
        Ok(unsafe { heap.add(offset as usize) })
    }

    fn pair(&self, a: u32, b: u32) -> NonNull<u8> {
        assert!(a < self.ranks() && b < self.ranks());
        let (offset, _) = self.plan.pair_range(a, b);
        // SAFETY: the plan puts the block of each pair of ranks inside the mapping.
        unsafe { self.base.add(offset) }
    }
}

impl CellArena for Segment {
    #[inline(always)]
    fn parse(&self, raw: u32) -> Result<Option<CellIndex>, Corrupt> {
        CellIndex::parse(raw, self.plan.cells())
    }

    #[inline(always)]
    fn next(&self, index: CellIndex) -> &AtomicU32 {
        // SAFETY: `cell` returns a pointer that is valid and aligned as long as the mapping; `next`
        // is an atomic.
        unsafe { &(*self.cell(index).as_ptr()).next }
    }
}
