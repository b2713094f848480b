//! How work with a device fails.

use core::fmt;

/// A call to a device failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HcaError {
    /// The system does not let `bytes` more be registered.
    Memory {
        /// What was asked for.
        bytes: u64,
    },
    /// All connections of the device are in use.
    Connections {
        /// How many there are.
        limit: u32,
    },
    /// The peer cannot be reached at its address.
    Unreachable {
        /// Its rank.
        peer: u32,
    },
    /// The peer answers, and does not know of this connection.
    Refused {
        /// Its rank.
        peer: u32,
    },
    /// No such region is registered.
    UnknownRegion {
        /// The local key given.
        key: u32,
    },
    /// No such connection is open.
    UnknownConnection {
        /// The index given.
        connection: u32,
    },
    /// The device failed.
    Device {
        /// The system's error number, zero if there is none.
        code: i32,
    },
}

impl fmt::Display for HcaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Memory { bytes } => write!(
                f,
                "the system does not let {bytes} bytes be registered with the device: raise the limit of locked memory \
                 (ulimit -l)"
            ),
            Self::Connections { limit } => {
                write!(f, "all {limit} connections of the device are in use")
            }
            Self::Unreachable { peer } => {
                write!(f, "rank {peer} cannot be reached through the device at the address it gave")
            }
            Self::Refused { peer } => write!(
                f,
                "rank {peer} refused the connection: it has closed its end, or the address is that of an earlier run"
            ),
            Self::UnknownRegion { key } => {
                write!(f, "no region with the key {key:#x} is registered")
            }
            Self::UnknownConnection { connection } => {
                write!(f, "connection {connection} is not open")
            }
            Self::Device { code } => write!(f, "the device failed (error {code})"),
        }
    }
}

impl core::error::Error for HcaError {}

/// A request was not posted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PostError {
    /// The queue is full: poll, then post again.
    Full,
    /// The connection is not (or no longer) ready.
    NotConnected,
    /// An earlier request failed and broke the connection.
    Broken,
    /// More pieces than the device gathers.
    Pieces {
        /// How many were given.
        found: usize,
        /// How many it takes.
        limit: u32,
    },
    /// The message is longer than goes inline, or than goes at all.
    Length {
        /// Its length.
        found: u64,
        /// What the device takes.
        limit: u64,
    },
    /// The device does not have this operation.
    Unsupported,
    /// The device failed.
    Device {
        /// The system's error number.
        code: i32,
    },
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Full => f.write_str("the device's queue is full; poll, then post again"),
            Self::NotConnected => f.write_str("the connection is not ready"),
            Self::Broken => f.write_str("an earlier failure broke the connection"),
            Self::Pieces { found, limit } => {
                write!(f, "a request of {found} pieces; the device takes {limit}")
            }
            Self::Length { found, limit } => {
                write!(f, "a request of {found} bytes; the device takes {limit}")
            }
            Self::Unsupported => f.write_str("the device does not have this operation"),
            Self::Device { code } => {
                write!(f, "the device did not take the request (error {code})")
            }
        }
    }
}

impl core::error::Error for PostError {}

/// A posted request failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorkError {
    /// A piece lies outside the region of its key, or the key is unknown or does not allow it.
    LocalAccess,
    /// The remote place lies outside the region of its key, or the key is unknown, revoked or does not allow it.
    RemoteAccess,
    /// The message is longer than the piece that the peer had posted.
    Length,
    /// The peer had no receive posted for as long as the device tries.
    NotReady,
    /// The peer does not answer. One that dies may first be seen as [`WorkError::RemoteAccess`]: its memory goes, then its
    /// connections. Where a device hears no more than that the connection has ended
    /// ([`Capabilities::acknowledged`](super::Capabilities::acknowledged)), the peer may also have refused a request.
    Unreachable,
    /// An earlier failure broke the connection before this request was done.
    Flushed,
    /// Anything else.
    Device {
        /// The device's own code.
        code: u32,
    },
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LocalAccess => {
                f.write_str("local access error: memory outside its region, or a wrong key")
            }
            Self::RemoteAccess => f.write_str(
                "remote access error: memory outside its region, or a wrong or revoked key",
            ),
            Self::Length => f.write_str("the message is longer than the receive posted for it"),
            Self::NotReady => f.write_str("the peer had no receive posted"),
            Self::Unreachable => f.write_str("the peer does not answer"),
            Self::Flushed => f.write_str("flushed: an earlier failure broke the connection"),
            Self::Device { code } => write!(f, "the device reports error {code}"),
        }
    }
}

impl core::error::Error for WorkError {}
