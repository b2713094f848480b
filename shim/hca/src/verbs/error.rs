//! Failures to open a device, and the translation of the library's codes into Strait's errors.

use core::error::Error;
use core::ffi::c_int;
use core::fmt;
use std::io;

use rdma_mummy_sys::{ibv_wc_status as status, ibv_wc_status::Type as Status};
use strait_core::hca::{HcaError, PostError, WorkError};

/// The reason why no device could be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The library of rdma-core is not installed.
    Library,
    /// The system has no RDMA device.
    NoDevice,
    /// The system has no RDMA device of this name.
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the existing devices.
        found: Vec<String>,
    },
    /// The device has no port that is up and has an address, or not the requested one.
    NoPort {
        /// The device's name.
        name: String,
        /// The requested port.
        port: Option<u8>,
        /// The requested index in the port's table of global identifiers.
        gid: Option<u8>,
    },
    /// The library of the connection manager is not installed. iWARP connects only through it.
    Manager {
        /// The device's name.
        name: String,
    },
    /// The limit of locked memory is less than the memory to register.
    LockedMemory {
        /// The limit, in bytes.
        limit: u64,
        /// The memory to register, in bytes.
        needed: u64,
    },
    /// The device or the system refused.
    System {
        /// The operation.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl OpenError {
    /// Creates the error of the failed operation `what` from the system's error number.
    pub(super) fn last(what: &'static str) -> Self {
        Self::System { what, error: io::Error::last_os_error() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library => {
                f.write_str("the library libibverbs.so.1 is not installed: install rdma-core")
            }
            Self::NoDevice => f.write_str(
                "this system has no RDMA device, or this process may not open \
                 /dev/infiniband/uverbs*",
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
                "the RDMA device {name} is iWARP, which connects through librdmacm.so.1, and \
                 that is not installed: install librdmacm"
            ),
            Self::LockedMemory { limit, needed } => write!(
                f,
                "this process may lock {limit} bytes of memory, and {needed} are to be registered \
                 with the device: raise the limit (ulimit -l unlimited, or memlock in limits.conf)"
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

/// Returns the error number of the last call.
pub(super) fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Converts the return value of a function that returns an error number.
pub(super) fn checked(code: c_int) -> Result<(), HcaError> {
    match code {
        0 => Ok(()),
        // Some providers return −1 and leave the number in `errno`.
        -1 => Err(HcaError::Device { code: errno() }),
        code => Err(HcaError::Device { code }),
    }
}

/// Returns the reason why a request was not accepted.
pub(super) fn refused(code: c_int) -> PostError {
    match if code == -1 { errno() } else { code } {
        libc::ENOMEM => PostError::Full,
        // The other side is ending the connection.
        libc::ENOTCONN => PostError::Broken,
        code => PostError::Device { code },
    }
}

/// Returns the reason why a request failed. `sends` tells whether it was a send.
pub(super) fn failed(code: Status, sends: bool) -> WorkError {
    match code {
        status::IBV_WC_LOC_PROT_ERR | status::IBV_WC_LOC_ACCESS_ERR => WorkError::LocalAccess,
        status::IBV_WC_LOC_LEN_ERR => WorkError::Length,
        // A peer reports "invalid request" when its receive has no room for a send, and for an
        // atomic that is not aligned.
        status::IBV_WC_REM_INV_REQ_ERR if sends => WorkError::Length,
        status::IBV_WC_REM_INV_REQ_ERR | status::IBV_WC_REM_ACCESS_ERR => WorkError::RemoteAccess,
        status::IBV_WC_RETRY_EXC_ERR => WorkError::Unreachable,
        status::IBV_WC_RNR_RETRY_EXC_ERR => WorkError::NotReady,
        status::IBV_WC_WR_FLUSH_ERR => WorkError::Flushed,
        code => WorkError::Device { code },
    }
}
