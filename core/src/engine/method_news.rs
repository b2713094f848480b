//! Announcements of large messages that a transfer method moves.

use super::message_buffers::OwnedBuffer;
use crate::wire::Offer;

/// The announcement of a message that a transfer method moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct MethodNews {
    pub(super) offer: Offer,
    /// The sender's name of the transfer.
    pub(super) name: u64,
    /// The send cookie.
    pub(super) cookie: Option<OwnedBuffer>,
}
