//! The receive that goes round matching in a poll of the network.

use crate::buffer::Cursor;
use crate::engine::request::Owner;
use crate::matching::Pattern;

/// A receive that is lent to one poll of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandingReceive {
    pub(super) pattern: Pattern,
    pub(super) buffer: Cursor,
    pub(super) owner: Owner,
    /// The request of the receive, after it has met its message.
    pub(super) request: Option<u32>,
}
