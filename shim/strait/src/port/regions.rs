//! The memory regions of ports, which peers of the same universe look up before they access the
//! memory.
//!
//! Each port has a table at the start of its heap in the segment, which grows by chunks. Only the
//! port writes it. A peer that is about to copy claims the region, finds it in the table, checks
//! the access, and copies. The port first revokes a region, and then waits for each peer with a
//! claim on it ([`strait_core::hca::fabric`]). So a wrong key or address is an error, and no peer
//! accesses a region after its owner has closed it.
//!
//! | offset | size | field     | written by |
//! |-------:|-----:|-----------|------------|
//! |      0 |    8 | `claim`   | the port, while it reaches a peer's region |
//! |      8 |    4 | `chunks`  | the port: chunks of the table that have memory |
//! |     64 | 32 each | entries | the port |

use core::mem::offset_of;
use std::sync::Arc;

use strait_core::hca::Access;
use strait_core::hca::fabric::{RegionClaim, RegionEntry};
use strait_core::layout::Segment;
use strait_core::sync::AtomicU32;
use strait_core::sync::Ordering::{Acquire, Release};
use strait_platform::backoff::{Backoff, SpinLimits};
use strait_platform::boot::HEAP_BYTES;
use strait_platform::segment::{Heap, SegmentError, SegmentMap};
use strait_platform::{Rank, liveness};

/// Bytes by which a table grows.
const CHUNK_BYTES: usize = 16 << 10;

/// Bytes of address space for each table: the whole heap of a process in a universe.
const TABLE_BYTES: usize = HEAP_BYTES;

/// Number of regions that a port can have open at the same time.
pub const REGIONS_MAX: usize =
    (TABLE_BYTES - size_of::<RegionTableHeader>()) / size_of::<RegionEntry>();

/// The header of a table, before its entries.
#[derive(Debug)]
#[repr(C, align(64))]
struct RegionTableHeader {
    claim: RegionClaim,
    chunks: AtomicU32,
}

const _: () = {
    assert!(size_of::<RegionTableHeader>() == 64 && offset_of!(RegionTableHeader, chunks) == 8);
    assert!(size_of::<RegionEntry>() == 32 && CHUNK_BYTES.is_multiple_of(32));
};

/// The name of a region: its index in its owner's table, and a tag. The tag separates it from
/// earlier regions at the same index.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RegionKey {
    /// The index in the table.
    pub index: u32,
    /// A number that is not zero.
    pub tag: u32,
}

/// The reason why memory of a peer was not accessed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RegionError {
    /// The peer has no region with this key: it was never registered, or it is closed.
    UnknownKey,
    /// Some of the bytes lie outside the region.
    Bounds,
    /// The region was not registered for this kind of access.
    Access,
}

/// The table of one port.
#[derive(Debug)]
pub(super) struct PortRegions {
    map: Arc<SegmentMap>,
    rank: Rank,
    heap: Heap,
}

/// A claim on a region of a peer. Dropping it ends the claim.
#[derive(Debug)]
pub(super) struct RegionClaimGuard<'a>(&'a RegionClaim);

impl Drop for RegionClaimGuard<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl PortRegions {
    /// Creates an empty table for `rank`. Nothing else uses the heap of `rank`. It is created
    /// before peers can see that the rank is there.
    pub(super) fn new(map: Arc<SegmentMap>, rank: Rank) -> Result<Self, SegmentError> {
        let heap = Heap::new(Arc::clone(&map), rank);
        let this = Self { map, rank, heap };
        this.take_chunk(0)?;
        Ok(this)
    }

    /// Backs a chunk and clears it. An earlier process with this rank may have been killed and have
    /// left entries.
    fn take_chunk(&self, number: u32) -> Result<(), SegmentError> {
        let taken = self.heap.take(CHUNK_BYTES)?;
        let place = self.heap.place(&taken);
        // SAFETY: the memory is reserved and mapped, and no peer reads it before `chunks` counts
        // it.
        unsafe { place.write_bytes(0, CHUNK_BYTES) };
        let segment = self.segment();
        debug_assert_eq!(
            segment.heap_offset(self.rank, place, CHUNK_BYTES),
            Some(u64::from(number) * CHUNK_BYTES as u64),
            "nothing else is in the heap"
        );
        if let Some(header) = self.header(self.rank) {
            // Release, pairs with `entry`: a peer that counts the chunk finds it empty.
            header.chunks.store(number + 1, Release);
        }
        Ok(())
    }

