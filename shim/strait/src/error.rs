//! The errors of all calls, in one type.

mod collective;
mod kind;
mod network;
mod profile;
mod window;

use core::fmt;

use strait_core::engine::{Fault, ProgressError, StartError};
use strait_core::layout::Corrupt;
use strait_core::memory::OutOfMemory;
use strait_platform::boot::{BootError, SegmentError};

use crate::env::EnvError;
pub use collective::CollectiveError;
pub use kind::ErrorKind;
pub use network::NetworkError;
pub use profile::ProfileError;
pub use window::WindowError;

/// The cause of a failed call. Each variant says what failed, where, and what to do about it.
///
/// `Debug` prints the same sentence as `Display`, so that a `main` that returns an error prints a
/// readable message.
#[non_exhaustive]
pub enum Error {
    /// This process could not join its job.
    Boot(BootError),
    /// An environment variable has no usable value.
    Environment(EnvError),
    /// A file of a rendezvous profile cannot be used.
    Profile(ProfileError),
    /// The job spans nodes, and no network between them is available.
    Network(NetworkError),
    /// The system refuses to start the progress thread.
    Thread(std::io::Error),
    /// The shared memory for an in-process world, or for an allocation in the heap, is not
    /// available.
    Segment(SegmentError),
    /// The operation did not begin, and nothing was changed.
    Start(StartError),
    /// The operation began and failed.
    Fault(Fault),
    /// A collective operation, or the creation of a group, failed because of the arguments of some
    /// rank.
    Collective(CollectiveError),
    /// The creation of a window failed, or an operation on a window was refused.
    Window(WindowError),
    /// The private memory for a message that arrived is not available. The message waits where it
    /// is until other messages are received or memory is freed.
    OutOfMemory(OutOfMemory),
    /// A value of another world of this process was used with this world. Nothing was changed.
    OtherWorld,
    /// This rank stopped for lack of memory and can no longer communicate.
    Stopped,
    /// Shared memory holds a value that no correct peer writes. This rank can no longer
    /// communicate.
    Corrupt(Corrupt),
}

impl Error {
    /// Returns the peer that made the operation fail by its death or departure, if there is one.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let error = endpoint.recv(&mut [0_u8], 1, 0).unwrap_err();
    ///     assert_eq!(error.gone_peer(), Some(1), "rank 1 leaves without a message");
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
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

/// Replaces the loss of a member by success, for calls that continue with the other members.
pub(crate) fn unless_gone(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.gone_peer().is_some() => Ok(()),
        done => done,
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
            Self::Profile(error) => error.fmt(f),
            Self::Network(error) => error.fmt(f),
            Self::Thread(error) => write!(
                f,
                "the system refuses the progress thread: {error}; STRAIT_PROGRESS=calls starts none"
            ),
            Self::Segment(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
            Self::Collective(error) => error.fmt(f),
            Self::Window(error) => error.fmt(f),
            Self::OutOfMemory(error) => error.fmt(f),
            Self::OtherWorld => f.write_str(
                "the operation, message or window belongs to another world of this process: use \
                 it with the world that it comes from",
            ),
            Self::Stopped => ProgressError::Stopped.fmt(f),
            Self::Corrupt(corrupt) => write!(
                f,
                "shared memory is damaged by a faulty rank or a stray write: {corrupt}; end the job"
            ),
        }
    }
}

/// The message of an error contains that of the variant's own value. So [`source`] begins behind
/// that value: with the error of the system or of the device, if there is one.
///
/// [`source`]: core::error::Error::source
impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Boot(error) => error.source(),
            Self::Segment(error) => error.source(),
            Self::Environment(error) => error.source(),
            Self::Profile(error) => error.source(),
            Self::Network(error) => error.source(),
            Self::Thread(error) => Some(error),
            Self::Start(error) => error.source(),
            Self::Fault(fault) => fault.source(),
            Self::Collective(error) => error.source(),
            Self::Window(error) => error.source(),
            Self::OutOfMemory(error) => error.source(),
            Self::Corrupt(corrupt) => corrupt.source(),
            Self::OtherWorld | Self::Stopped => None,
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

impl From<ProfileError> for Error {
    fn from(error: ProfileError) -> Self {
        Self::Profile(error)
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
