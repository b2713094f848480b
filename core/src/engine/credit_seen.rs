//! What a sender has seen of a receiver that gives lines back.

use super::LineRoom;

/// What a sender has seen of a receiver's credit while it waited for lines.
#[derive(Debug)]
pub(super) struct CreditSeen {
    last: u64,
    /// The credit at which a wait was in vain, or a credit that there never is.
    in_vain: u64,
}

impl CreditSeen {
    pub(super) const fn new() -> Self {
        Self { last: 0, in_vain: u64::MAX }
    }

    /// Notes that `consumed` lines have been given back. Returns what that means to a message that
    /// has room now, or does not.
    pub(super) const fn judge(&mut self, consumed: u64, has_room: bool) -> LineRoom {
        let moved = core::mem::replace(&mut self.last, consumed) != consumed;
        match (has_room, moved) {
            (true, _) => LineRoom::Free,
            (false, _) if consumed == self.in_vain => LineRoom::Useless,
            (false, true) => LineRoom::Moving,
            (false, false) => LineRoom::Full,
        }
    }

    /// Notes that a wait was in vain. No further one is of use until the next credit.
    pub(super) const fn give_up(&mut self) {
        self.in_vain = self.last;
    }
}
