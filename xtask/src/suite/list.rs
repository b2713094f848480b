//! The lists of MPICH's tests: a line for each run of a program.

use core::fmt;
use std::path::{Path, PathBuf};

/// One run of a program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Test {
    folder: PathBuf,
    program: String,
    ranks: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Test {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn program(&self) -> &str {
        &self.program
    }

    pub(super) fn ranks(&self) -> &str {
        &self.ranks
    }

    pub(super) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    pub(super) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} with {} ranks", self.folder.display(), self.program, self.ranks)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// Returns the lines of a list without comments and empty lines.
pub(super) fn lines(list: &str) -> impl Iterator<Item = &str> {
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty())
}

/// Parses a line. Returns `None` for the name of a folder, and for a test that is left out: it is
/// meant to fail, its end is judged otherwise, or it sets variables of MPICH.
pub(super) fn parse(folder: &Path, line: &str) -> Option<Test> {
    let mut words = line.split_whitespace();
    let (program, ranks) = (words.next()?.to_owned(), words.next()?.to_owned());
    ranks.parse::<u32>().ok()?;
    let mut test = Test {
        folder: folder.to_owned(),
        program,
        ranks,
        arguments: Vec::new(),
        environment: Vec::new(),
    };
    for word in words {
        match word.split_once('=')? {
            ("arg", argument) => test.arguments.push(argument.to_owned()),
            ("env", variable) if variable.starts_with("MPIR_") => return None,
            ("env", variable) => {
                let (name, value) = variable.split_once('=')?;
                test.environment.push((name.to_owned(), value.to_owned()));
            }
            ("xfail" | "resultTest", _) => return None,
            _ => {}
        }
    }
    Some(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_runs_and_folders() {
        let list = "# comment\nbcast 4 arg=-n arg=2 env=DEBUG=1 timeLimit=600 # slow\n\nsub\n\
                    cancel 2 xfail=ticket1\nabort 1 resultTest=TestStatus\n\
                    tuned 2 env=MPIR_CVAR_X=1\n";
        let found: Vec<_> = lines(list).map(|line| parse(Path::new("coll"), line)).collect();
        assert_eq!(found.len(), 5);
        let test = found[0].clone().expect("a test");
        assert_eq!(test.to_string(), "coll/bcast with 4 ranks -n 2");
        assert_eq!(test.environment(), [("DEBUG".to_owned(), "1".to_owned())]);
        assert!(found[1..].iter().all(Option::is_none));
    }
}
