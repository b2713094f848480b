//! The view of a mapped segment: offsets become references here and nowhere else.

use core::ptr::NonNull;

use super::{
    AttachError, BARRIER_SLOTS, CellIndex, Config, Corrupt, DESCRIPTORS_PER_RANK, Header, Plan,
    RankBlock,
};
use crate::shm::{
    BarrierSlot, Baton, Cell, CellArena, CopyRingPtr, Descriptor, DoorbellPtr, FastboxPtr, Flow,
    PARCEL, Parcels,
};
use crate::sync::{AtomicU32, CACHE_LINE};

/// A mapped segment. Copies are views of the same memory.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    base: NonNull<u8>,
    plan: Plan,
    nonce: u64,
}

// SAFETY: every structure reached through a segment is made for concurrent processes, hence for threads; the
// pointer itself is just an address that stays valid as long as the mapping (contract of `format` and `attach`).
unsafe impl Send for Segment {}

impl Segment {
    /// Turns zero-filled memory into an empty segment. Zero is the empty state of every structure, so only the
    /// header is written.
    ///
    /// # Safety
    ///
    /// `base` is aligned to [`super::PAGE`] and valid for reads and writes of `plan.total_bytes()` bytes for as long as
    /// the segment or a copy of it is used; the memory is zero and nobody else uses it yet.
    pub unsafe fn format(base: NonNull<u8>, plan: Plan, nonce: u64) -> Self {
        // SAFETY: the caller gives aligned, writable memory of at least a header's length that nobody else uses.
        unsafe { base.cast::<Header>().write(Header::new(&plan, nonce)) };
        Self { base, plan, nonce }
    }

    /// Checks the segment at `base` and gives `rank` its view.
    ///
    /// # Errors
    ///
    /// [`AttachError`] when this is not the segment of the job that drew `nonce`, or `rank` has no place in it.
    ///
    /// # Safety
    ///
    /// `base` is aligned to [`super::PAGE`] and valid for reads and writes of `mapped` bytes for as long as the segment
    /// or a copy of it is used, and everybody who maps the memory reaches it through this crate.
    pub unsafe fn attach(
        base: NonNull<u8>,
        mapped: usize,
        nonce: u64,
        rank: u32,
    ) -> Result<Self, AttachError> {
        if mapped < size_of::<Header>() {
            return Err(AttachError::TooShort { mapped });
        }
        // SAFETY: in bounds (checked above) and aligned (contract). The header was written before the segment was
        // handed out and is never written again, so a plain copy races with nobody.
        let header = unsafe { base.cast::<Header>().read() };
        let plan = header.check(mapped, nonce)?;
        let ranks = plan.config().ranks;
        if rank >= ranks {
            return Err(AttachError::Rank { rank, ranks });
        }
        Ok(Self { base, plan, nonce })
    }

