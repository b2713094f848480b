//! Warnings: what a user should know although no call failed.

use core::fmt;

use strait_platform::cma::CopyRefusal;

use crate::env::{self, Unknown};

/// What a user should know although no call failed. [`crate::World::take_warnings`] returns it, and
/// `Display` gives a sentence for the user.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// An environment variable is unknown and has no effect.
    UnknownVariable(Unknown),
    /// The kernel refuses copies to or from a peer, although it allowed a first one.
    CopyRefused(CopyRefusal),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVariable(unknown) => unknown.fmt(f),
            Self::CopyRefused(refusal) => refusal.fmt(f),
        }
    }
}

/// Returns the warnings about the environment of a job, for one of its ranks. `strait run` prints
/// those of its jobs itself.
pub(crate) fn of_environment() -> Vec<Warning> {
    if env::has_own_launcher() {
        return Vec::new();
    }
    env::unknown().into_iter().map(Warning::UnknownVariable).collect()
}
