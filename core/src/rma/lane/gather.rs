//! Puts that go together.

use super::{Lane, LaneError, SLOT};
use crate::hca::{Hca, Operation, Remote};
use crate::progress::Part;

impl Lane {
    /// Writes at most [`SLOT`] bytes, which may be changed when this returns, with others if they are gathered. False: not now.
    ///
    /// # Safety
    ///
    /// As for [`Lane::write`].
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub unsafe fn put<H: Hca>(
        &mut self,
        hca: &mut H,
        from: Part,
        to: Remote,
    ) -> Result<bool, LaneError> {
        let follows = |(there, length): &(Remote, usize)| {
            there.after(*length) == to && length + from.length <= SLOT
        };
        if !self.gathered.is_some_and(|gathered| follows(&gathered)) && !self.push(hca)? {
            return Ok(false);
        }
        if self.gathered.is_none() && (self.under_way() == 0 || from.length == SLOT) {
            // SAFETY: by the contract.
            return Ok(unsafe { self.write(hca, from, to) }?.is_some());
        }
        if !self.takes_more()? {
            return Ok(false);
        }
        let (there, length) = self.gathered.unwrap_or((to, 0));
        // SAFETY: the slot is free but for what is gathered, and as long; `from` is valid by the contract.
        unsafe {
            let place = self.slot(self.posted + 1).add(length);
            from.base.copy_to_nonoverlapping(place, from.length);
        }
        hca.copied(from.length);
        let length = length + from.length;
        self.gathered = Some((there, length));
        if length == SLOT {
            // If the device is full, it is asked again by whoever comes next.
            self.push(hca)?;
        }
        Ok(true)
    }

    /// Asks for what is gathered, if nothing is under way any more: to be called when requests have ended. An error is met again by
    /// whoever asks next.
    pub fn go_on<H: Hca>(&mut self, hca: &mut H) {
        if self.under_way() == 0 {
            let _ = self.push(hca);
        }
    }

    /// Asks for what is gathered. False: not now.
    pub(super) fn push<H: Hca>(&mut self, hca: &mut H) -> Result<bool, LaneError> {
        let Some((to, length)) = self.gathered else { return Ok(true) };
        let piece = [self.piece(length)];
        let operation = Operation::Write { from: &piece, to };
        // SAFETY: the slot stays as it is until the request is done.
        let pushed = unsafe { self.post(hca, operation, length <= self.inline) }?.is_some();
        if pushed {
            self.gathered = None;
        }
        Ok(pushed)
    }
}
