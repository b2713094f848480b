//! Short reads: the lane copies their bytes out of its slots when they are done.

use super::{Lane, LaneError, SLOTS};
use crate::buffer::Part;
use crate::hca::{Hca, RemoteAddress};

impl Lane {
    /// Reads at most [`SLOT`](super::SLOT) bytes, and copies them to `into` when the request is
    /// done. Returns the number of the request, or `None` if it cannot be posted now.
    ///
    /// # Safety
    ///
    /// `into` is valid for writes, and outside the memory lent, until the request is done or the
    /// connection is closed.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub unsafe fn fetch_to<H: Hca>(
        &mut self,
        hca: &mut H,
        into: Part,
        from: RemoteAddress,
    ) -> Result<Option<u64>, LaneError> {
        let asked = self.fetch(hca, into.length, from)?;
        if let Some(number) = asked {
            self.landings[number as usize % SLOTS] = Some(into);
        }
        Ok(asked)
    }

    /// Copies the bytes of a request that is done to where its caller wants them.
    pub(super) fn land(&mut self, number: u64) {
        let landing = self.landings[number as usize % SLOTS].take();
        if let Some(into) = landing.filter(|_| !self.closed) {
            // SAFETY: the slot has these bytes, and no later request uses it yet. The caller of
            // `fetch_to` guarantees its memory, which lies outside the slots.
            unsafe { self.slot(number).copy_to_nonoverlapping(into.base, into.length) };
        }
    }
}
