//! What a self-test has: the segment, as a processor sees it that is a rank, and a way to fail.

use core::fmt;
use core::ptr::NonNull;

use strait_core::layout::{AttachError, Config, Corrupt, PAGE, Plan, PlanError, Segment};
use strait_core::progress::{Fault, ProgressError, StartError};
use strait_core::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use strait_core::sync::{AtomicU32, UnsafeCell, spin_hint};

/// The processors, each of them a rank.
pub(crate) const RANKS: u32 = 2;

/// Rings and pools that a test fills many times over.
const CONFIG: Config = Config {
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
struct Memory(UnsafeCell<[u8; 8 << 20]>);

// SAFETY: it is reached through the segment, whose structures are made for two processors, and rewritten while one waits.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; 8 << 20]));

/// Processors that have come to a meeting, of all meetings.
static ARRIVED: AtomicU32 = AtomicU32::new(0);

/// Whether a processor has found a flaw in this self-test.
static FLAWED: AtomicU32 = AtomicU32::new(0);

/// Waits for the other processor. By a counter of its own, and not by the barrier, which is under test.
pub(crate) fn meet() {
    let meeting = ARRIVED.fetch_add(1, AcqRel) / RANKS;
    while ARRIVED.load(Acquire) / RANKS == meeting {
        spin_hint();
    }
}

/// Begins with an empty segment, for one processor to do while the other waits.
pub(crate) fn clear() -> Result<(), Flaw> {
    FLAWED.store(0, Relaxed);
    let plan = Plan::new(CONFIG)?;
    let length = size_of::<Memory>();
    check("bytes of the segment beyond the memory", plan.total_bytes().saturating_sub(length), 0)?;
    MEMORY.0.with_mut(|memory| {
        let base = NonNull::new(memory.cast::<u8>()).expect("a static has an address");
        // SAFETY: nobody else uses the memory now. It is a page's multiple long and aligned, and zero from here on.
        unsafe {
            base.write_bytes(0, length);
            Segment::format(base, plan, NONCE);
        }
    });
    Ok(())
}

/// Whether a self-test has gone well on both processors so far.
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
    /// Processor `rank`. In a `broken` test, the second says what is not so.
    pub(crate) fn new(rank: u32, broken: bool) -> Result<Self, Flaw> {
        let base = MEMORY.0.with_mut(|memory| NonNull::new(memory.cast::<u8>()));
        let base = base.expect("a static has an address");
        // SAFETY: the memory is static, a page's multiple long and aligned, and reached as a segment alone.
        let segment = unsafe { Segment::attach(base, size_of::<Memory>(), NONCE, rank) }?;
        Ok(Self { rank, segment, lies: broken && rank != 0 })
    }

    /// The other processor.
    pub(crate) const fn peer(&self) -> u32 {
        1 - self.rank
    }

    /// The number to send or write where `number` is expected.
    pub(crate) const fn say(&self, number: u64) -> u64 {
        number + self.lies as u64
    }

    /// Looks until there is something, or the other processor has found a flaw.
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

    /// A structure that both processors reach, in memory that nothing else uses.
    ///
    /// # Safety
    ///
    /// `T` is made for two processors, and zeroed memory is one.
    pub(crate) unsafe fn shared<T>(&self) -> &T {
        const { assert!(size_of::<T>() <= CONFIG.heap_bytes as usize) };
        let (heap, _) = self.segment.heap(0);
        // SAFETY: a heap is page-aligned and long enough; the rest is the contract.
        unsafe { heap.cast().as_ref() }
    }
}

/// One processor's part in a self-test. The other is told if it goes wrong.
pub(crate) fn attempt(part: impl FnOnce() -> Result<(), Flaw>) -> Result<(), Flaw> {
    let result = part();
    if result.is_err() {
        FLAWED.store(1, Release);
    }
    result
}

/// That something is as it should be.
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

/// What is wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flaw {
    /// Something is not what it should be.
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
    /// The other processor found a flaw, and says so itself.
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
            Self::Elsewhere => f.write_str("given up"),
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
