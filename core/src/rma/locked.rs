//! Numbers of a part that are changed under a lock which devices take (`[OneSided04]` §3.3.1): fetched, changed, written back.
//!
//! Two round trips for what fits a slot, since neither the write nor what gives the lock back behind it is waited for; three for
//! more, whose memory is not free before. The lock's word names its holder, so that it can be taken from the dead.

use super::{Change, Lane, LaneError, Moving, SLOT, Turn};
use crate::hca::{Hca, Remote};
use crate::progress::{Part, Way};
use crate::sync::{Step, reached};

/// A change under a lock, on its way.
#[derive(Debug)]
pub struct Locked {
    /// This rank, as the lock has it.
    holder: u64,
    lock: Remote,
    here: Part,
    key: u32,
    there: Remote,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It is about to ask for the lock, in which it expects to find this.
    Asking {
        expected: u64,
    },
    /// It has asked for it, and the lock was another's.
    Locking {
        expected: u64,
        request: u64,
    },
    /// It has the lock, and asks for the numbers.
    Fetching(Moving),
    Fetched {
        last: u64,
    },
    /// They are the caller's to change, and then go back.
    Changed,
    Writing(Moving),
    Written {
        last: u64,
    },
    Unlocking,
}

/// What a change under a lock came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockedTurn {
    /// The numbers are in the memory of this rank: the caller changes them, and calls again.
    Fetched,
    /// All is asked for.
    Asked,
}

impl Locked {
    /// Changes the numbers at `there` under the lock at `lock`, as `rank`, by way of `here`, which is registered under `key`.
    #[must_use]
    pub const fn new(rank: u32, lock: Remote, here: Part, key: u32, there: Remote) -> Self {
        let stage = Stage::Asking { expected: 0 };
        Self { holder: rank as u64 + 1, lock, here, key, there, stage }
    }

    /// The lock is taken from who was found to hold it: that rank has died.
    pub const fn take_over(&mut self, found: u64) {
        self.stage = Stage::Asking { expected: found };
    }

    /// Goes on. [`Turn::Done`] twice, with [`LockedTurn::Fetched`] and then [`LockedTurn::Asked`]; `None`: not now.
    ///
    /// # Safety
    ///
    /// `here` is valid for reads and writes, outside the memory lent to the lane and nobody else's until it is all asked for, or the
    /// connection closed.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`]; the device may still be about some of it.
    pub unsafe fn step<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
    ) -> Result<Option<Turn<LockedTurn>>, LaneError> {
        let Self { holder, lock, here, key, there, .. } = *self;
        self.stage = match &mut self.stage {
            Stage::Asking { expected } => {
                let change = Change::Swap { expected: *expected, desired: holder };
                let Some(request) = lane.change(hca, change, lock)? else { return Ok(None) };
                Stage::Locking { expected: *expected, request }
            }
            Stage::Locking { expected, request } => {
                if !lane.is_done(*request)? {
                    return Ok(None);
                }
                let found = lane.found(*request);
                if found != *expected {
                    self.stage = Stage::Asking { expected: 0 };
                    return Ok(Some(Turn::Held(found)));
                }
                reached(Step::AccumulateLocked);
                Stage::Fetching(Moving::new(Way::Read, here, key, there))
            }
            Stage::Fetching(moving) => {
                // SAFETY: by the contract.
                let Some(last) = unsafe { moving.step(lane, hca) }? else { return Ok(None) };
                Stage::Fetched { last }
            }
            Stage::Fetched { last } => {
                if !lane.is_done(*last)? {
                    return Ok(None);
                }
                self.stage = Stage::Changed;
                return Ok(Some(Turn::Done(LockedTurn::Fetched)));
            }
            Stage::Changed if here.length <= SLOT => {
                // SAFETY: by the contract.
                let Some(_) = unsafe { lane.write(hca, here, there) }? else { return Ok(None) };
                reached(Step::AccumulateWritten);
                Stage::Unlocking
            }
            Stage::Changed => Stage::Writing(Moving::new(Way::Write, here, key, there)),
            Stage::Writing(moving) => {
                // SAFETY: by the contract.
                let Some(last) = unsafe { moving.step(lane, hca) }? else { return Ok(None) };
                Stage::Written { last }
            }
            Stage::Written { last } => {
                if !lane.is_done(*last)? {
                    return Ok(None);
                }
                reached(Step::AccumulateWritten);
                Stage::Unlocking
            }
            Stage::Unlocking => {
                let change = Change::Swap { expected: holder, desired: 0 };
                let asked = lane.change(hca, change, lock)?;
                return Ok(asked.map(|_| Turn::Done(LockedTurn::Asked)));
            }
        };
        Ok(Some(Turn::On))
    }
}
