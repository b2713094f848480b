//! The end of a peer's communication, and what is known of it.

use super::{FailureCause, Fault};

/// The end of a peer's communication.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gone {
    /// It died.
    Failed(FailureCause),
    /// It left in good order.
    Finished,
    /// It is on another node, and there is no network.
    Unreachable,
}

impl Gone {
    /// Returns the fault with which operations end after such an end of the peer.
    #[must_use]
    pub const fn fault(self, rank: u32) -> Fault {
        match self {
            Self::Failed(sign) => Fault::PeerFailed { rank, sign },
            Self::Finished => Fault::PeerFinished { rank },
            Self::Unreachable => Fault::Unreachable { rank },
        }
    }
}

/// What is known of the end of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerEnd {
    /// Set when the peer is known to run no more. Its last packets may not all be delivered yet.
    ended: bool,
    gone: Option<Gone>,
}

impl PeerEnd {
    /// Notes that the peer runs no more.
    pub(super) const fn end(&mut self) {
        self.ended = true;
    }

    /// Returns whether the peer runs no more. Its last packets may not all be delivered yet.
    pub(super) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Notes how the communication with the peer has ended. With `None` it begins.
    pub(super) const fn set(&mut self, gone: Option<Gone>) {
        self.gone = gone;
    }

    /// Returns how the communication with the peer has ended, if it has.
    #[inline]
    pub(super) const fn gone(&self) -> Option<Gone> {
        self.gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_runs_no_more_is_not_gone_before_its_packets_are_delivered() {
        let mut end = PeerEnd::default();
        end.end();
        assert_eq!((end.has_ended(), end.gone()), (true, None));
        end.set(Some(Gone::Finished));
        assert_eq!((end.has_ended(), end.gone()), (true, Some(Gone::Finished)));
    }

    #[test]
    fn a_fault_names_the_end_and_the_rank() {
        let sign = FailureCause::Ended;
        assert_eq!(Gone::Failed(sign).fault(3), Fault::PeerFailed { rank: 3, sign });
        assert_eq!(Gone::Finished.fault(3), Fault::PeerFinished { rank: 3 });
        assert_eq!(Gone::Unreachable.fault(3), Fault::Unreachable { rank: 3 });
    }
}