    /// Opens a region to peers, at a free index.
    pub(super) fn open(
        &self,
        key: RegionKey,
        access: Access,
        (base, length): (u64, u64),
    ) -> Result<(), SegmentError> {
        loop {
            if let Some(entry) = self.entry(self.rank, key.index) {
                entry.publish(key.tag, access, base, length);
                return Ok(());
            }
            let chunks = self.header(self.rank).map_or(0, |it| it.chunks.load(Acquire));
            self.take_chunk(chunks)?;
        }
    }

    /// Closes a region, and waits for the peers that access it.
    pub(super) fn close(&self, key: RegionKey) {
        let segment = self.segment();
        let Some(entry) = self.entry(self.rank, key.index) else { return };
        entry.revoke();
        for peer in 0..segment.ranks() {
            let liveness = &segment.rank_block(peer).liveness;
            // A rank has a table before it has a witness, and it accesses no region before it has a
            // witness.
            if liveness.witness() == 0 {
                continue;
            }
            let Some(header) = self.header(peer) else { return };
            let mut backoff = Backoff::new(SpinLimits::brief());
            while header.claim.is_on(self.rank, key.tag) {
                if backoff.pause_awake() && liveness::has_ended(liveness) {
                    break;
                }
            }
        }
    }

    /// Claims `length` bytes at `address` in a region of `peer`.
    pub(super) fn claim(
        &self,
        peer: Rank,
        key: RegionKey,
        (address, length): (u64, usize),
        allows: impl FnOnce(Access) -> bool,
    ) -> Result<RegionClaimGuard<'_>, RegionError> {
        let own = self.header(self.rank).ok_or(RegionError::UnknownKey)?;
        own.claim.set(peer, key.tag);
        let claimed = RegionClaimGuard(&own.claim);
        let found = self.entry(peer, key.index).and_then(|entry| entry.get(key.tag));
        let (access, base, whole) = found.ok_or(RegionError::UnknownKey)?;
        let needed = address.checked_sub(base).and_then(|before| before.checked_add(length as u64));
        if needed.is_none_or(|needed| needed > whole) {
            return Err(RegionError::Bounds);
        }
        if allows(access) { Ok(claimed) } else { Err(RegionError::Access) }
    }

    /// Returns the view of the segment. No view is used after `self` is dropped.
    fn segment(&self) -> Segment {
        // SAFETY: `self` keeps the map, and no view is used later (contract of this function).
        unsafe { self.map.segment() }
    }

    /// Returns the header of a rank's table.
    fn header(&self, rank: Rank) -> Option<&RegionTableHeader> {
        let place = self.segment().heap_place(rank, 0, size_of::<RegionTableHeader>()).ok()?;
        // SAFETY: the header lies in the segment, which `self` keeps mapped, and it is aligned. All
        // bytes are valid values of its atomics.
        Some(unsafe { place.cast::<RegionTableHeader>().as_ref() })
    }

    /// Returns an entry of a rank's table, if there is memory for it.
    fn entry(&self, rank: Rank, index: u32) -> Option<&RegionEntry> {
        // Acquire, pairs with `take_chunk`.
        let chunks = self.header(rank)?.chunks.load(Acquire) as usize;
        let offset = size_of::<RegionTableHeader>() + index as usize * size_of::<RegionEntry>();
        let has_memory = offset + size_of::<RegionEntry>() <= chunks.saturating_mul(CHUNK_BYTES);
        let bytes = size_of::<RegionEntry>();
        let place = self.segment().heap_place(rank, offset as u64, bytes).ok();
        // SAFETY: the entry lies in the segment, which `self` keeps mapped, and it is aligned. All
        // bytes are valid values of its atomics.
        place.filter(|_| has_memory).map(|place| unsafe { place.cast::<RegionEntry>().as_ref() })
    }
}
