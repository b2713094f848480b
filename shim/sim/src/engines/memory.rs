//! The memory of an engine: the segment of its node, and private memory that is counted.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;
use std::alloc;
use std::rc::Rc;

use strait_core::layout::{PAGE, Segment, SegmentConfig, SegmentPlan};
use strait_core::memory::Memory;

/// The system allocator with a count of the bytes that are allocated. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(super) struct CountedMemory(Rc<Cell<usize>>);

impl CountedMemory {
    /// Returns the number of bytes that are allocated now.
    pub(super) fn bytes(&self) -> usize {
        self.0.get()
    }
}

// SAFETY: the memory is that of the system allocator, unchanged, with the requested layout.
unsafe impl Memory for CountedMemory {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the trait's callers request no zero-sized layout.
        let memory = NonNull::new(unsafe { alloc::alloc(layout) })?;
        self.0.update(|bytes| bytes + layout.size());
        Some(memory)
    }

    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
        self.0.update(|bytes| bytes - layout.size());
        // SAFETY: the caller guarantees that the memory is from `allocate` above with this layout
        // (contract of `release`).
        unsafe { alloc::dealloc(memory.as_ptr(), layout) };
    }
}

/// The segment of a node with one rank, which is its rank 0. It must outlive the rank's engine.
pub(super) struct NodeSegment {
    base: NonNull<u8>,
    layout: Layout,
    segment: Segment,
}

impl NodeSegment {
    /// Makes a segment. The paths through it lead nowhere, so they are as small as possible.
    pub(super) fn new() -> Self {
        let config = SegmentConfig {
            cells_per_rank: 2,
            cell_payload: 1024,
            fastbox_lines: 1,
            baton_lines: 0,
            ring_granules: 0,
            parcels: 0,
            heap_bytes: 0,
            ..SegmentConfig::new(1)
        };
        let plan = SegmentPlan::new(config).expect("a possible shape");
        let layout = Layout::from_size_align(plan.total_bytes(), PAGE).expect("a possible size");
        // SAFETY: a segment has at least a header, so the size is not zero.
        let base = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).expect("memory");
        // SAFETY: the memory is page-aligned, zero, as long as the plan states, and ours until
        // `drop`.
        let segment = unsafe { Segment::format(base, plan, 1) };
        Self { base, layout, segment }
    }

    pub(super) const fn segment(&self) -> Segment {
        self.segment
    }
}

impl Drop for NodeSegment {
    fn drop(&mut self) {
        // SAFETY: the memory is from `alloc_zeroed` with this layout, and the engine is gone
        // (contract of the type).
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}
