//! The causes of failed operations, as error entries carry them.
//!
//! libfabric's error number is coarse: `ECONNRESET` says that a peer is gone, not how that is
//! known. So an entry also has the provider's own number (`prov_errno`) and a text (`err_data`),
//! which `fi_cq_strerror` returns.

use core::ffi::CStr;
use core::fmt;
use std::io;

use strait_core::engine::{FailureCause, Fault, StartError};

use crate::abi::{FiStatus, Ssize, errno};

/// The cause of a failed operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ErrorCause {
    /// An operation of Strait ended with this fault.
    Fault(Fault),
    /// Strait could not start an operation.
    Start(StartError),
    /// The owner of remote memory refused an access.
    Access,
    /// libfabric's number says it all.
    Number(i32),
}

/// The provider's numbers begin above all numbers of libfabric.
const FIRST: i32 = 1 << 16;

/// The provider's numbers and their texts. A number is its place in the list, counted from
/// [`FIRST`].
const TEXTS: [&CStr; 12] = [
    c"strait: the operation failed",
    c"strait: the message was longer than its buffer",
    c"strait: the peer died",
    c"strait: the peer died or cannot be reached: a request to it failed on the device",
    c"strait: the peer died or cannot be reached through the device",
    c"strait: the peer is treated as dead: it sent data that no correct peer sends",
    c"strait: the peer has left the job",
    c"strait: the peer is on another node, and there is no network",
    c"strait: the operation was cancelled",
    c"strait: there is no memory for the operation",
    c"strait: the shared memory of the job is damaged",
    c"strait: the key does not allow this access to the peer's memory",
];

impl ErrorCause {
    /// Returns libfabric's error number.
    pub(crate) const fn errno(self) -> i32 {
        match self {
            Self::Fault(fault) | Self::Start(StartError::Peer(fault)) => errno_of(fault),
            Self::Start(StartError::OutOfMemory(_)) => errno::EAGAIN,
            Self::Start(StartError::Rank { .. } | StartError::Tag { .. }) => errno::EINVAL,
            Self::Start(StartError::Corrupt(_)) => errno::EIO,
            Self::Access => errno::EACCES,
            Self::Number(number) => number,
        }
    }

    /// Returns the provider's own number, which [`text_of`] describes.
    pub(crate) const fn provider_number(self) -> i32 {
        let place = match self {
            Self::Fault(fault) | Self::Start(StartError::Peer(fault)) => match fault {
                Fault::Truncated { .. } => 1,
                Fault::PeerFailed { sign: FailureCause::Ended, .. } => 2,
                Fault::PeerFailed { sign: FailureCause::Request(_), .. } => 3,
                Fault::PeerFailed { sign: FailureCause::Device(_), .. } => 4,
                Fault::PeerFailed { sign: FailureCause::Nonsense, .. } => 5,
                Fault::PeerFinished { .. } => 6,
                Fault::Unreachable { .. } => 7,
                Fault::Cancelled => 8,
                _ => 0,
            },
            Self::Start(StartError::OutOfMemory(_)) => 9,
            Self::Start(StartError::Corrupt(_)) => 10,
            Self::Start(StartError::Rank { .. } | StartError::Tag { .. }) => 0,
            Self::Access => 11,
            Self::Number(number) => return number,
        };
        FIRST + place
    }

    /// Returns whether the end of a message did not fit its buffer.
    pub(crate) const fn is_truncation(self) -> bool {
        matches!(self, Self::Fault(Fault::Truncated { .. }))
    }
}

impl From<Fault> for ErrorCause {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<StartError> for ErrorCause {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl fmt::Display for ErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => write!(f, "strait: {fault}"),
            Self::Start(error) => write!(f, "strait: {error}"),
            Self::Number(number) if *number < 256 => {
                write!(f, "strait: {}", io::Error::from_raw_os_error(*number))
            }
            Self::Access | Self::Number(_) => {
                f.write_str(&text_of(self.provider_number()).to_string_lossy())
            }
        }
    }
}

/// Returns the text of one of the provider's numbers.
pub(crate) fn text_of(provider_number: i32) -> &'static CStr {
    if provider_number == errno::ETRUNC {
        return TEXTS[1];
    }
    let place = usize::try_from(provider_number.saturating_sub(FIRST)).ok();
    place.and_then(|place| TEXTS.get(place)).unwrap_or(&TEXTS[0])
}

/// Returns libfabric's error number of a fault.
const fn errno_of(fault: Fault) -> i32 {
    match fault {
        Fault::Truncated { .. } => errno::ETRUNC,
        Fault::PeerFailed { .. } | Fault::PeerFinished { .. } => errno::ECONNRESET,
        Fault::Unreachable { .. } => errno::EHOSTUNREACH,
        Fault::Cancelled => errno::ECANCELED,
        _ => errno::EIO,
    }
}

/// Returns the result of a call that could not start its operation.
#[cold]
pub(crate) fn refusal(error: StartError) -> Ssize {
    -(ErrorCause::from(error).errno() as Ssize)
}

/// Prints on standard error why a process cannot take part, since an error number cannot say it.
#[cold]
pub(crate) fn failed(error: &dyn core::error::Error) -> FiStatus {
    eprintln!("strait: {error}");
    -errno::EIO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_number_and_a_text() {
        let died = Fault::PeerFailed { rank: 3, sign: FailureCause::Ended };
        let odd = Fault::PeerFailed { rank: 3, sign: FailureCause::Nonsense };
        let causes = [died, odd, Fault::PeerFinished { rank: 3 }].map(ErrorCause::from);
        assert!(causes.iter().all(|cause| cause.errno() == errno::ECONNRESET));
        let texts = causes.map(|cause| text_of(cause.provider_number()));
        assert_eq!(texts, [TEXTS[2], TEXTS[5], TEXTS[6]]);
        assert!(causes.iter().all(|cause| cause.to_string().contains("rank 3")), "{causes:?}");
    }

    #[test]
    fn any_number_has_a_text() {
        for number in [i32::MIN, -1, 0, errno::EIO, FIRST + 12, i32::MAX] {
            assert_eq!(text_of(number), TEXTS[0], "{number}");
        }
        assert_eq!(text_of(FIRST + 11), TEXTS[11]);
        assert_eq!(text_of(errno::ETRUNC), TEXTS[1]);
    }
}
