//! By what a peer is known to have failed.

use core::fmt;

use crate::hca::{HcaError, WorkError};

/// By what a peer is known to have failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Sign {
    /// Its process has ended.
    Ended,
    /// A request to it failed, on the device between the nodes.
    Request(WorkError),
    /// The device does not connect to it, or refused a request to it.
    Device(HcaError),
    /// It says what no correct peer says.
    Nonsense,
}

impl Sign {
    /// Says of `rank` that it failed, and by what that is known.
    pub(super) fn tell(self, f: &mut fmt::Formatter<'_>, rank: u32) -> fmt::Result {
        match self {
            Self::Ended => write!(f, "rank {rank} died"),
            Self::Request(error) => write!(
                f,
                "rank {rank} died, or is not reached any more: a request to it failed on the device between the nodes: \
                 {error}"
            ),
            Self::Device(error) => write!(
                f,
                "rank {rank} died, or is not reached any more through the device between the nodes: {error}"
            ),
            Self::Nonsense => write!(
                f,
                "rank {rank} is taken for dead: it said what no correct rank says; it may be of another version"
            ),
        }
    }
}
