//! How a link fails.

use core::fmt;

use super::config::Config;
use crate::hca::{HcaError, PostError, WorkError};
use crate::progress::Sign;

/// A link failed. Links to other peers are not concerned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkError {
    /// The rank at the other side.
    pub peer: u32,
    /// Why.
    pub cause: Cause,
}

/// Why a link failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The device could not make, connect or close the connection, or register memory.
    Device(HcaError),
    /// The device refused a request.
    Refused(PostError),
    /// A request failed.
    Failed(WorkError),
    /// The link is not connected yet.
    NotConnected,
    /// A call names another buffer than the one before it, which the device is still working on.
    AnotherBuffer,
    /// A link of this shape cannot be made.
    Config(Config),
    /// The peer's end has another shape, or what it says of itself is no [`Card`](super::Card).
    Mismatch,
    /// The peer wrote a number that no correct peer writes.
    Corrupt {
        /// What the number should say.
        what: &'static str,
        /// The number.
        found: u64,
        /// The most that it can be.
        most: u64,
    },
}

impl LinkError {
    /// What it says of the peer.
    #[must_use]
    pub const fn sign(&self) -> Sign {
        match self.cause {
            Cause::Device(error) => Sign::Device(error),
            Cause::Refused(PostError::Device { code }) => Sign::Device(HcaError::Device { code }),
            // An earlier failure broke the connection.
            Cause::Refused(_) | Cause::NotConnected => Sign::Request(WorkError::Flushed),
            Cause::Failed(error) => Sign::Request(error),
            Cause::AnotherBuffer | Cause::Config(_) | Cause::Mismatch | Cause::Corrupt { .. } => {
                Sign::Nonsense
            }
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the RDMA channel to rank {}: ", self.peer)?;
        match self.cause {
            Cause::Device(error) => error.fmt(f),
            Cause::Refused(error) => write!(f, "a request was refused: {error}"),
            Cause::Failed(error) => write!(
                f,
                "a request failed: {error}; nothing more can be sent to this rank or received from it"
            ),
            Cause::NotConnected => f.write_str("not connected yet"),
            Cause::AnotherBuffer => f.write_str(
                "a call names another buffer than the one that is being transferred; until its bytes are counted, each call \
                 begins with the same buffer",
            ),
            Cause::Config(Config { chunk, slots, .. }) => write!(
                f,
                "{slots} chunks of {chunk} bytes are no ring: a chunk is a multiple of 8 bytes, at least 24, and all together \
                 are at most 1 GiB"
            ),
            Cause::Mismatch => f.write_str(
                "the peer's end has another design, chunk size or number of chunks; all ranks need the same settings",
            ),
            Cause::Corrupt { what, found, most } => {
                write!(f, "{what} is {found}, and can be {most} at most: the peer is not a correct one")
            }
        }
    }
}

impl core::error::Error for LinkError {}
