//! Why a device cannot be used, and how the library's codes read in Strait's terms.

use core::error::Error;
use core::ffi::c_int;
use core::fmt;
use std::io;

use rdma_mummy_sys::{ibv_wc_status as status, ibv_wc_status::Type as Status};
use strait_core::hca::{HcaError, PostError, WorkError};

/// No device could be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The library of rdma-core is not there.
    Library,
    /// The system has no RDMA device.
    NoDevice,
    /// It has none of this name.
    Unknown {
        /// The name asked for.
        name: String,
        /// Those that there are.
        found: Vec<String>,
    },
    /// The device has no port that is up and has an address, or not the one asked for.
    NoPort {
        /// Its name.
        name: String,
        /// The port asked for.
        port: Option<u8>,
        /// The entry asked for of the port's table of global identifiers.
        gid: Option<u8>,
    },
    /// The library of the connection manager is not there, through which alone iWARP connects.
    Manager {
        /// The device's name.
        name: String,
    },
    /// Less memory may be locked than is going to be registered.
    LockedMemory {
        /// What may be, bytes.
        limit: u64,
        /// What is going to be, bytes.
        needed: u64,
    },
    /// The device or the system refused.
    System {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
}

impl OpenError {
    /// `what` failed, and the system's error number says why.
    pub(super) fn last(what: &'static str) -> Self {
        Self::System { what, error: io::Error::last_os_error() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library => f.write_str(
                "the library libibverbs.so.1 is not there: install rdma-core",
            ),
            Self::NoDevice => f.write_str(
                "this system has no RDMA device, or this process may not open /dev/infiniband/uverbs*",
            ),
            Self::Unknown { name, found } if found.is_empty() => {
                write!(f, "there is no RDMA device {name}, nor any other")
            }
            Self::Unknown { name, found } => {
                write!(f, "there is no RDMA device {name}; there are {}", found.join(", "))
            }
            Self::NoPort { name, port, gid } => {
                write!(f, "the RDMA device {name} has no port ")?;
                port.map_or(Ok(()), |port| write!(f, "{port} "))?;
                f.write_str("that is up and has an address ")?;
                gid.map_or(Ok(()), |gid| write!(f, "at index {gid} "))?;
                f.write_str("(see `rdma link`, `ibv_devinfo -v`)")
            }
            Self::Manager { name } => write!(
                f,
                "the RDMA device {name} is iWARP, which connects through librdmacm.so.1, and that is not there: install \
                 librdmacm"
            ),
            Self::LockedMemory { limit, needed } => write!(
                f,
                "this process may lock {limit} bytes of memory, and {needed} are going to be registered with the \
                 device: raise the limit (ulimit -l unlimited, or memlock in limits.conf)"
            ),
            Self::System { what, error } => write!(f, "{what} failed: {error}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The error number that the last call left.
pub(super) fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A function that returns an error number refused.
pub(super) fn checked(code: c_int) -> Result<(), HcaError> {
    match code {
        0 => Ok(()),
        // Some providers return −1 and leave the number in `errno`.
        -1 => Err(HcaError::Device { code: errno() }),
        code => Err(HcaError::Device { code }),
    }
}

/// Why a request was not taken.
pub(super) fn refused(code: c_int) -> PostError {
    match if code == -1 { errno() } else { code } {
        libc::ENOMEM => PostError::Full,
        // The other side is just ending the connection.
        libc::ENOTCONN => PostError::Broken,
        code => PostError::Device { code },
    }
}

/// Why a request, a send if `sends`, did not do what it should.
pub(super) fn failed(code: Status, sends: bool) -> WorkError {
    match code {
        status::IBV_WC_LOC_PROT_ERR | status::IBV_WC_LOC_ACCESS_ERR => WorkError::LocalAccess,
        status::IBV_WC_LOC_LEN_ERR => WorkError::Length,
        // The peer calls a request invalid that its receive has no room for, and an atomic that is not aligned.
        status::IBV_WC_REM_INV_REQ_ERR if sends => WorkError::Length,
        status::IBV_WC_REM_INV_REQ_ERR | status::IBV_WC_REM_ACCESS_ERR => WorkError::RemoteAccess,
        status::IBV_WC_RETRY_EXC_ERR => WorkError::Unreachable,
        status::IBV_WC_RNR_RETRY_EXC_ERR => WorkError::NotReady,
        status::IBV_WC_WR_FLUSH_ERR => WorkError::Flushed,
        code => WorkError::Device { code },
    }
}
