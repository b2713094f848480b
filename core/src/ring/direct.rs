//! Transfers between registered memory of the two users, beside the stream.
//!
//! They share the connection with the stream: a transfer takes its place in the order of the requests, and its completion in that of
//! the completions. So few are under way at a time, and none is long: what is put into the stream meanwhile waits for no more
//! than these.

use super::error::Cause;
use super::poster::Poster;
use crate::hca::{Hca, Piece};
use crate::progress::{Begun, Direct, Way};

/// Requests under way, at most; fewer where the device does fewer reads at a time, since one that waits its turn there keeps the
/// stream waiting.
const UNDER_WAY: usize = 4;

/// Bytes of a request, at most. All that are under way together go on while nobody is inside the library.
const MOST: usize = 4 << 20;

/// The requests of a link's transfers.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The last ones, by turns.
    requests: [u64; UNDER_WAY],
    begun: usize,
}

impl Poster {
    /// Whether a transfer is under way.
    pub(super) fn transfers(&self) -> bool {
        self.window.requests.iter().any(|request| !self.is_done(*request))
    }

    /// Begins a transfer, or as much of it as goes in one request. `None`: not now.
    ///
    /// # Safety
    ///
    /// As for [`Link::transfer`](super::Link::transfer).
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
        let Direct { way, near, key, far } = *direct;
        let bytes = near.length.min(MOST).min(self.longest());
        let piece = Piece { base: near.base, length: bytes as u32, key };
        // SAFETY: by the contract.
        let posted = unsafe { self.transfer(hca, piece, far, way == Way::Read) }?;
        Ok(posted.map(|number| {
            self.window.requests[place] = number;
            self.window.begun += 1;
            Begun { number, bytes }
        }))
    }
}
