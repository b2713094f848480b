//! The errors of work with a device.

use core::fmt;

/// A call to a device failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HcaError {
    /// The system refuses to register `bytes` more bytes.
    Memory {
        /// Number of bytes requested.
        bytes: u64,
    },
    /// All connections of the device are in use.
    Connections {
        /// Number of connections of the device.
        limit: u32,
    },
    /// The device cannot reach the peer at its address.
    Unreachable {
        /// Its rank.
        peer: u32,
    },
    /// A step of connecting to the peer failed.
    Connect {
        /// Its rank.
        peer: u32,
        /// The step.
        step: ConnectStep,
        /// The system's error number, or zero if there is none.
        code: i32,
    },
    /// The peer answers but does not know this connection.
    Refused {
        /// Its rank.
        peer: u32,
    },
    /// No region with this key is registered.
    UnknownRegion {
        /// The local key.
        key: u32,
    },
    /// No connection with this index is open.
    UnknownConnection {
        /// The index.
        connection: u32,
    },
    /// The device failed.
    Device {
        /// The system's error number, or zero if there is none.
        code: i32,
    },
}

/// A step of making a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConnectStep {
    /// Finding the local port that leads to the peer's address.
    Address,
    /// Finding the way to the peer's address.
    Route,
    /// Asking the peer for a connection.
    Ask,
    /// Accepting the peer's request for a connection.
    Accept,
    /// Setting the local end of the connection.
    Local,
    /// The peer or the network ended the connection before both sides had confirmed it.
    Confirm,
    /// The device was removed.
    Device,
}

impl fmt::Display for ConnectStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "no local port leads to its address",
            Self::Route => "no route leads to its address",
            Self::Ask => "it did not answer the request for a connection",
            Self::Accept => "its request for a connection could not be accepted",
            Self::Local => "the device refused the parameters of the connection",
            Self::Confirm => "the connection ended before both sides had confirmed it",
            Self::Device => "the device was removed",
        })
    }
}

impl fmt::Display for HcaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Memory { bytes } => write!(
                f,
                "the system refuses to register {bytes} bytes with the device: raise the limit of \
                 locked memory (ulimit -l)"
            ),
            Self::Connections { limit } => {
                write!(f, "all {limit} connections of the device are in use")
            }
            Self::Unreachable { peer } => {
                write!(f, "the device cannot reach rank {peer} at the address that it gave")
            }
            Self::Connect { peer, step, code } => {
                write!(f, "connecting to rank {peer} failed: {step}")?;
                match code {
                    0 => Ok(()),
                    code => write!(f, " (error {code})"),
                }
            }
            Self::Refused { peer } => write!(
                f,
                "rank {peer} refused the connection: it has closed its end, or the address belongs \
                 to an earlier run"
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
    /// The connection is not ready, or no longer ready.
    NotConnected,
    /// An earlier request failed and broke the connection.
    Broken,
    /// The request has more pieces than the device gathers.
    Pieces {
        /// Number of pieces given.
        found: usize,
        /// Maximum number of pieces.
        limit: u32,
    },
    /// The message is longer than the device sends inline, or longer than it sends at all.
    Length {
        /// Length of the message, in bytes.
        found: u64,
        /// Maximum length, in bytes.
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
                write!(f, "the request has {found} pieces; the device takes at most {limit}")
            }
            Self::Length { found, limit } => {
                write!(f, "the request has {found} bytes; the device takes at most {limit}")
            }
            Self::Unsupported => f.write_str("the device does not have this operation"),
            Self::Device { code } => {
                write!(f, "the device rejected the request (error {code})")
            }
        }
    }
}

impl core::error::Error for PostError {}

/// A posted request failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorkError {
    /// A piece is outside the region of its key, or the key is unknown or does not permit the
    /// access.
    LocalAccess,
    /// The remote address is outside the region of its key, or the key is unknown, revoked or does
    /// not permit the access.
    RemoteAccess,
    /// The message is longer than the piece that the peer posted.
    Length,
    /// The peer had no receive posted for as long as the device retries.
    NotReady,
    /// The peer does not answer. A peer that dies may first cause [`WorkError::RemoteAccess`],
    /// because its memory goes before its connections. Some devices learn only that the connection
    /// has ended ([`Capabilities::acknowledged`](super::Capabilities::acknowledged)); there, the
    /// peer may also have refused a request.
    Unreachable,
    /// An earlier failure broke the connection before this request was done.
    Flushed,
    /// The device reported another failure.
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
