//! What the tests of the engine's machines need: a segment, and operations.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::alloc::{alloc_zeroed, dealloc};

use super::SendMode;
use super::request::{OutgoingMessage, RequestState};
use crate::buffer::{Cursor, Part};
use crate::layout::{PAGE, Segment, SegmentConfig, SegmentPlan};
use crate::wire::Key;

/// Runs `test` with a small segment of `ranks` ranks, all of which is backed by memory.
pub(super) fn with_segment(ranks: u32, test: impl FnOnce(&Segment)) {
    let config = SegmentConfig {
        cells_per_rank: 8,
        cell_payload: 1024,
        ring_granules: 16,
        heap_bytes: 4096,
        ..SegmentConfig::new(ranks)
    };
    let plan = SegmentPlan::new(config).unwrap();
    let shape = Layout::from_size_align(plan.total_bytes(), PAGE).unwrap();
    // SAFETY: a segment is never empty.
    let base = NonNull::new(unsafe { alloc_zeroed(shape) }).unwrap();
    // SAFETY: the memory is zero, aligned and as long as the plan says.
    test(&unsafe { Segment::format(base, plan, 1) });
    // SAFETY: the memory came from `alloc_zeroed` with this shape, and the test is over.
    unsafe { dealloc(base.as_ptr(), shape) };
}

/// Returns a buffer without a byte.
pub(super) fn nothing() -> Cursor {
    // SAFETY: there is no byte to keep valid.
    unsafe { Cursor::contiguous(Part { base: NonNull::dangling(), length: 0 }) }
}

/// Returns the state of a send that waits.
pub(super) fn sending(tag: u32) -> RequestState {
    let (key, stage) = (Key::new(0, tag), SendMode::Standard.first_stage());
    let message = OutgoingMessage { key, total: 0, sent: 0, data: nothing(), stage };
    RequestState::Sending { message, next: None, detached: None }
}