    /// The plan of this segment.
    #[inline(always)]
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Number of ranks.
    #[inline(always)]
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.plan.config().ranks
    }

    /// The number that was drawn for the job.
    #[must_use]
    pub const fn nonce(&self) -> u64 {
        self.nonce
    }

    /// The control block of `rank`.
    ///
    /// # Panics
    ///
    /// When `rank` is no rank of this segment.
    #[inline(always)]
    #[must_use]
    pub fn rank_block(&self, rank: u32) -> &RankBlock {
        assert!(rank < self.ranks(), "rank {rank} of {}", self.ranks());
        // SAFETY: the plan puts the blocks of ranks below `ranks` inside the mapping, 64-aligned; a block is made of
        // atomics for which any bytes are valid.
        unsafe { self.base.add(self.plan.rank_block(rank)).cast::<RankBlock>().as_ref() }
    }

    /// The bell of `rank`, to be kept no longer than the mapping.
    ///
    /// # Panics
    ///
    /// When `rank` is no rank of this segment.
    #[must_use]
    pub fn doorbell(&self, rank: u32) -> DoorbellPtr {
        // SAFETY: the mapping outlives every copy of the segment and all that was made from one.
        unsafe { DoorbellPtr::new(&self.rank_block(rank).doorbell) }
    }

    /// The barrier slot with this number, as far as there is one ([`BARRIER_SLOTS`]).
    #[must_use]
    pub fn barrier_slot(&self, slot: u32) -> Option<NonNull<BarrierSlot>> {
        if slot >= BARRIER_SLOTS {
            return None;
        }
        // SAFETY: the plan puts this many slots inside the mapping, 64-aligned.
        Some(unsafe { self.base.add(self.plan.barrier_slot(slot)).cast() })
    }

    /// What `destination` tells `source` about messages that nobody waits for.
    ///
    /// # Panics
    ///
    /// When either is no rank of this segment.
    #[inline]
    #[must_use]
    pub fn flow(&self, source: u32, destination: u32) -> &Flow {
        assert!(source < self.ranks() && destination < self.ranks());
        // SAFETY: the plan puts the words of each pair of ranks inside the mapping, 8-aligned; they are atomics for which
        // any bytes are valid.
        unsafe { self.base.add(self.plan.flow(source, destination)).cast::<Flow>().as_ref() }
    }

    /// Descriptor `number` of `rank`.
    ///
    /// # Panics
    ///
    /// When there is none of that number.
    #[must_use]
    pub fn descriptor(&self, rank: u32, number: u32) -> &Descriptor {
        assert!(rank < self.ranks() && number < DESCRIPTORS_PER_RANK, "{number} of rank {rank}");
        // SAFETY: the plan puts the descriptors of ranks below `ranks` inside the mapping, 64-aligned; a descriptor is
        // made of atomics for which any bytes are valid.
        unsafe { self.base.add(self.plan.descriptor(rank, number)).cast::<Descriptor>().as_ref() }
    }

    /// The cell `index`, header and payload; valid as long as the mapping.
    #[inline(always)]
    #[must_use]
    pub fn cell(&self, index: CellIndex) -> NonNull<Cell> {
        debug_assert!(index.raw() <= self.plan.cells());
        // SAFETY: an index was parsed against the number of cells, all of which the plan puts inside the mapping.
        unsafe { self.base.add(self.plan.cell(index.raw() - 1)).cast() }
    }

    /// The zero-based rank that owns the cell.
    #[inline(always)]
    #[must_use]
    pub fn owner(&self, index: CellIndex) -> u32 {
        (index.raw() - 1) / self.plan.config().cells_per_rank
    }

    /// A fastbox that never holds a message: what a receiver looks into before its source opens a real one.
    #[must_use]
    pub fn empty_fastbox(&self) -> FastboxPtr {
        // SAFETY: the first page holds the header and zeros; its second and third line are inside the mapping.
        unsafe {
            let zeros = self.base.add(CACHE_LINE);
            FastboxPtr::new(zeros.cast(), zeros.add(CACHE_LINE).cast(), 1)
        }
    }

    /// A baton that nobody passes, for the same time.
    #[must_use]
    pub fn empty_baton(&self) -> Baton {
        // SAFETY: as in `empty_fastbox`; with no lines it is never written.
        unsafe { Baton::new(self.base.add(2 * CACHE_LINE).cast(), 0, false) }
    }

    /// The fastbox from `source` to `destination`. The range of the pair ([`Plan::pair_range`]) must be backed by memory
    /// before anything in it is touched.
    ///
    /// # Panics
    ///
    /// When either is no rank of this segment.
    #[must_use]
    pub fn fastbox(&self, source: u32, destination: u32) -> FastboxPtr {
        let upward = usize::from(source > destination);
        let Config { fastbox_lines, baton_lines, .. } = *self.plan.config();
        let ring = 2 + baton_lines as usize + upward * fastbox_lines as usize;
        let block = self.pair(source, destination);
        // SAFETY: the plan puts credit line and ring of each direction inside the pair's block, 64-aligned.
        unsafe {
            let credit = block.add(upward * CACHE_LINE);
            FastboxPtr::new(credit.cast(), block.add(ring * CACHE_LINE).cast(), fastbox_lines)
        }
    }

    /// The end that `rank` has of its baton with `peer`. The memory must be backed as for [`Segment::fastbox`]. A rank has
    /// no baton with itself.
    ///
    /// # Panics
    ///
    /// When either is no rank of this segment.
    #[must_use]
    pub fn baton(&self, rank: u32, peer: u32) -> Baton {
        let count = self.plan.config().baton_lines;
        if rank == peer || count == 0 {
            // Where a baton would lie is a fastbox then, whose messages it would take for its own.
            return self.empty_baton();
        }
        // SAFETY: the plan puts the baton behind the two credit lines of the pair's block, 64-aligned.
        unsafe { Baton::new(self.pair(rank, peer).add(2 * CACHE_LINE).cast(), count, rank > peer) }
    }

    /// The view that `rank` has of the parcels that it shares with `peer`. The range of the parcels ([`Plan::parcel_range`])
    /// must be backed by memory before anything in it is touched. A rank shares none with itself.
    ///
    /// # Panics
    ///
    /// When either is no rank of this segment.
    #[must_use]
    pub fn parcels(&self, rank: u32, peer: u32) -> Parcels {
        assert!(rank < self.ranks() && peer < self.ranks());
        let count = if rank == peer { 0 } else { self.plan.config().parcels };
        let (offset, length) = self.plan.parcel_range(rank, peer);
        let marks = length - count as usize * PARCEL;
        // SAFETY: the plan puts the parcels of each pair inside the mapping, page-aligned, behind their marks.
        unsafe {
            let range = self.base.add(offset);
            Parcels::new(range.cast(), range.add(marks), count, rank > peer)
        }
    }

    /// The copy ring from `source` to `destination`, and its granules. `None`: the segment has none. The range of the ring
    /// ([`Plan::ring_range`]) must be backed by memory before anything in it is touched.
    ///
    /// # Panics
    ///
    /// When either is no rank of this segment.
    #[must_use]
    pub fn copy_ring(&self, source: u32, destination: u32) -> Option<(CopyRingPtr, NonNull<u8>)> {
        assert!(source < self.ranks() && destination < self.ranks());
        let count = self.plan.config().ring_granules;
        if count == 0 {
            return None;
        }
        let (offset, _) = self.plan.ring_range(source, destination);
        // SAFETY: the plan puts word, heads and granules of each ordered pair inside the mapping, aligned to their sizes.
        unsafe {
            let ring = self.base.add(offset);
            let heads = ring.add(CACHE_LINE).cast();
            let granules = ring.add(self.plan.ring_bytes_offset());
            Some((CopyRingPtr::new(ring.cast(), heads, count), granules))
        }
    }

    /// Where the heap of `rank` begins, and its length.
    ///
    /// # Panics
    ///
    /// When `rank` is no rank of this segment.
    #[must_use]
    pub fn heap(&self, rank: u32) -> (NonNull<u8>, usize) {
        assert!(rank < self.ranks(), "rank {rank} of {}", self.ranks());
        let (offset, length) = self.plan.heap_range(rank);
        // SAFETY: the plan puts the heaps of ranks below `ranks` inside the mapping.
        (unsafe { self.base.add(offset) }, length)
    }

    /// How far behind the start of the heap of `rank` the `length` bytes at `address` lie; `None` when not all of them lie
    /// in it.
    ///
    /// # Panics
    ///
    /// As [`Segment::heap`].
    #[inline]
    #[must_use]
    pub fn heap_offset(&self, rank: u32, address: NonNull<u8>, length: usize) -> Option<u64> {
        let (heap, bytes) = self.heap(rank);
        let offset = address.addr().get().checked_sub(heap.addr().get())?;
        let end = offset.checked_add(length)?;
        (end <= bytes).then_some(offset as u64)
    }

    /// The place `offset` bytes behind the start of the heap of `rank`, where a peer said that `length` bytes lie.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Heap`] when not all of them lie in it.
    ///
    /// # Panics
    ///
    /// As [`Segment::heap`].
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
        // SAFETY: inside the heap, by the check, whose length fits the address space.
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
        // SAFETY: `cell` gives a pointer that is valid and aligned as long as the mapping; `next` is an atomic.
        unsafe { &(*self.cell(index).as_ptr()).next }
    }
}
