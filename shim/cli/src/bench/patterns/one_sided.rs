//! Operations on the follower's part of a window, each with a flush, and their synchronisation.
//!
//! A passive target waits for a message at the end of the batch: between nodes it may have to turn
//! the progress of the library.

use core::error::Error;

use strait::{Assert, Endpoint, LockType, Op, Window, WindowDesign};

use super::table::{Make, PatternRow, Unit};
use crate::measure::memory::MemoryKind;
use crate::measure::sampling::Batch;
use crate::measure::stage::{BenchStage, TAG};

/// Size of each rank's part of the window, in bytes.
const PART: usize = 1 << 20;

/// The patterns of the group.
pub(super) const PATTERNS: [PatternRow; 14] = [
    pattern("put", 8, |s, w, p| make(s, w, p, Work::Put)),
    pattern("put", 4 << 10, |s, w, p| make(s, w, p, Work::Put)),
    pattern("put", 1 << 20, |s, w, p| make(s, w, p, Work::Put)),
    pattern("get", 8, |s, w, p| make(s, w, p, Work::Get)),
    pattern("get", 1 << 20, |s, w, p| make(s, w, p, Work::Get)),
    pattern("accumulate", 8, |s, w, p| make(s, w, p, Work::Accumulate)),
    pattern("accumulate", 4 << 10, |s, w, p| make(s, w, p, Work::Accumulate)),
    pattern("fetch-and-op", 8, |s, w, p| make(s, w, p, Work::FetchAndOp)),
    pattern("compare-swap", 8, |s, w, p| make(s, w, p, Work::CompareAndSwap)),
    pattern("lock exclusive", 0, |s, w, p| make(s, w, p, Work::LockExclusive)),
    pattern("lock shared", 0, |s, w, p| make(s, w, p, Work::LockShared)),
    pattern("lock + put", 8, |s, w, p| make(s, w, p, Work::LockedPut)),
    pattern("fence", 0, |s, w, p| make(s, w, p, Work::Fence)),
    pattern("post/start", 0, |s, w, p| make(s, w, p, Work::Epoch)),
];

const fn pattern(name: &'static str, bytes: usize, make: Make) -> PatternRow {
    PatternRow { name, bytes, operations: 1, unit: Unit::Time, make }
}

/// Makes the window of all ranks.
pub(super) fn window<'a>(stage: &BenchStage<'a>) -> Result<Window<'a>, strait::Error> {
    let rma_window = crate::bench::rma::window::window;
    rma_window(stage, MemoryKind::Segment, PART, WindowDesign::Rdma)
}

/// The work of a round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Work {
    Put,
    Get,
    Accumulate,
    FetchAndOp,
    CompareAndSwap,
    LockExclusive,
    LockShared,
    LockedPut,
    Fence,
    /// Both sides are origin and target.
    Epoch,
}

/// One side.
struct OneSidedPattern<'a> {
    endpoint: Endpoint<'a>,
    window: &'a Window<'a>,
    partner: u32,
    work: Work,
    bytes: Vec<u8>,
    words: Vec<i64>,
}

fn make<'a>(
    stage: &'a BenchStage<'a>,
    window: &'a Window<'a>,
    pattern: &PatternRow,
    work: Work,
) -> Result<Box<dyn Batch + 'a>, Box<dyn Error>> {
    let (bytes, words) = (vec![1; pattern.bytes], vec![1; pattern.bytes.div_ceil(8)]);
    let BenchStage { endpoint, partner, .. } = *stage;
    Ok(Box::new(OneSidedPattern { endpoint, window, partner, work, bytes, words }))
}

impl OneSidedPattern<'_> {
    /// Performs one operation in an epoch of many, complete at the target when it returns.
    #[inline(always)]
    fn operation(&mut self) -> Result<(), strait::Error> {
        let Self { window, partner, work, bytes, words, .. } = self;
        match work {
            Work::Get => window.get(bytes, *partner, 0)?,
            Work::Accumulate => window.accumulate(words, *partner, 0, Op::Sum)?,
            Work::FetchAndOp => {
                let _ = window.fetch_and_op(1_i64, *partner, 0, Op::Sum)?;
            }
            Work::CompareAndSwap => {
                let _ = window.compare_and_swap(1_i64, 0, *partner, 0)?;
            }
            _ => window.put(bytes, *partner, 0)?,
        }
        window.flush(*partner)
    }

    fn operations(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.window.lock_all(Assert::NONE)?;
        (0..rounds).try_for_each(|_| self.operation())?;
        self.window.unlock_all()
    }

    fn locks(&self, kind: LockType, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| {
            self.window.lock(kind, self.partner, Assert::NONE)?;
            if self.work == Work::LockedPut {
                self.window.put(&self.bytes, self.partner, 0)?;
            }
            self.window.unlock(self.partner)
        })
    }

    /// Performs the work of both sides.
    fn both(&self, rounds: u64) -> Result<(), strait::Error> {
        let partner = [self.partner];
        match self.work {
            Work::Fence => (0..rounds).try_for_each(|_| self.window.fence(Assert::NONE)),
            Work::Epoch => (0..rounds).try_for_each(|_| {
                self.window.post(&partner, Assert::NONE)?;
                self.window.start(&partner, Assert::NONE)?;
                self.window.complete()?;
                self.window.wait()
            }),
            _ => Ok(()),
        }
    }
}

impl Batch for OneSidedPattern<'_> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        match self.work {
            Work::Fence | Work::Epoch => return self.both(rounds),
            Work::LockExclusive | Work::LockedPut => self.locks(LockType::Exclusive, rounds)?,
            Work::LockShared => self.locks(LockType::Shared, rounds)?,
            _ => self.operations(rounds)?,
        }
        self.endpoint.send::<[u8]>(&[], self.partner, TAG)
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        match self.work {
            Work::Fence | Work::Epoch => self.both(rounds),
            _ => self.endpoint.recv::<[u8]>(&mut [], self.partner, TAG).map(drop),
        }
    }
}
