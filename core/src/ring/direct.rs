//! Transfers between registered memory of the two users, beside the stream.
//!
//! A transfer shares the connection with the stream, and its requests and completions keep the
//! order of the stream's. Therefore few transfers are in flight at a time, and none is long. Stream
//! data that are put meanwhile wait for no more than these.

use super::error::Cause;
use super::poster::Poster;
use crate::buffer::Direction;
use crate::engine::{Begun, Direct};
use crate::hca::{Hca, Sge};

/// Maximum number of requests in flight. It is lower if the device executes fewer reads at a time,
/// because a read that waits in the device delays the stream.
const UNDER_WAY: usize = 4;

/// Maximum size of a request, in bytes. All requests in flight together continue while no thread is
/// inside the library.
const MOST: usize = 4 << 20;

/// The requests of a link's transfers.
#[derive(Debug, Default)]
pub(super) struct TransferWindow {
    /// The latest requests, in rotation.
    requests: [u64; UNDER_WAY],
    begun: usize,
}

impl Poster {
    /// Returns true if a transfer is in flight.
    pub(super) fn transfers(&self) -> bool {
        self.window.requests.iter().any(|request| !self.is_done(*request))
    }

    /// Starts a transfer, or as much of it as fits in one request. Returns `None` if that is not
    /// possible now.
    ///
    /// # Safety
    ///
    /// The memory is registered, and valid for the device until the request is done or the link is
    /// finalized (contract of [`Link::transfer`](super::Link::transfer)).
    pub(super) unsafe fn begin<H: Hca>(
        &mut self,
        hca: &mut H,
        direct: &Direct,
    ) -> Result<Option<Begun>, Cause> {
        let places = UNDER_WAY.min(hca.capabilities().reads as usize).max(1);
        let place = self.window.begun % places;
        if !self.is_done(self.window.requests[place]) {
            return Ok(None);
        }
        let Direct { direction, near, key, far } = *direct;
        let bytes = near.length.min(MOST).min(self.longest());
        let piece = Sge { base: near.base, length: bytes as u32, key };
        // SAFETY: the caller guarantees that the memory is registered and stays valid (contract of
        // `begin`).
        let posted = unsafe { self.transfer(hca, piece, far, direction == Direction::Read) }?;
        Ok(posted.map(|number| {
            self.window.requests[place] = number;
            self.window.begun += 1;
            Begun { number, bytes }
        }))
    }
}
