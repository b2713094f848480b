//! What can go wrong in a call, in one type.

use core::fmt;

use strait_core::layout::Corrupt;
use strait_core::memory::OutOfMemory;
use strait_core::progress::{Fault, ProgressError, StartError};

use crate::boot::{BootError, SegmentError};
use crate::env::EnvError;
use crate::{CollectiveError, NetworkError, WindowError};

/// Why a call failed. Each variant says what, where and what to do about it.
///
/// `Debug` prints the same sentence as `Display`, so that a `main` that returns an error tells its user what happened.
#[non_exhaustive]
pub enum Error {
    /// This process could not join its job.
    Boot(BootError),
    /// A variable of the environment has no usable value.
    Environment(EnvError),
    /// The job spans nodes, and there is no network between them.
    Network(NetworkError),
    /// The system refuses the progress thread.
    Thread(std::io::Error),
    /// There is not the shared memory for an in-process world, or for what was to be allocated in it.
    Segment(SegmentError),
    /// The operation did not begin; nothing was changed.
    Start(StartError),
    /// The operation ended badly.
    Fault(Fault),
    /// A collective operation, or the making of a group, went wrong by somebody's arguments.
    Collective(CollectiveError),
    /// A window was not made, or an operation on it was refused.
    Window(WindowError),
    /// There is no private memory for a message that arrived. It waits where it is; receiving other messages, or
    /// freeing memory, lets it in.
    OutOfMemory(OutOfMemory),
    /// This rank had to give up for want of memory and can no longer communicate.
    Stopped,
    /// Shared memory holds a value that no correct peer writes. This rank can no longer communicate.
    Corrupt(Corrupt),
}

impl Error {
    /// The rank whose death or leave made the operation fail, if that is why.
    #[must_use]
    pub const fn gone_peer(&self) -> Option<u32> {
        match self {
            Self::Fault(Fault::PeerFailed { rank, .. } | Fault::PeerFinished { rank }) => {
                Some(*rank)
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boot(error) => error.fmt(f),
            Self::Environment(error) => error.fmt(f),
            Self::Network(error) => error.fmt(f),
            Self::Thread(error) => write!(
                f,
                "the system refuses the progress thread: {error}; STRAIT_PROGRESS=calls goes without"
            ),
            Self::Segment(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
            Self::Collective(error) => error.fmt(f),
            Self::Window(error) => error.fmt(f),
            Self::OutOfMemory(error) => error.fmt(f),
            Self::Stopped => ProgressError::Stopped.fmt(f),
            Self::Corrupt(corrupt) => write!(
                f,
                "shared memory is damaged, by a faulty rank or a stray write: {corrupt}; end the job"
            ),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Boot(error) => error.source(),
            Self::Segment(error) => error.source(),
            _ => None,
        }
    }
}

impl From<BootError> for Error {
    fn from(error: BootError) -> Self {
        Self::Boot(error)
    }
}

impl From<EnvError> for Error {
    fn from(error: EnvError) -> Self {
        Self::Environment(error)
    }
}

impl From<NetworkError> for Error {
    fn from(error: NetworkError) -> Self {
        Self::Network(error)
    }
}

impl From<SegmentError> for Error {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

impl From<CollectiveError> for Error {
    fn from(error: CollectiveError) -> Self {
        Self::Collective(error)
    }
}

impl From<WindowError> for Error {
    fn from(error: WindowError) -> Self {
        Self::Window(error)
    }
}

impl From<Corrupt> for Error {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Corrupt(corrupt) => Self::Corrupt(corrupt),
            StartError::Peer(fault) => Self::Fault(fault),
            other => Self::Start(other),
        }
    }
}

impl From<ProgressError> for Error {
    fn from(error: ProgressError) -> Self {
        match error {
            ProgressError::OutOfMemory(error) => Self::OutOfMemory(error),
            ProgressError::Corrupt(corrupt) => Self::Corrupt(corrupt),
            ProgressError::Stopped => Self::Stopped,
        }
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}
