//! A segment in memory of the test's own, into which a test can write values that no correct rank
//! writes.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;
use std::alloc;
use std::rc::Rc;

use strait_core::engine::{Engine, Tuning};
use strait_core::layout::{PAGE, Segment, SegmentConfig, SegmentPlan};
use strait_core::lmt::Transfer;
use strait_core::memory::Memory;

/// The nonce of every arena.
pub const NONCE: u64 = 0x5eed;

/// The most bytes of a heap in an arena, which allocates memory for all of it.
const HEAP_MOST: u64 = 128 << 10;

/// A formatted segment. It must outlive its engines.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    layout: Layout,
    segment: Segment,
}

impl Arena {
    /// Returns the settings of the engines: nothing here moves data between two processes.
    #[must_use]
    pub fn tuning() -> Tuning {
        Tuning { transfer: Transfer::CopyRing, ..Tuning::default() }
    }

    /// Creates an empty segment of this shape.
    ///
    /// # Panics
    ///
    /// When there is no such shape, or no memory.
    #[must_use]
    pub fn new(config: SegmentConfig) -> Self {
        let heap_bytes = config.heap_bytes.min(HEAP_MOST);
        let plan =
            SegmentPlan::new(SegmentConfig { heap_bytes, ..config }).expect("a possible shape");
        let layout = Layout::from_size_align(plan.total_bytes(), PAGE).expect("a possible size");
        // SAFETY: a segment has at least a header, so the size is not zero.
        let base = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).expect("memory");
        // SAFETY: the memory is page-aligned, zero, as long as the plan states, and ours until
        // `drop`.
        let segment = unsafe { Segment::format(base, plan, NONCE) };
        Self { base, layout, segment }
    }

    /// Returns the view of the segment.
    #[must_use]
    pub const fn segment(&self) -> Segment {
        self.segment
    }

    /// Returns the length of the segment, in bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.layout.size()
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the engine of `rank`, with private memory from `ledger`.
    ///
    /// # Panics
    ///
    /// When there is no memory.
    #[must_use]
    pub fn engine(&self, rank: u32, ledger: &Ledger) -> Engine<Ledger> {
        self.engine_with(rank, ledger, Self::tuning())
    }

    /// Returns the engine of `rank` with other settings.
    ///
    /// # Panics
    ///
    /// When there is no memory.
    #[must_use]
    pub fn engine_with(&self, rank: u32, ledger: &Ledger, tuning: Tuning) -> Engine<Ledger> {
        let engine = Engine::new(ledger.clone(), self.segment, rank, tuning);
        engine.expect("memory for an engine")
    }

    /// Writes `bytes` at `offset`, as a faulty rank might.
    ///
    /// # Panics
    ///
    /// When the segment is too short.
    pub fn scribble(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length());
        // SAFETY: the bytes are in bounds. One thread runs all engines of an arena, and none of
        // them is inside a call.
        unsafe {
            self.base
                .add(offset)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        };
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the memory is from `alloc_zeroed` with this layout, and the engines are gone
        // (contract of the type).
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// The most bytes in one allocation, so that a damaged length does not exhaust the machine's
/// memory.
const LENT_AT_ONCE: usize = 1 << 28;

/// The system allocator with an account of allocated bytes. Clones share one account.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Rc<Cell<usize>>);

impl Ledger {
    /// Returns the number of bytes that are allocated now.
    #[must_use]
    pub fn lent_bytes(&self) -> usize {
        self.0.get()
    }
}

// SAFETY: the memory is that of the system allocator, unchanged, with the requested layout.
unsafe impl Memory for Ledger {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.size() > LENT_AT_ONCE {
            return None;
        }
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
