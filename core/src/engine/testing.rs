//! A segment for the tests of the engine's machines.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::layout::{PAGE, Segment, SegmentConfig, SegmentPlan};

/// Runs `test` with a segment of `ranks` ranks, all of which is backed by memory.
pub(super) fn with_segment(ranks: u32, test: impl FnOnce(&Segment)) {
    let config = SegmentConfig { heap_bytes: 4096, ..SegmentConfig::new(ranks) };
    let plan = SegmentPlan::new(config).unwrap();
    let shape = Layout::from_size_align(plan.total_bytes(), PAGE).unwrap();
    // SAFETY: a segment is never empty.
    let base = NonNull::new(unsafe { alloc_zeroed(shape) }).unwrap();
    // SAFETY: the memory is zero, aligned and as long as the plan says.
    test(&unsafe { Segment::format(base, plan, 1) });
    // SAFETY: the memory came from `alloc_zeroed` with this shape, and the test is over.
    unsafe { dealloc(base.as_ptr(), shape) };
}
