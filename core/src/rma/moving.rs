//! Registered memory that is moved on a lane, in as many requests as it takes.

use core::ptr::NonNull;

use super::{Lane, LaneError};
use crate::hca::{Hca, Piece, Remote};
use crate::progress::{Part, Way};

/// A move under way: all requests have to be asked for, and the last to be done.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    way: Way,
    /// What is left, its key, and where it goes or comes from.
    left: Part,
    key: u32,
    there: Remote,
    last: u64,
}

impl Moving {
    /// Moves `here`, which is registered under `key`.
    #[must_use]
    pub const fn new(way: Way, here: Part, key: u32, there: Remote) -> Self {
        Self { way, left: here, key, there, last: 0 }
    }

    /// Asks for as much as can be asked for. The number of the last request, once all are; `None`: not now.
    ///
    /// # Safety
    ///
    /// The memory is valid for the device until that request is done, or the connection closed.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`]; some requests may be under way.
    pub unsafe fn step<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
    ) -> Result<Option<u64>, LaneError> {
        while self.left.length > 0 {
            let bytes = self.left.length.min(lane.longest());
            let piece = Piece { base: self.left.base, length: bytes as u32, key: self.key };
            // SAFETY: by the contract.
            let asked = unsafe { lane.transfer(hca, self.way, piece, self.there) }?;
            let Some(number) = asked else { return Ok(None) };
            // SAFETY: within the memory, or one past its end.
            let base: NonNull<u8> = unsafe { self.left.base.add(bytes) };
            self.left = Part { base, length: self.left.length - bytes };
            (self.there, self.last) = (self.there.after(bytes), number);
        }
        Ok(Some(self.last))
    }
}
