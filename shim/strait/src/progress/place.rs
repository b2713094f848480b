//! The place of a rank in its segment, and its means to sleep.

use std::sync::Arc;
use std::time::Instant;

use strait_core::layout::Segment;
use strait_core::shm::DoorbellPtr;
use strait_platform::Rank;
use strait_platform::segment::SegmentMap;
use strait_platform::sleep::Sleep;

/// The place of a rank in its segment, and its means to sleep. It never changes.
pub(crate) struct RankContext {
    pub(crate) map: Arc<SegmentMap>,
    pub(crate) rank: Rank,
    pub(crate) size: u32,
    pub(crate) sleep: Sleep,
    /// The zero of the engine's clock.
    pub(crate) begin: Instant,
}

impl RankContext {
    /// Returns this rank's doorbell.
    pub(crate) fn bell(&self) -> DoorbellPtr {
        self.segment().doorbell(self.rank)
    }

    /// Returns the view of the segment. The world and its progress thread use none after they have
    /// dropped this value.
    pub(crate) fn segment(&self) -> Segment {
        // SAFETY: this value keeps the map, and no view is used later (contract of this function).
        unsafe { self.map.segment() }
    }
}
