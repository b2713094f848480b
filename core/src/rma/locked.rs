//! A change of numbers in a part under a lock that devices take (`[OneSided04]` §3.3.1): fetch,
//! change, write back.
//!
//! Data that fits a slot takes two round trips: the lane waits neither for the write nor for the
//! unlock behind it. Longer data takes three, because its memory is free only after the write. The
//! lock's word names its holder, so that another rank can take the lock from a dead one.

use super::{AtomicOp, Lane, LaneError, Moving, SLOT, StepResult};
use crate::buffer::{Direction, Part};
use crate::hca::{Hca, RemoteAddress};
use crate::sync::{Step, reached};

/// A change under a lock, in progress.
#[derive(Debug)]
pub struct LockedUpdate {
    /// Name of this rank in the lock's word.
    holder: u64,
    lock: RemoteAddress,
    here: Part,
    key: u32,
    there: RemoteAddress,
    stage: LockedStage,
}

#[derive(Debug)]
enum LockedStage {
    /// The lock is about to be requested; its word is expected to have this value.
    Asking {
        expected: u64,
    },
    /// The lock has been requested.
    Locking {
        expected: u64,
        request: u64,
    },
    /// This rank has the lock, and requests the numbers.
    Fetching(Moving),
    Fetched {
        last: u64,
    },
    /// The caller may change the numbers, which are then written back.
    Changed,
    Writing(Moving),
    Written {
        last: u64,
    },
    Unlocking,
}

/// The result of a change under a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockedResult {
    /// The numbers are in the memory of this rank. The caller changes them and calls again.
    Fetched,
    /// All requests are posted.
    Asked,
}

impl LockedUpdate {
    /// Creates a change, as `rank`, of the numbers at `there` under the lock at `lock`. It uses the
    /// memory `here`, which is registered under `key`.
    #[must_use]
    pub const fn new(
        rank: u32,
        lock: RemoteAddress,
        here: Part,
        key: u32,
        there: RemoteAddress,
    ) -> Self {
        let stage = LockedStage::Asking { expected: 0 };
        Self { holder: rank as u64 + 1, lock, here, key, there, stage }
    }

    /// Lets the next step take the lock over from the holder that was found. That rank has died.
    pub const fn take_over(&mut self, found: u64) {
        self.stage = LockedStage::Asking { expected: found };
    }

    /// Performs the next step.
    ///
    /// Returns [`StepResult::Done`] twice, with [`LockedResult::Fetched`] and then with
    /// [`LockedResult::Asked`]. Returns `None` if no step is possible now.
    ///
    /// # Safety
    ///
    /// `here` is valid for reads and writes, and lies outside the memory lent to the lane. Nothing
    /// else accesses it until all requests are posted or the connection is closed.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`]. The device may still be working on some of the requests.
    pub unsafe fn step<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
    ) -> Result<Option<StepResult<LockedResult>>, LaneError> {
        let Self { holder, lock, here, key, there, .. } = *self;
        self.stage = match &mut self.stage {
            LockedStage::Asking { expected } => {
                let change = AtomicOp::Swap { expected: *expected, desired: holder };
                let Some(request) = lane.change(hca, change, lock)? else { return Ok(None) };
                LockedStage::Locking { expected: *expected, request }
            }
            LockedStage::Locking { expected, request } => {
                if !lane.is_done(*request)? {
                    return Ok(None);
                }
                let found = lane.found(*request);
                if found != *expected {
                    self.stage = LockedStage::Asking { expected: 0 };
                    return Ok(Some(StepResult::Held(found)));
                }
                reached(Step::AccumulateLocked);
                LockedStage::Fetching(Moving::new(Direction::Read, here, key, there))
            }
            LockedStage::Fetching(moving) => {
                // SAFETY: the caller guarantees valid, exclusive memory (contract of `step`).
                let Some(last) = unsafe { moving.step(lane, hca) }? else { return Ok(None) };
                LockedStage::Fetched { last }
            }
            LockedStage::Fetched { last } => {
                if !lane.is_done(*last)? {
                    return Ok(None);
                }
                self.stage = LockedStage::Changed;
                return Ok(Some(StepResult::Done(LockedResult::Fetched)));
            }
            LockedStage::Changed if here.length <= SLOT => {
                // SAFETY: the caller guarantees valid, exclusive memory (contract of `step`).
                let Some(_) = unsafe { lane.write(hca, here, there) }? else { return Ok(None) };
                reached(Step::AccumulateWritten);
                LockedStage::Unlocking
            }
            LockedStage::Changed => {
                LockedStage::Writing(Moving::new(Direction::Write, here, key, there))
            }
            LockedStage::Writing(moving) => {
                // SAFETY: the caller guarantees valid, exclusive memory (contract of `step`).
                let Some(last) = unsafe { moving.step(lane, hca) }? else { return Ok(None) };
                LockedStage::Written { last }
            }
            LockedStage::Written { last } => {
                if !lane.is_done(*last)? {
                    return Ok(None);
                }
                reached(Step::AccumulateWritten);
                LockedStage::Unlocking
            }
            LockedStage::Unlocking => {
                let change = AtomicOp::Swap { expected: holder, desired: 0 };
                let asked = lane.change(hca, change, lock)?;
                return Ok(asked.map(|_| StepResult::Done(LockedResult::Asked)));
            }
        };
        Ok(Some(StepResult::On))
    }
}
