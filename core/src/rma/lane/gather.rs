//! Puts that are gathered into one request.

use super::{Lane, LaneError, SLOT};
use crate::buffer::Part;
use crate::hca::{Hca, Operation, RemoteAddress};

impl Lane {
    /// Writes at most [`SLOT`] bytes, together with other puts if they are gathered. The source may
    /// be changed when this returns. Returns false if the put is not possible now.
    ///
    /// # Safety
    ///
    /// `from` is valid for reads, and outside the memory lent.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub unsafe fn put<H: Hca>(
        &mut self,
        hca: &mut H,
        from: Part,
        to: RemoteAddress,
    ) -> Result<bool, LaneError> {
        let follows = |(there, length): &(RemoteAddress, usize)| {
            there.after(*length) == to && length + from.length <= SLOT
        };
        if !self.gathered.is_some_and(|gathered| follows(&gathered)) && !self.push(hca)? {
            return Ok(false);
        }
        if self.gathered.is_none() && (self.under_way() == 0 || from.length == SLOT) {
            // SAFETY: the caller guarantees a valid source (contract of `put`).
            return Ok(unsafe { self.write(hca, from, to) }?.is_some());
        }
        if !self.takes_more()? {
            return Ok(false);
        }
        let (there, length) = self.gathered.unwrap_or((to, 0));
        // SAFETY: the slot has [`SLOT`] bytes, and only the gathered puts use it. `from` is valid
        // (contract of `put`).
        unsafe {
            let place = self.slot(self.posted + 1).add(length);
            from.base.copy_to_nonoverlapping(place, from.length);
        }
        hca.copied(from.length);
        let length = length + from.length;
        self.gathered = Some((there, length));
        if length == SLOT {
            // If the device is full, the next call posts it.
            self.push(hca)?;
        }
        Ok(true)
    }

    /// Posts the gathered puts if no request is in progress any more. Called when requests have
    /// ended. The next call that posts returns any error again.
    pub fn go_on<H: Hca>(&mut self, hca: &mut H) {
        if self.under_way() == 0 {
            let _ = self.push(hca);
        }
    }

    /// Posts the gathered puts. Returns false if that is not possible now.
    pub(super) fn push<H: Hca>(&mut self, hca: &mut H) -> Result<bool, LaneError> {
        let Some((to, length)) = self.gathered else { return Ok(true) };
        let piece = [self.piece(length)];
        let operation = Operation::Write { from: &piece, to };
        // SAFETY: the slot stays unchanged until the request is done.
        let pushed = unsafe { self.post(hca, operation, length <= self.inline) }?.is_some();
        if pushed {
            self.gathered = None;
        }
        Ok(pushed)
    }
}
