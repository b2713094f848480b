//! The reasons why a rank has no network.

use core::fmt;

use rustix::io::Errno;
use strait_core::hca::HcaError;
use strait_core::ring::{Cause, LinkError};
use strait_hca::NoDevice;
use strait_hca::soft::FabricError;
use strait_platform::Rank;
use strait_platform::boot::{BootError, StoreError};
use strait_platform::segment::SegmentError;

/// The reason why the network between the nodes of a job could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum NetworkError {
    /// The ranks are not all on one host, or the memory of their software devices could not be
    /// shared.
    Share(BootError),
    /// This rank has no software device.
    Fabric(FabricError),
    /// This rank has no RDMA device.
    NoDevice(NoDevice),
    /// `STRAIT_HCA` asks for no network.
    None,
    /// The ranks of the job have devices of different kinds.
    Kinds {
        /// The ranks of each kind, in words.
        found: String,
    },
    /// The ranks ask for software devices, and their nodes are not one host.
    Hosts {
        /// The nodes of each host, in words.
        found: String,
    },
    /// The system refuses the socket of the connection listener.
    Listener(Errno),
    /// The system refuses the wake-up socket for waits on the device.
    Socket(std::io::Error),
    /// No addresses are left for the memory of the links.
    Memory(SegmentError),
    /// The device failed.
    Device(HcaError),
    /// A link to a rank on another node could not be made.
    Link(LinkError),
    /// A call of the RDMA channel does not begin with the buffer that the device is using. Nothing
    /// was changed.
    AnotherBuffer {
        /// The peer.
        peer: Rank,
    },
    /// The end of a link could not be opened. A link is made with the first message to or from a
    /// peer.
    NoLink {
        /// The peer.
        peer: Rank,
        /// Bytes of memory for the link.
        bytes: usize,
        /// Bytes that the process may lock; `None` means no limit.
        limit: Option<u64>,
        /// The cause.
        error: Box<Self>,
    },
    /// The job's key-value store failed.
    Store(StoreError),
    /// A rank on another node did not publish its address.
    Address {
        /// The rank.
        peer: Rank,
    },
    /// The address of a rank on another node could not be read in the job's key-value store.
    NoAddress {
        /// The rank.
        peer: Rank,
        /// The cause.
        error: StoreError,
    },
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(error) if error.is_of_another_rank() => {
                return write!(f, "the job did not start: {error}");
            }
            Self::Store(error) => return write!(f, "the job did not start: {error}"),
            _ => {}
        }
        let is_of_one_peer = matches!(
            self,
            Self::NoLink { .. } | Self::AnotherBuffer { .. } | Self::NoAddress { .. }
        );
        if !is_of_one_peer {
            f.write_str("no network between the nodes of the job: ")?;
        }
        match self {
            Self::AnotherBuffer { peer } => {
                let cause = Cause::AnotherBuffer;
                LinkError { peer: *peer, cause }.fmt(f)
            }
            Self::NoLink { peer, bytes, limit, error } => {
                let reason = error.to_string();
                let reason = reason.rsplit_once("of the job: ").map_or(&*reason, |(_, it)| it);
                write!(
                    f,
                    "no link to rank {peer}, for which {bytes} bytes are registered: {reason}"
                )?;
                match limit {
                    Some(limit) => write!(
                        f,
                        "; this process may lock {limit} bytes of memory: raise the limit \
                         (ulimit -l unlimited, or memlock in limits.conf), or exchange messages \
                         with fewer ranks"
                    ),
                    None => Ok(()),
                }
            }
            Self::Share(error) => write!(
                f,
                "{error}; the software device serves the nodes of one host: STRAIT_HCA=verbs uses \
                 RDMA devices, STRAIT_HCA=none uses no network"
            ),
            Self::NoDevice(error) => write!(
                f,
                "the ranks are on several hosts, or STRAIT_HCA is verbs, and {error}; \
                 `strait info` shows the devices, STRAIT_HCA=none uses no network"
            ),
            Self::Fabric(error) => error.fmt(f),
            Self::None => f.write_str(
                "STRAIT_HCA=none turns it off; without it a software device serves this host",
            ),
            Self::Kinds { found } => write!(
                f,
                "the ranks have different kinds of devices by STRAIT_HCA: {found}; set STRAIT_HCA \
                 to the same kind for all ranks, `strait info` shows the devices of a host"
            ),
            Self::Hosts { found } => write!(
                f,
                "STRAIT_HCA asks for a software device, which serves the nodes of one host, and \
                 the nodes are {found}; STRAIT_HCA=verbs uses RDMA devices, STRAIT_HCA=none uses \
                 no network"
            ),
            Self::Listener(error) => {
                write!(f, "the system refuses the socket of the connection listener: {error}")
            }
            Self::Socket(error) => {
                write!(f, "the system refuses the wake-up socket, an abstract Unix socket: {error}")
            }
            Self::Memory(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Link(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Address { peer } => {
                write!(f, "rank {peer} published no address: all ranks need the same STRAIT_HCA")
            }
            Self::NoAddress { peer, error } => {
                write!(f, "no link to rank {peer}: its address could not be read: {error}")
            }
        }
    }
}

impl core::error::Error for NetworkError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Share(error) => error.source(),
            Self::Fabric(error) => error.source(),
            Self::NoDevice(error) => error.source(),
            Self::Listener(error) => Some(error),
            Self::Socket(error) => Some(error),
            Self::Memory(error) => error.source(),
            Self::Device(error) => error.source(),
            Self::Link(error) => error.source(),
            Self::NoLink { error, .. } => error.source(),
            Self::Store(error) | Self::NoAddress { error, .. } => error.source(),
            Self::None
            | Self::Kinds { .. }
            | Self::Hosts { .. }
            | Self::Address { .. }
            | Self::AnotherBuffer { .. } => None,
        }
    }
}

impl From<LinkError> for NetworkError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}
