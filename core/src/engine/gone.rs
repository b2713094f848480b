//! The end of a peer's communication.

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
