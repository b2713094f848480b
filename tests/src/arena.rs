//! A segment in memory of the test's own, so that a test can write into it what no correct rank writes.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;
use std::alloc;
use std::rc::Rc;

use strait_core::layout::{Config, PAGE, Plan, Segment};
use strait_core::lmt::Transfer;
use strait_core::memory::Memory;
use strait_core::progress::{Engine, Tuning};

/// The nonce of every arena.
pub const NONCE: u64 = 0x5eed;

/// Most bytes of a heap in an arena, which has memory behind all of it.
const HEAP_MOST: u64 = 128 << 10;

/// A formatted segment. It must outlive its engines.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    layout: Layout,
    segment: Segment,
}

impl Arena {
    /// The numbers of the engines: nobody here moves anything between two processes.
    #[must_use]
    pub fn tuning() -> Tuning {
        Tuning { transfer: Transfer::CopyRing, ..Tuning::default() }
    }

    /// An empty segment of this shape.
    ///
    /// # Panics
    ///
    /// When there is no such shape, or no memory.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let heap_bytes = config.heap_bytes.min(HEAP_MOST);
        let plan = Plan::new(Config { heap_bytes, ..config }).expect("a possible shape");
        let layout = Layout::from_size_align(plan.total_bytes(), PAGE).expect("a possible size");
        // SAFETY: a segment has at least a header, so the size is not zero.
        let base = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).expect("memory");
        // SAFETY: the memory is page-aligned, zero, as long as the plan says, and ours until `drop`.
        let segment = unsafe { Segment::format(base, plan, NONCE) };
        Self { base, layout, segment }
    }

    /// The view of the segment.
    #[must_use]
    pub const fn segment(&self) -> Segment {
        self.segment
    }

    /// Length of the segment, bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.layout.size()
    }

    /// The first byte.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The engine of `rank`, with private memory from `ledger`.
    ///
    /// # Panics
    ///
    /// When there is no memory.
    #[must_use]
    pub fn engine(&self, rank: u32, ledger: &Ledger) -> Engine<Ledger> {
        self.engine_with(rank, ledger, Self::tuning())
    }

    /// As [`Arena::engine`], with other numbers.
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
    /// When the segment is not so long.
    pub fn scribble(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length());
        // SAFETY: in bounds; one thread runs all engines of an arena, and none of them is inside a call.
        unsafe {
            self.base
                .add(offset)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        };
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: from `alloc_zeroed` with this layout; the engines are gone (contract of the type).
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// The most that is lent at once, bytes: so that a damaged length does not take the machine's memory.
const LENT_AT_ONCE: usize = 1 << 28;

/// The system allocator with a book of what is lent. Clones share one book.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Rc<Cell<usize>>);

impl Ledger {
    /// Bytes that are lent now.
    #[must_use]
    pub fn lent_bytes(&self) -> usize {
        self.0.get()
    }
}

// SAFETY: memory is passed on from the system allocator as it is, with the layout that was asked for.
unsafe impl Memory for Ledger {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.size() > LENT_AT_ONCE {
            return None;
        }
        // SAFETY: the trait's callers ask for no zero-sized layout.
        let memory = NonNull::new(unsafe { alloc::alloc(layout) })?;
        self.0.update(|bytes| bytes + layout.size());
        Some(memory)
    }

    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
        self.0.update(|bytes| bytes - layout.size());
        // SAFETY: by the contract of `release`, from `allocate` above with this layout.
        unsafe { alloc::dealloc(memory.as_ptr(), layout) };
    }
}
