//! The reasons why a command did not pass.

use core::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The result of a command that did not pass.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Stop {
    /// The command ran and found a problem.
    Failed(String),
    /// The command could not run on this machine.
    NotRun(Absence),
}

/// A tool or property that this machine lacks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Absence {
    /// What is missing, and the result of the attempt to install it.
    pub(crate) what: String,
    /// What a user can do about it; `None` if there is no remedy (no network, another
    /// architecture).
    pub(crate) remedy: Option<String>,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.remedy {
            Some(remedy) => write!(f, "{}; {remedy}", self.what),
            None => write!(f, "{}; there is no remedy on this machine", self.what),
        }
    }
}

impl Stop {
    /// Returns a failure that names the file that could not be read or written.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("{}: {error}", path.display()))
    }
}

/// Returns `Ok` if every part passed, otherwise one failure that names the parts that did not pass.
///
/// Failures take precedence over parts that could not run.
pub(crate) fn all(parts: Vec<(&str, Result<(), Stop>)>) -> Result<(), Stop> {
    let mut failed = Vec::new();
    let mut absent = None;
    for (name, result) in parts {
        match result {
            Ok(()) => {}
            Err(Stop::Failed(why)) => failed.push(format!("{name}: {why}")),
            Err(Stop::NotRun(absence)) => absent = Some(absence),
        }
    }
    match (failed.is_empty(), absent) {
        (false, _) => Err(Stop::Failed(failed.join("; "))),
        (true, Some(absence)) => Err(Stop::NotRun(absence)),
        (true, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent() -> Absence {
        Absence { what: "no lathe".into(), remedy: None }
    }

    #[test]
    fn a_failure_outweighs_an_absence() {
        let failed = Err(Stop::Failed("broken".into()));
        let parts = vec![("a", Ok(())), ("b", Err(Stop::NotRun(absent()))), ("c", failed)];
        assert_eq!(all(parts), Err(Stop::Failed("c: broken".into())));
        assert_eq!(all(vec![("b", Err(Stop::NotRun(absent())))]), Err(Stop::NotRun(absent())));
        assert_eq!(all(vec![("a", Ok(()))]), Ok(()));
    }
}
