//! The cause by which a peer is known to have failed.

use core::fmt;

use crate::hca::{HcaError, WorkError};

/// The cause by which a peer is known to have failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FailureCause {
    /// Its process has ended.
    Ended,
    /// A request to it failed on the device between the nodes.
    Request(WorkError),
    /// The device does not connect to it, or refused a request to it.
    Device(HcaError),
    /// It sent data that no correct peer sends.
    Nonsense,
}

impl FailureCause {
    /// Writes that `rank` failed, with the cause.
    pub(super) fn tell(self, f: &mut fmt::Formatter<'_>, rank: u32) -> fmt::Result {
        match self {
            Self::Ended => write!(f, "rank {rank} died"),
            Self::Request(error) => write!(
                f,
                "rank {rank} died or cannot be reached any more: a request to it failed on the \
                 device between the nodes: {error}"
            ),
            Self::Device(error) => write!(
                f,
                "rank {rank} died or cannot be reached any more through the device between the \
                 nodes: {error}"
            ),
            Self::Nonsense => write!(
                f,
                "rank {rank} is treated as dead: it sent data that no correct rank sends; it may \
                 have another version"
            ),
        }
    }
}
