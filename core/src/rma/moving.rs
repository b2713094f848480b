//! A transfer of registered memory on a lane, in as many requests as it needs.

use core::ptr::NonNull;

use super::{Lane, LaneError};
use crate::buffer::{Direction, Part};
use crate::hca::{Hca, RemoteAddress, Sge};

/// A transfer in progress. It ends when all requests are posted; it is complete when the last
/// request is done.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    way: Direction,
    /// Memory that is left, its key, and the remote address.
    left: Part,
    key: u32,
    there: RemoteAddress,
    last: u64,
}

impl Moving {
    /// Creates a transfer of `here`, which is registered under `key`.
    #[must_use]
    pub const fn new(way: Direction, here: Part, key: u32, there: RemoteAddress) -> Self {
        Self { way, left: here, key, there, last: 0 }
    }

    /// Posts as many requests as possible. Returns the number of the last request once all are
    /// posted, else `None`.
    ///
    /// # Safety
    ///
    /// The memory is valid for the device until that request is done or the connection is closed.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`]. Some requests may be in progress.
    pub unsafe fn step<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
    ) -> Result<Option<u64>, LaneError> {
        while self.left.length > 0 {
            let bytes = self.left.length.min(lane.longest());
            let piece = Sge { base: self.left.base, length: bytes as u32, key: self.key };
            // SAFETY: the caller guarantees valid memory (contract of `step`).
            let asked = unsafe { lane.transfer(hca, self.way, piece, self.there) }?;
            let Some(number) = asked else { return Ok(None) };
            // SAFETY: the address lies within the memory or one past its end.
            let base: NonNull<u8> = unsafe { self.left.base.add(bytes) };
            self.left = Part { base, length: self.left.length - bytes };
            (self.there, self.last) = (self.there.after(bytes), number);
        }
        Ok(Some(self.last))
    }
}
