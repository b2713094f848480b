//! Why a command did not pass.

use core::fmt;
use std::io;
use std::path::Path;

/// The end of a command that did not pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Stop {
    /// It ran, and something is wrong.
    Failed(String),
    /// It could not run on this machine.
    NotRun(Absence),
}

/// What this machine lacks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Absence {
    /// What is missing, and what came of the attempt to install it.
    pub(crate) what: String,
    /// What a person can do about it; `None` where nothing can be done (no network, another architecture).
    pub(crate) remedy: Option<String>,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.remedy {
            Some(remedy) => write!(f, "{}; {remedy}", self.what),
            None => write!(f, "{}; nothing can be done about it here", self.what),
        }
    }
}

impl Stop {
    /// A failure that names the file that could not be read or written.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("{}: {error}", path.display()))
    }
}

/// `Ok` when every part passed, otherwise one failure that names those that did not.
///
/// A part that could not run comes after the failures: a failure is the worse news.
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
