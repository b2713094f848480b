//! Places at which a test stops a rank for good, to kill it there.
//!
//! A death matters between two stores to shared memory, and no test can hit that gap by chance. So the gaps have names, and
//! a rank that is to die in one stops there until it is killed. In a build without debug assertions, and under loom, a step
//! is nothing.

/// A gap between two stores that others can see: what has been done is in the name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names say it; `ALL` and `OF_WINDOWS` have the table")]
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
    SlotClaimed,
    SeatTaken,
    BarrierEntered,
    SeatLeft,
    WindowPosted,
    WindowStarted,
    WindowPut,
    AccumulateLocked,
    AccumulateWritten,
    ErrandSent,
    WindowFlushing,
    WindowCompleted,
    WindowWaiting,
    WindowFenced,
}

impl Step {
    /// Those of messages and groups, in the order of what they belong to: sending by baton, fastbox, parcel and cell; receiving from
    /// a cell; waking; a large message, also one that its receiver asked for; an offered one; a barrier.
    pub const ALL: [Self; 31] = [
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
        Self::SlotClaimed,
        Self::SeatTaken,
        Self::BarrierEntered,
        Self::SeatLeft,
    ];

    /// Those of windows, in the order of a round: posting, starting, a put, an accumulate under a lock, one by the target's handler,
    /// a flush that has begun, completing, waiting, and a fence that has flushed and has not met the others.
    pub const OF_WINDOWS: [Self; 10] = [
        Self::WindowPosted,
        Self::WindowStarted,
        Self::WindowPut,
        Self::AccumulateLocked,
        Self::AccumulateWritten,
        Self::ErrandSent,
        Self::WindowFlushing,
        Self::WindowCompleted,
        Self::WindowWaiting,
        Self::WindowFenced,
    ];
}

/// The step `at` has been reached.
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

    /// The step to stop at; zero for none.
    static WANTED: AtomicU32 = AtomicU32::new(0);

    /// The step at which a thread stands still; zero for none.
    static STOPPED: AtomicU32 = AtomicU32::new(0);

    /// The step `at` has been reached: a thread that is to stop there does.
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

    /// Has this process's next thread that reaches `step` stop there for good.
    pub fn stop_at(step: Step) {
        WANTED.store(step as u32, Relaxed);
    }

    /// True once a thread has stopped: all that it had stored can be seen, and nothing follows.
    #[must_use]
    pub fn is_stopped() -> bool {
        STOPPED.load(Relaxed) != 0
    }
}
