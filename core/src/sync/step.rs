//! Named points in the code at which a test stops a rank permanently and kills it there.
//!
//! A death matters between two stores to shared memory, and no test hits that gap by chance. The
//! gaps therefore have names, and a selected rank stops in one until a test kills it. In a build
//! without debug assertions, and under loom, a step compiles to nothing.

/// A gap between two stores that other processes observe. The name says what precedes the gap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names describe the steps; `ALL` and `OF_WINDOWS` list them")]
pub enum Step {
    BatonFilled = 1,
    BatonPassed,
    FastboxFilled,
    FastboxSent,
    ParcelNamed,
    PieceFilled,
    CellTaken,
    CellHeld,
    CellSwapped,
    CellLinked,
    CellSent,
    CellRead,
    BellRung,
    RtsSent,
    Granted,
    RtrSent,
    RtrUsed,
    RtrAckSent,
    RtrRetracted,
    ChunkClaimed,
    ChunkMoved,
    ChunkFinished,
    RingFilled,
    RingRead,
    OfferSent,
    Called,
    CallTaken,
    Answered,
    SlotClaimed,
    SeatTaken,
    BarrierEntered,
    SeatLeft,
    WindowPosted,
    WindowStarted,
    WindowPut,
    AccumulateLocked,
    AccumulateWritten,
    AmSent,
    WindowFlushing,
    WindowCompleted,
    WindowWaiting,
    WindowFenced,
}

impl Step {
    /// The steps of messages and groups, in this order:
    /// - sending by baton, fastbox, parcel and cell;
    /// - receiving from a cell, and waking a rank;
    /// - a large message, including one that its receiver requested;
    /// - an offered message, the answer to a synchronous one, and a barrier.
    pub const ALL: [Self; 32] = [
        Self::BatonFilled,
        Self::BatonPassed,
        Self::FastboxFilled,
        Self::FastboxSent,
        Self::ParcelNamed,
        Self::PieceFilled,
        Self::CellTaken,
        Self::CellHeld,
        Self::CellSwapped,
        Self::CellLinked,
        Self::CellSent,
        Self::CellRead,
        Self::BellRung,
        Self::RtsSent,
        Self::Granted,
        Self::RtrSent,
        Self::RtrUsed,
        Self::RtrAckSent,
        Self::RtrRetracted,
        Self::ChunkClaimed,
        Self::ChunkMoved,
        Self::ChunkFinished,
        Self::RingFilled,
        Self::RingRead,
        Self::OfferSent,
        Self::Called,
        Self::CallTaken,
        Self::Answered,
        Self::SlotClaimed,
        Self::SeatTaken,
        Self::BarrierEntered,
        Self::SeatLeft,
    ];

    /// The steps of windows, in the order of a round:
    /// - post, start and put;
    /// - an accumulate under a lock, and an accumulate by the target's handler;
    /// - a flush that has begun, complete and wait;
    /// - a fence that has flushed but not yet synchronised.
    pub const OF_WINDOWS: [Self; 10] = [
        Self::WindowPosted,
        Self::WindowStarted,
        Self::WindowPut,
        Self::AccumulateLocked,
        Self::AccumulateWritten,
        Self::AmSent,
        Self::WindowFlushing,
        Self::WindowCompleted,
        Self::WindowWaiting,
        Self::WindowFenced,
    ];
}

/// Marks that execution has reached the step `at`.
#[inline(always)]
#[cfg(not(all(debug_assertions, not(strait_loom))))]
pub const fn reached(_at: Step) {}

#[cfg(all(debug_assertions, not(strait_loom)))]
pub use stopping::{is_stopped, reached, stop_at};

#[cfg(all(debug_assertions, not(strait_loom)))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
mod stopping {
    use core::sync::atomic::AtomicU32;
    use core::sync::atomic::Ordering::Relaxed;

    use super::Step;

    /// The step to stop at; zero means none.
    static WANTED: AtomicU32 = AtomicU32::new(0);

    /// The step at which a thread has stopped; zero means none.
    static STOPPED: AtomicU32 = AtomicU32::new(0);

    /// Marks that execution has reached the step `at`, and stops the thread there if requested.
    #[inline(always)]
    pub fn reached(at: Step) {
        if WANTED.load(Relaxed) == at as u32 {
            stop(at);
        }
    }

    #[cold]
    fn stop(at: Step) -> ! {
        STOPPED.store(at as u32, Relaxed);
        loop {
            crate::sync::spin_hint();
        }
    }

    /// Makes the next thread of this process that reaches `step` stop there permanently.
    pub fn stop_at(step: Step) {
        WANTED.store(step as u32, Relaxed);
    }

    /// Returns true once a thread has stopped. All its earlier stores are visible, and none
    /// follows.
    #[must_use]
    pub fn is_stopped() -> bool {
        STOPPED.load(Relaxed) != 0
    }
}
