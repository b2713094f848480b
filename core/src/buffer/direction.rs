//! The direction of a transfer.

/// The direction in which data move between this rank and a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From the peer's memory to this rank's.
    Read,
    /// From this rank's memory to the peer's.
    Write,
}
