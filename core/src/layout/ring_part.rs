//! The parts of a copy ring, which get memory at different times.

use super::SegmentPlan;

/// A part of the memory of a copy ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RingPart {
    /// The receiver's word and the heads of the granules. The receiver looks at them from the first
    /// announced message on.
    Heads,
    /// The granules, which hold the bytes: nearly all of the ring.
    Granules,
}

impl RingPart {
    /// All parts, in the order in which they get memory.
    pub const ALL: [Self; 2] = [Self::Heads, Self::Granules];
}

impl SegmentPlan {
    /// Returns the offset and length of a part of the copy ring from `source` to `destination`,
    /// both multiples of the page size.
    #[must_use]
    pub const fn ring_part(&self, source: u32, destination: u32, part: RingPart) -> (usize, usize) {
        let (offset, length) = self.ring_range(source, destination);
        let heads = self.ring_bytes_offset();
        match part {
            RingPart::Heads => (offset, heads),
            RingPart::Granules => (offset + heads, length - heads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{PAGE, SegmentConfig};

    #[test]
    fn the_parts_are_the_whole_ring_in_pages() {
        let plan = SegmentPlan::new(SegmentConfig::new(3)).unwrap();
        let whole = plan.ring_range(2, 1);
        let [heads, granules] = RingPart::ALL.map(|part| plan.ring_part(2, 1, part));
        assert_eq!((heads.0, heads.0 + heads.1), (whole.0, granules.0));
        assert_eq!(granules.0 + granules.1, whole.0 + whole.1);
        assert!(heads.1 > 0 && heads.1 < granules.1);
        assert!([heads.0, heads.1, granules.1].iter().all(|bytes| bytes % PAGE == 0));
    }
}
