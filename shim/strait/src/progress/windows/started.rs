//! Calls of the engine that do not begin.

use strait_core::engine::{ProgressError, StartError};

/// Returns the meaning for progress of a call that did not begin.
pub(super) const fn started(error: StartError) -> Result<(), ProgressError> {
    match error {
        StartError::OutOfMemory(error) => Err(ProgressError::OutOfMemory(error)),
        StartError::Corrupt(error) => Err(ProgressError::Corrupt(error)),
        StartError::Rank { .. } | StartError::Tag { .. } | StartError::Peer(_) => Ok(()),
    }
}
