//! The errors of a link.

use core::fmt;

use super::config::LinkConfig;
use crate::engine::FailureCause;
use crate::hca::{HcaError, PostError, WorkError};

/// A link failed. Links to other peers are not affected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkError {
    /// The rank at the other end.
    pub peer: u32,
    /// The cause of the failure.
    pub cause: Cause,
}

/// The cause of a link's failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The device could not open, connect or close the connection, or register memory.
    Device(HcaError),
    /// The device refused a request.
    Refused(PostError),
    /// A request failed.
    Failed(WorkError),
    /// The link is not connected yet.
    NotConnected,
    /// A call names another buffer than the previous call, and the device is still using that
    /// buffer.
    AnotherBuffer,
    /// A link cannot have this configuration.
    Config(LinkConfig),
    /// The peer's end has another configuration, or its address is not a valid
    /// [`super::LinkAddress`].
    Mismatch,
    /// The peer wrote a number that no correct peer writes.
    Corrupt {
        /// The meaning of the number.
        what: &'static str,
        /// The number.
        found: u64,
        /// The maximum value.
        most: u64,
    },
}

impl LinkError {
    /// Returns what the error says about the peer.
    #[must_use]
    pub const fn sign(&self) -> FailureCause {
        match self.cause {
            Cause::Device(error) => FailureCause::Device(error),
            Cause::Refused(PostError::Device { code }) => {
                FailureCause::Device(HcaError::Device { code })
            }
            // An earlier failure broke the connection.
            Cause::Refused(_) | Cause::NotConnected => FailureCause::Request(WorkError::Flushed),
            Cause::Failed(error) => FailureCause::Request(error),
            Cause::AnotherBuffer | Cause::Config(_) | Cause::Mismatch | Cause::Corrupt { .. } => {
                FailureCause::Nonsense
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
                "a request failed: {error}; this rank can no longer exchange messages with it"
            ),
            Cause::NotConnected => f.write_str("not connected yet"),
            Cause::AnotherBuffer => f.write_str(
                "a call names another buffer than the one that is being transferred; until its \
                 bytes are counted, each call must start with the same buffer",
            ),
            Cause::Config(LinkConfig { chunk, slots, .. }) => write!(
                f,
                "{slots} chunks of {chunk} bytes are not a valid ring: a chunk is a multiple of 8 \
                 bytes, at least 24, and all chunks together are at most 1 GiB"
            ),
            Cause::Mismatch => f.write_str(
                "the peer's end has another design, chunk size or number of chunks; all ranks need \
                 the same settings",
            ),
            Cause::Corrupt { what, found, most } => {
                write!(f, "{what} is {found}, but at most {most} is valid: the peer is faulty")
            }
        }
    }
}

impl core::error::Error for LinkError {}
