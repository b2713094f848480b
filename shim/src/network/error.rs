//! Why a rank has no network.

use core::fmt;

use rustix::io::Errno;
use strait_core::hca::HcaError;
use strait_core::ring::LinkError;

use crate::Rank;
use crate::boot::{BootError, StoreError};
use crate::hca::NoDevice;
use crate::hca::soft::FabricError;
use crate::segment::SegmentError;

/// The network between the nodes of a job could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum NetworkError {
    /// The ranks are not all on one host, or the memory of their software devices could not be shared.
    Share(BootError),
    /// This rank has no software device.
    Fabric(FabricError),
    /// This rank has no RDMA device.
    NoDevice(NoDevice),
    /// `STRAIT_HCA` says that there is to be none.
    None,
    /// The system refuses the socket at which peers call.
    Door(Errno),
    /// The system refuses the socket that is rung while this rank waits for its device.
    Socket(std::io::Error),
    /// No addresses for the memory of the links.
    Memory(SegmentError),
    /// The device failed.
    Device(HcaError),
    /// A link to a rank on another node could not be made.
    Link(LinkError),
    /// There is no end for a link, which is made when a message goes to a peer or comes from it for the first time.
    NoLink {
        /// The peer.
        peer: Rank,
        /// Bytes of memory that it was to have.
        bytes: usize,
        /// Bytes that the process may lock; `None`: any number.
        limit: Option<u64>,
        /// What failed.
        error: Box<Self>,
    },
    /// The job's key-value store failed.
    Store(StoreError),
    /// A rank on another node did not say how to connect to it.
    Card {
        /// The rank.
        peer: Rank,
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
        if !matches!(self, Self::NoLink { .. }) {
            f.write_str("no network between the nodes of the job: ")?;
        }
        match self {
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
                        "; this process may lock {limit} bytes of memory: raise the limit (ulimit -l unlimited, or memlock in \
                         limits.conf), or talk to fewer ranks"
                    ),
                    None => Ok(()),
                }
            }
            Self::Share(error) => write!(
                f,
                "{error}; the software device serves nodes that are one host: STRAIT_HCA=verbs uses RDMA devices, \
                 STRAIT_HCA=none goes without"
            ),
            Self::NoDevice(error) => write!(
                f,
                "the ranks are on several hosts, or STRAIT_HCA says verbs, and {error}; `strait info` shows the devices, \
                 STRAIT_HCA=none goes without"
            ),
            Self::Fabric(error) => error.fmt(f),
            Self::None => f.write_str(
                "STRAIT_HCA=none says so; without it a software device serves this host",
            ),
            Self::Door(error) => {
                write!(f, "the system refuses a socket to be called at: {error}")
            }
            Self::Socket(error) => {
                write!(f, "the system refuses an abstract Unix socket to be woken at: {error}")
            }
            Self::Memory(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Link(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Card { peer } => write!(
                f,
                "rank {peer} does not say how to connect to it: all ranks need the same STRAIT_HCA"
            ),
        }
    }
}

impl core::error::Error for NetworkError {}

impl From<LinkError> for NetworkError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}
