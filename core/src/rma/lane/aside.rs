//! What a handler asks for beside the lane's user.

use core::ptr::NonNull;

use super::{ASIDE, Change, Lane, LaneError, SLOT, SLOTS};
use crate::hca::{Hca, Operation, Piece, Remote};

impl Lane {
    /// Asks for something aside: [`Lane::is_done_aside`] says whether a request of this number is done.
    ///
    /// # Safety
    ///
    /// As for [`Hca::post`]. The pieces are registered.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub unsafe fn ask_aside<H: Hca>(
        &mut self,
        hca: &mut H,
        operation: Operation<'_>,
    ) -> Result<Option<u64>, LaneError> {
        let number = self.posted_aside + 1;
        // SAFETY: by the contract.
        let posted = unsafe { self.post_as(hca, number | ASIDE, operation, false) }?;
        self.posted_aside += u64::from(posted);
        Ok(posted.then_some(number))
    }

    /// Changes a number aside, one at a time: once it is done, [`Lane::found_aside`] has what was there.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub fn change_aside<H: Hca>(
        &mut self,
        hca: &mut H,
        change: Change,
        target: Remote,
    ) -> Result<Option<u64>, LaneError> {
        let into = Piece { base: self.slot_aside(), length: 8, key: self.key };
        // SAFETY: the slot is lent as the others are, and is no other request's.
        unsafe { self.ask_aside(hca, change.of(target, into)) }
    }

    /// What [`Lane::change_aside`] found, once it is done.
    #[must_use]
    pub fn found_aside(&self) -> u64 {
        // SAFETY: within the memory lent, aligned, and nobody writes it any more.
        unsafe { self.slot_aside().cast::<u64>().read() }
    }

    /// The slot behind all others, which no call in progress has.
    const fn slot_aside(&self) -> NonNull<u8> {
        // SAFETY: within the memory lent.
        unsafe { self.slots.add(SLOTS * SLOT) }
    }

    /// Whether request `number` aside, and all before it, are done.
    ///
    /// # Errors
    ///
    /// As [`Lane::is_done`].
    pub fn is_done_aside(&self, number: u64) -> Result<bool, LaneError> {
        match self.broken {
            Some(error) if self.done_aside < number => Err(error),
            _ => Ok(self.done_aside >= number),
        }
    }
}
