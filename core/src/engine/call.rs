//! Pull requests: receives that met offered messages.

use crate::buffer::Cursor;
use crate::wire::Offer;

/// A receive that met an offered message.
#[derive(Clone, Copy, Debug)]
pub(super) struct PullRequest {
    pub(super) source: u32,
    pub(super) offer: Offer,
    pub(super) buffer: Cursor,
    /// The receive's request. `None` after the receive was dropped: the message is pulled all the
    /// same, so that its sender is done with it.
    pub(super) request: Option<u32>,
    pub(super) next: Option<u32>,
}
