//! Large messages on their way out.

use super::request::OwnedBuffer;
use crate::lmt::{Chosen, LmtSender};

/// An announced message, and the request that waits for its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outbound {
    pub(super) half: LmtSender,
    /// The request; `None` when the message goes on without one.
    pub(super) request: Option<u32>,
    pub(super) tag: u32,
    /// Set once the RTS has left.
    pub(super) announced: bool,
    pub(super) course: Course,
    /// Time at which the receive was posted, in nanoseconds, or at which the transfer was chosen if
    /// that was later. `None`: not yet, or no call has told the time since.
    pub(super) met: Option<u64>,
    /// Bytes that have been moved since `met`.
    pub(super) measured: usize,
    /// The engine's own copy of the rest of the message, after the user took the buffer back.
    pub(super) owned: Option<OwnedBuffer>,
}

/// The way in which the transfer of a message was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Course {
    /// By the user's tuning, or there was no choice.
    Given,
    /// By [`Transfer::Auto`](crate::lmt::Transfer::Auto): the time that it takes is measured.
    Chosen(Chosen),
    /// Not chosen yet: the message uses an RTR of a receiver that computed. The sender alone moves
    /// bytes until the receiver waits inside the library.
    Open,
}
