//! The state of an operation that belongs to no scope.

use strait_core::engine::{FailureCause, Fault, Outcome, ProgressError, RequestId};
use strait_core::hca::HcaError;
use strait_core::layout::{Call, Wait};

use crate::network::TransferId;
use crate::world::number::WorldNumber;
use crate::{Error, NetworkError, WindowError, World};

/// The state of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperationState {
    /// The operation goes on, in the world with this number.
    Open(WorldNumber, OpenOperation),
    Done(Outcome),
    /// The operation ended without an outcome, although no peer is known to be gone.
    Broken(EndCause),
}

/// The name of an operation that goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum OpenOperation {
    Message(RequestId),
    Transfer(TransferId),
    /// A message for a window.
    WindowMessage(RequestId),
}

/// The cause for which an operation ended without an outcome.
#[derive(Clone, Copy, Debug)]
pub(super) enum EndCause {
    /// A window's lane broke.
    Window(WindowError),
    /// No progress could be made.
    Progress(ProgressError),
}

impl From<EndCause> for Error {
    fn from(cause: EndCause) -> Self {
        match cause {
            EndCause::Window(error) => error.into(),
            EndCause::Progress(error) => error.into(),
        }
    }
}

impl OperationState {
    /// Returns the state of an operation that this error has ended.
    pub(super) fn ended_by(error: &Error) -> Self {
        match error {
            Error::Fault(fault) => Self::Done(Err(*fault)),
            Error::Window(error) => Self::Broken(EndCause::Window(*error)),
            Error::OutOfMemory(error) => {
                Self::Broken(EndCause::Progress(ProgressError::OutOfMemory(*error)))
            }
            Error::Corrupt(corrupt) => {
                Self::Broken(EndCause::Progress(ProgressError::Corrupt(*corrupt)))
            }
            Error::Stopped => Self::Broken(EndCause::Progress(ProgressError::Stopped)),
            Error::Network(NetworkError::NoLink { peer, .. }) => {
                let sign = FailureCause::Device(HcaError::Unreachable { peer: *peer });
                Self::Done(Err(Fault::PeerFailed { rank: *peer, sign }))
            }
            // No wait fails with another error.
            _ => Self::Done(Err(Fault::Cancelled)),
        }
    }
}

impl OpenOperation {
    /// Returns the description of a wait for this operation.
    pub(super) fn wait_of(self, world: &World) -> Wait {
        match self {
            Self::Message(id) | Self::WindowMessage(id) => world.lock_progress().wait_of(id),
            Self::Transfer(_) => Wait::new(Call::WindowFlush),
        }
    }
}
