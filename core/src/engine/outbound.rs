//! Large messages on their way out.

use super::message_buffers::OwnedBuffer;
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
    pub(super) timing: Timing,
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
}

/// The measurement of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Time at which the receive was posted, in nanoseconds. `None`: not yet, or no call has told
    /// the time since.
    met: Option<u64>,
    /// Bytes that are moved from `met` on.
    bytes: usize,
}

impl Timing {
    /// Returns the measurement of `bytes` bytes that has not begun.
    pub(super) const fn of(bytes: usize) -> Self {
        Self { met: None, bytes }
    }

    /// Begins at the time `now`, unless the measurement has begun.
    pub(super) fn begin(&mut self, now: u64) {
        self.met.get_or_insert(now);
    }

    /// Returns the bytes that were measured and the time at which that began.
    pub(super) fn end(self, now: u64) -> (usize, u64) {
        (self.bytes, self.met.unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_begins_once() {
        let mut timing = Timing::of(100);
        assert_eq!(timing.end(9), (100, 9));
        timing.begin(3);
        timing.begin(5);
        assert_eq!(timing.end(9), (100, 3));
    }
}
