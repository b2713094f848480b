//! How accumulates of a window are gathered and carried out ([`super::gathered`]).

use strait_core::reduce::Op;
use strait_core::rma::SLOT;

use super::Window;
use super::part::WindowPart;
use crate::{Error, Number};

impl Window<'_> {
    /// Keeps an accumulate of consecutive numbers in one stripe until the next synchronisation, if
    /// the device takes the lock for it and it is short. Returns false if it was not kept.
    pub(super) fn gather<T: Number>(
        &self,
        part: &WindowPart,
        offset: usize,
        operands: &[T],
        op: Op,
    ) -> Result<bool, Error> {
        let length = size_of_val(operands);
        let is_by_device = part.remote.is_some() && self.block_for_locks(part).is_none();
        if !is_by_device || part.is_dynamic || length == 0 || length > SLOT / 4 {
            return Ok(false);
        }
        if !part.gathered.borrow().has_room_for(offset, length) {
            self.carry_out_gathered(part)?;
        }
        part.gathered.borrow_mut().add(offset, operands, op);
        Ok(true)
    }

    /// Carries out the gathered accumulates to a part.
    pub(super) fn carry_out_gathered(&self, part: &WindowPart) -> Result<(), Error> {
        if part.gathered.borrow().is_empty() {
            return Ok(());
        }
        // They are taken out first, so the change below finds none.
        let gathered = part.gathered.take();
        let range = gathered.range();
        self.change_locked_remote(part, range.start, range.len(), |numbers: &mut [u8]| {
            gathered.apply(numbers);
        })
    }
}
