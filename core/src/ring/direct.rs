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

/// Maximum number of requests in flight. Of reads there are no more than the device executes at a
/// time, because a read that waits in the device delays the stream. Writes do not wait for reads.
const UNDER_WAY: usize = 4;

/// Maximum size of a request, in bytes. All requests in flight together continue while no thread is
/// inside the library.
const MOST: usize = 4 << 20;

/// The requests of a link's transfers.
#[derive(Debug, Default)]
pub(super) struct TransferWindow {
    /// The latest requests, in rotation, and whether each is a read.
    requests: [(u64, bool); UNDER_WAY],
    begun: usize,
}

impl Poster {
    /// Returns true if a transfer is in flight.
    pub(super) fn transfers(&self) -> bool {
        self.window.requests.iter().any(|(request, _)| !self.is_done(*request))
    }

    /// Returns whether the device executes another read at once.
    fn has_place_for_read(&self, reads_max: usize) -> bool {
        let requests = self.window.requests.iter();
        let reads = requests.filter(|(request, reads)| *reads && !self.is_done(*request));
        reads.count() < reads_max.max(1)
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
        let Direct { direction, near, key, far } = *direct;
        let (place, reads) = (self.window.begun % UNDER_WAY, direction == Direction::Read);
        if !self.is_done(self.window.requests[place].0)
            || reads && !self.has_place_for_read(hca.capabilities().reads as usize)
        {
            return Ok(None);
        }
        let bytes = near.length.min(MOST).min(self.longest());
        let piece = Sge { base: near.base, length: bytes as u32, key };
        // SAFETY: the caller guarantees that the memory is registered and stays valid (contract of
        // `begin`).
        let posted = unsafe { self.transfer(hca, piece, far, reads) }?;
        Ok(posted.map(|number| {
            self.window.requests[place] = (number, reads);
            self.window.begun += 1;
            Begun { number, bytes }
        }))
    }
}
