//! The environment of a self-test: the segment as one rank sees it, and a way to fail.

use core::fmt;
use core::ptr::NonNull;

use strait_core::engine::{Fault, ProgressError, StartError};
use strait_core::layout::{
    AttachError, Corrupt, PAGE, PlanError, Segment, SegmentConfig, SegmentPlan,
};
use strait_core::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use strait_core::sync::{AtomicU32, UnsafeCell, spin_hint};

/// Number of processors, each of which is a rank.
pub(crate) const RANKS: u32 = 2;

/// A configuration with rings and pools that a test fills many times over.
const CONFIG: SegmentConfig = SegmentConfig {
    ranks: RANKS,
    cells_per_rank: 8,
    cell_payload: 1024,
    fastbox_lines: 8,
    baton_lines: 4,
    ring_granules: 4,
    parcels: 4,
    heap_bytes: PAGE as u64,
};

const NONCE: u64 = 0xba5e;

/// The memory of the segment.
#[repr(C, align(4096))]
struct SegmentMemory(UnsafeCell<[u8; 8 << 20]>);

// SAFETY: the memory is accessed through the segment, which supports two processors. It is
// rewritten while one of them waits.
unsafe impl Sync for SegmentMemory {}

static MEMORY: SegmentMemory = SegmentMemory(UnsafeCell::new([0; 8 << 20]));

/// Number of arrivals of processors at all meetings so far.
static ARRIVED: AtomicU32 = AtomicU32::new(0);

/// Non-zero if a processor has found a flaw in this self-test.
static FLAWED: AtomicU32 = AtomicU32::new(0);

/// Waits for the other processor. Uses a counter of its own, because the barrier is under test.
pub(crate) fn meet() {
    let meeting = ARRIVED.fetch_add(1, AcqRel) / RANKS;
    while ARRIVED.load(Acquire) / RANKS == meeting {
        spin_hint();
    }
}

/// Creates an empty segment. One processor calls it while the other waits.
pub(crate) fn clear() -> Result<(), Flaw> {
    FLAWED.store(0, Relaxed);
    let plan = SegmentPlan::new(CONFIG)?;
    let length = size_of::<SegmentMemory>();
    check("bytes of the segment beyond the memory", plan.total_bytes().saturating_sub(length), 0)?;
    MEMORY.0.with_mut(|memory| {
        let base = NonNull::new(memory.cast::<u8>()).expect("a static has an address");
        // SAFETY: nothing else uses the memory now. It is aligned to a page, a multiple of a page
        // long, and zero from here on.
        unsafe {
            base.write_bytes(0, length);
            Segment::format(base, plan, NONCE);
        }
    });
    Ok(())
}

/// Returns true if both processors have found no flaw in this self-test so far.
pub(crate) fn is_flawless() -> bool {
    FLAWED.load(Acquire) == 0
}

/// A processor in a self-test.
#[derive(Debug)]
pub(crate) struct Party {
    pub(crate) rank: u32,
    pub(crate) segment: Segment,
    lies: bool,
}

impl Party {
    /// Creates processor `rank`. In a `broken` test, the second processor sends wrong numbers.
    pub(crate) fn new(rank: u32, broken: bool) -> Result<Self, Flaw> {
        let base = MEMORY.0.with_mut(|memory| NonNull::new(memory.cast::<u8>()));
        let base = base.expect("a static has an address");
        // SAFETY: the memory is static, aligned to a page and a multiple of a page long, and
        // accessed only as a segment.
        let segment = unsafe { Segment::attach(base, size_of::<SegmentMemory>(), NONCE, rank) }?;
        Ok(Self { rank, segment, lies: broken && rank != 0 })
    }

    /// Returns the other processor.
    pub(crate) const fn peer(&self) -> u32 {
        1 - self.rank
    }

    /// Returns the number to send or write where `number` is expected.
    pub(crate) const fn say(&self, number: u64) -> u64 {
        number + self.lies as u64
    }

    /// Polls until there is a result, or the other processor has found a flaw.
    pub(crate) fn wait<T>(
        &self,
        mut look: impl FnMut() -> Result<Option<T>, Flaw>,
    ) -> Result<T, Flaw> {
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if !is_flawless() {
                return Err(Flaw::Elsewhere);
            }
            spin_hint();
        }
    }

    /// Returns a structure that both processors access, in memory that nothing else uses.
    ///
    /// # Safety
    ///
    /// `T` supports two processors, and zeroed memory is a valid `T`.
    pub(crate) unsafe fn shared<T>(&self) -> &T {
        const { assert!(size_of::<T>() <= CONFIG.heap_bytes as usize) };
        let (heap, _) = self.segment.heap(0);
        // SAFETY: a heap is page-aligned and long enough. The caller guarantees that `T` supports
        // two processors and zeroed memory (contract of `shared`).
        unsafe { heap.cast().as_ref() }
    }
}

/// Runs one processor's part of a self-test. Informs the other processor if it fails.
pub(crate) fn attempt(part: impl FnOnce() -> Result<(), Flaw>) -> Result<(), Flaw> {
    let result = part();
    if result.is_err() {
        FLAWED.store(1, Release);
    }
    result
}

/// Returns an error unless `found` equals `expected`.
pub(crate) fn check<T: TryInto<u64>>(
    what: &'static str,
    found: T,
    expected: u64,
) -> Result<(), Flaw> {
    match found.try_into() {
        Ok(found) if found == expected => Ok(()),
        found => Err(Flaw::Found { what, found: found.unwrap_or(u64::MAX), expected }),
    }
}

/// A flaw that a self-test found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flaw {
    /// A value differs from the expected one.
    Found {
        what: &'static str,
        found: u64,
        expected: u64,
    },
    Plan(PlanError),
    Attach(AttachError),
    Corrupt(Corrupt),
    Start(StartError),
    Progress(ProgressError),
    Fault(Fault),
    /// The other processor found a flaw, and reports it.
    Elsewhere,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { what, found, expected } => {
                write!(f, "{what}: found {found:#x}, not {expected:#x}")
            }
            Self::Plan(error) => error.fmt(f),
            Self::Attach(error) => error.fmt(f),
            Self::Corrupt(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::Progress(error) => error.fmt(f),
            Self::Fault(error) => error.fmt(f),
            Self::Elsewhere => f.write_str("the other processor found a flaw"),
        }
    }
}

macro_rules! flaws {
    ($($name:ident($error:ty)),*) => {
        $(impl From<$error> for Flaw {
            fn from(error: $error) -> Self {
                Self::$name(error)
            }
        })*
    };
}

flaws!(
    Plan(PlanError),
    Attach(AttachError),
    Corrupt(Corrupt),
    Start(StartError),
    Progress(ProgressError),
    Fault(Fault)
);
