//! Requests of a handler on a lane, aside from those of the lane's user.

use core::ptr::NonNull;

use super::{ASIDE, AtomicOp, Lane, LaneError, SLOTS};
use crate::hca::{Hca, Operation, RemoteAddress, Sge};

impl Lane {
    /// Posts a request aside and returns its number, or `None` if no request can be posted now.
    /// [`Lane::is_done_aside`] tells when it is done.
    ///
    /// # Safety
    ///
    /// The contract of [`Hca::post`] holds. The pieces are registered.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub unsafe fn ask_aside<H: Hca>(
        &mut self,
        hca: &mut H,
        operation: Operation<'_>,
    ) -> Result<Option<u64>, LaneError> {
        let number = self.posted_aside + 1;
        // SAFETY: the caller guarantees the contract of [`Hca::post`] (contract of `ask_aside`).
        let posted = unsafe { self.post_as(hca, number | ASIDE, operation, false) }?;
        self.posted_aside += u64::from(posted);
        Ok(posted.then_some(number))
    }

    /// Changes a number aside. At most one such change is in progress; [`Lane::found_aside`]
    /// returns the old number when it is done.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub fn change_aside<H: Hca>(
        &mut self,
        hca: &mut H,
        change: AtomicOp,
        target: RemoteAddress,
    ) -> Result<Option<u64>, LaneError> {
        let into = Sge { base: self.slot_aside(), length: 8, key: self.key() };
        // SAFETY: the slot is lent like the others, and no other request uses it.
        unsafe { self.ask_aside(hca, change.of(target, into)) }
    }

    /// Returns the old number that [`Lane::change_aside`] found. That request is done.
    #[must_use]
    pub fn found_aside(&self) -> u64 {
        self.found_in(self.slot_aside())
    }

    /// Returns the slot behind all others, which no request with a slot uses.
    const fn slot_aside(&self) -> NonNull<u8> {
        self.lent(SLOTS)
    }

    /// Returns true if request `number` aside, and all such requests before it, are done.
    ///
    /// # Errors
    ///
    /// The error that broke the lane, if the request is not done and never will be.
    pub fn is_done_aside(&self, number: u64) -> Result<bool, LaneError> {
        match self.broken {
            Some(error) if self.done_aside < number => Err(error),
            _ => Ok(self.done_aside >= number),
        }
    }
}
