//! The results of operations that started.

use super::truncation::truncated;
use super::{Fault, Outcome, RequestId, Status, Ticket};
use crate::layout::Segment;

/// The result of a receive that started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// The message had arrived.
    Done(Outcome),
    /// The buffer is needed until [`super::Engine::test`] gives an outcome.
    Pending(RequestId),
}

/// The result of [`super::Engine::irecv_short`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReceivedShort {
    /// The message had arrived.
    Done(Status),
    /// The buffer is needed until [`super::Engine::test`] gives an outcome.
    Pending(RequestId, Ticket),
    /// Nothing was started: use [`super::Engine::irecv`].
    Declined,
}

/// The result of a send that started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// The buffer may be reused: the message is in shared memory.
    Done,
    /// Part of the buffer is still needed, until [`super::Engine::test`] returns an outcome.
    Pending(RequestId),
}

/// The result of a short send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SentShort {
    /// Nothing was sent and nothing was checked: use [`super::Engine::isend`].
    No,
    /// The message is in shared memory.
    Yes,
    /// The message is in shared memory, and the destination sleeps: ring its doorbell, as for
    /// [`super::Engine::poll_bell`].
    ToSleeper,
}

/// What a sender sees of a receiver that had too few free lines for a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineRoom {
    /// The message has room now.
    Free,
    /// The receiver has taken packets of this rank since the last look. It will soon take more.
    Moving,
    /// Nothing has changed since the last look.
    Full,
    /// It is of no use to wait: the message does not go by lines, the receiver sleeps or has told
    /// this rank to keep its messages, or a wait for the same lines was in vain.
    Useless,
}

/// A message through the fastbox: the number of lines that are consumed once it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark(pub(super) u64);

/// Returns the outcome of a receive that has its whole message.
pub(super) fn outcome(
    place: (&Segment, u32),
    (source, tag): (u32, u32),
    message: usize,
    buffer: usize,
) -> Outcome {
    if message > buffer {
        truncated(place, (source, tag), message, buffer);
        Err(Fault::Truncated { source, tag, message, buffer })
    } else {
        Ok(Status { source, tag, bytes: message })
    }
}
