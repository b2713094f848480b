//! The reasons why a rendezvous profile cannot be used.

use core::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a rank's file of a rendezvous profile cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProfileError {
    /// The system refuses to read the file.
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The system refuses to write the file.
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A line is not as it must be.
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        cause: String,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(
                f,
                "cannot read the rendezvous profile {}: {error}; a profile is the directory that \
                 strait tune --profile named for a run of as many ranks",
                path.display()
            ),
            Self::Write { path, error } => {
                write!(f, "cannot write the rendezvous profile {}: {error}", path.display())
            }
            Self::Line { path, line, cause } => {
                write!(f, "rendezvous profile {}, line {line}: {cause}", path.display())
            }
        }
    }
}

impl core::error::Error for ProfileError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } | Self::Write { error, .. } => Some(error),
            Self::Line { .. } => None,
        }
    }
}
