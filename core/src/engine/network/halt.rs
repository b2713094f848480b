//! Reasons to stop at a packet of a stream.

use super::Broken;
use crate::engine::{FailureCause, ProgressError};
use crate::memory::OutOfMemory;

/// The reason why no further packet of a stream is taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Halt {
    /// The stream is at its end, or its bytes make no sense.
    Broken(FailureCause),
    /// There is no private memory; the packet waits.
    OutOfMemory(OutOfMemory),
}

/// The bytes of the stream make no sense.
pub(super) const NONSENSE: Halt = Halt::Broken(FailureCause::Nonsense);

impl From<Broken> for Halt {
    fn from(Broken(sign): Broken) -> Self {
        Self::Broken(sign)
    }
}

impl From<ProgressError> for Halt {
    fn from(error: ProgressError) -> Self {
        match error {
            ProgressError::OutOfMemory(error) => Self::OutOfMemory(error),
            ProgressError::Corrupt(_) | ProgressError::Stopped => NONSENSE,
        }
    }
}

impl From<OutOfMemory> for Halt {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}
