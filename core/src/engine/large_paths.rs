//! The paths of large messages between this rank and a peer on its node: which of them are worth an
//! attempt, and which is the fastest.

use super::copy_ring::{Emptying, Filling, Outlet};
use crate::layout::Segment;
use crate::lmt::{Chosen, Transfer, TransferChoice};

/// Number of messages after which this rank stops looking for RTRs of the peer before it sends. The
/// next RTR comes by progress.
const UNASKED: u8 = 16;

/// Number of messages between two lines that are timed.
const UNTIMED: u8 = 3;

/// The state of the paths to and from one peer.
#[derive(Debug)]
pub(super) struct LargePaths {
    /// Whether an attempt to move data from the peer's memory is worthwhile.
    may_read: bool,
    /// Whether an attempt to move data to the peer's memory is worthwhile.
    may_write: bool,
    /// This rank's end of the copy ring to the peer.
    outlet: Outlet,
    /// This rank's end of the copy ring from the peer, opened when the peer announces its first
    /// message.
    inlet: Option<Emptying>,
    /// The choice of the transfer for messages to the peer.
    choice: TransferChoice,
    /// Messages announced to the peer since its last RTR, counted up to [`UNASKED`].
    unasked: u8,
    /// Messages until a line is timed again.
    untimed: u8,
}

impl Default for LargePaths {
    fn default() -> Self {
        Self {
            may_read: true,
            may_write: true,
            outlet: Outlet::Unopened,
            inlet: None,
            choice: TransferChoice::default(),
            unasked: 0,
            untimed: 0,
        }
    }
}

impl LargePaths {
    pub(super) const fn may_read(&self) -> bool {
        self.may_read
    }

    pub(super) const fn may_write(&self) -> bool {
        self.may_write
    }

    /// Notes that the system refused to read the peer's memory. It will refuse again.
    pub(super) const fn read_refused(&mut self) {
        self.may_read = false;
    }

    /// Notes that the system refused to write the peer's memory. It will refuse again.
    pub(super) const fn write_refused(&mut self) {
        self.may_write = false;
    }

    /// Returns whether no answer is known yet about the memory of the copy ring to the peer.
    #[inline]
    pub(super) const fn wants_ring(&self) -> bool {
        matches!(self.outlet, Outlet::Unopened)
    }

    /// Takes the answer about the memory of the copy ring. `open` opens it.
    pub(super) fn ring_backed(&mut self, backed: bool, open: impl FnOnce() -> Outlet) {
        if self.wants_ring() {
            self.outlet = if backed { open() } else { Outlet::Refused };
        }
    }

    /// Leaves this rank without a copy ring to the peer.
    pub(super) fn refuse_ring(&mut self) {
        self.outlet = Outlet::Refused;
    }

    /// Returns whether there is a copy ring to the peer.
    pub(super) const fn has_ring(&self) -> bool {
        matches!(self.outlet, Outlet::Open(_))
    }

    /// Returns the copy ring to the peer.
    pub(super) const fn ring_out(&mut self) -> Option<&mut Filling> {
        match &mut self.outlet {
            Outlet::Open(ring) => Some(ring),
            Outlet::Unopened | Outlet::Refused => None,
        }
    }

    /// Opens the copy ring from `peer` to `rank`, unless it is open. The peer has backed it.
    pub(super) fn open_ring_in(&mut self, segment: &Segment, (rank, peer): (u32, u32)) {
        if self.inlet.is_none() {
            self.inlet = Emptying::open(segment, peer, rank);
        }
    }

    /// Returns the copy ring from the peer.
    pub(super) const fn ring_in(&mut self) -> Option<&mut Emptying> {
        self.inlet.as_mut()
    }

    /// Chooses the transfer of a message of `length` bytes.
    pub(super) fn choose(&mut self, length: usize) -> (Transfer, Chosen) {
        self.choice.choose(length)
    }

    /// Returns the end of the ring to the peer if a line from the peer's core is to be timed now.
    /// Messages that take another way leave the line as it is, and pay for no clock.
    pub(super) const fn line_to_time(&mut self) -> Option<&mut Filling> {
        match &mut self.outlet {
            Outlet::Open(ring) if self.untimed == 0 && ring.has_unseen() => {
                self.untimed = if self.choice.is_place_known() { UNTIMED } else { 0 };
                Some(ring)
            }
            _ => {
                self.untimed = self.untimed.saturating_sub(1);
                None
            }
        }
    }

    /// Notes the time that a line took from the peer's core to this one.
    pub(super) fn line_timed(&mut self, nanoseconds: u32) {
        self.choice.line_timed(nanoseconds);
    }

    /// Returns the transfer through the ring of a message of `length` bytes.
    pub(super) fn by_ring(&self, length: usize) -> Transfer {
        self.choice.ring(length)
    }

    /// Records the time that a chosen transfer took for `bytes` bytes. Zero bytes mean that it was
    /// not measured.
    pub(super) fn transfer_ended(&mut self, chosen: Chosen, bytes: usize, met: u64, now: u64) {
        self.choice.ended(chosen, bytes, met, now);
    }

    /// Counts a message that was announced without an RTR of the peer.
    pub(super) fn count_unasked(&mut self) {
        self.unasked = (self.unasked + 1).min(UNASKED);
    }

    /// Notes that an RTR of the peer came.
    pub(super) const fn asked(&mut self) {
        self.unasked = 0;
    }

    /// Returns whether the peer has asked for messages lately.
    pub(super) const fn asks_lately(&self) -> bool {
        self.unasked < UNASKED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::with_segment;

    #[test]
    fn a_path_that_was_refused_is_not_tried_again_and_the_other_is() {
        let mut paths = LargePaths::default();
        assert!(paths.may_read() && paths.may_write());
        paths.read_refused();
        assert!(!paths.may_read() && paths.may_write());
        paths.write_refused();
        assert!(!paths.may_write());
    }

    #[test]
    fn the_first_answer_about_the_ring_counts() {
        with_segment(2, |segment| {
            let open = || Outlet::open(segment, 0, 1);
            let [mut backed, mut refused] = [true, false].map(|backed| {
                let mut paths = LargePaths::default();
                assert!(paths.wants_ring() && !paths.has_ring());
                paths.ring_backed(backed, open);
                paths.ring_backed(!backed, open);
                paths
            });
            assert!(backed.has_ring() && backed.ring_out().is_some() && !backed.wants_ring());
            assert!(!refused.has_ring() && refused.ring_out().is_none() && !refused.wants_ring());
            assert!(backed.ring_in().is_none());
            backed.open_ring_in(segment, (0, 1));
            assert!(backed.ring_in().is_some());
        });
    }

    #[test]
    fn a_peer_that_leaves_messages_unasked_for_long_does_not_ask_lately() {
        let mut paths = LargePaths::default();
        for _ in 0..UNASKED {
            assert!(paths.asks_lately());
            paths.count_unasked();
        }
        paths.count_unasked();
        assert!(!paths.asks_lately());
        paths.asked();
        assert!(paths.asks_lately());
    }
}
