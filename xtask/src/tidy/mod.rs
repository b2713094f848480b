//! Checks the rules of this repository that no other tool checks. Each finding gives the place, the
//! problem, and the remedy.

mod direction;
mod facade;
mod fences;
mod order;
mod papers;
mod prose;
mod report;
mod size;
mod words;

use core::fmt;
use std::path::Path;

use crate::shell::Shell;
use crate::source::Source;
use crate::stop::Stop;

/// The files that the rules check.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    /// Every Rust file.
    pub(crate) sources: Vec<Source>,
    /// Every `Cargo.toml` with its text.
    manifests: Vec<(String, String)>,
    /// `docs/memory-model.md`.
    memory_model: String,
    /// `docs/papers.md`.
    papers: String,
}

/// One breach of a rule.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Finding {
    file: String,
    line: usize,
    problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.problem)
    }
}

type Rule = fn(&Repository) -> Vec<Finding>;

const RULES: [Rule; 9] = [
    size::findings,
    words::findings,
    prose::findings,
    order::findings,
    fences::findings,
    facade::findings,
    papers::findings,
    direction::findings,
    report::circles,
];

/// Runs `cargo xtask tidy --report`.
pub(crate) fn report(shell: &Shell, places: bool) -> Result<(), Stop> {
    report::print(&Repository::read(shell)?, places);
    Ok(())
}

/// Runs `cargo xtask tidy`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    let repository = Repository::read(shell)?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&repository)).collect();
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err(Stop::Failed("1 finding".into())),
        count => Err(Stop::Failed(format!("{count} findings"))),
    }
}

impl Repository {
    /// Reads the repository that `shell` runs in.
    pub(crate) fn read(shell: &Shell) -> Result<Self, Stop> {
        let mut repository = Self {
            memory_model: shell.read("docs/memory-model.md").unwrap_or_default(),
            papers: shell.read("docs/papers.md").unwrap_or_default(),
            ..Self::default()
        };
        repository.walk(shell, "")?;
        Ok(repository)
    }

    /// Returns the files of the core, the only crate with named orderings.
    pub(crate) fn core(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.path.starts_with("core/src/"))
    }

    fn walk(&mut self, shell: &Shell, folder: &str) -> Result<(), Stop> {
        let path = shell.root().join(folder);
        let entries = std::fs::read_dir(&path).map_err(|error| Stop::io(&path, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| Stop::io(&path, &error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type().map_err(|error| Stop::io(Path::new(&path), &error))?;
            if kind.is_dir() {
                // Skips build products and hidden folders.
                if !name.starts_with('.') && !name.starts_with("target") {
                    self.walk(shell, &path)?;
                }
            } else if name.ends_with(".rs") {
                self.sources.push(Source { text: shell.read(&path)?, path });
            } else if name == "Cargo.toml" {
                self.manifests.push((path.clone(), shell.read(&path)?));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod sample {
    //! Small repositories in memory, for the tests of the rules.

    use super::*;

    /// Returns a repository of one Rust file.
    pub(super) fn file(path: &str, text: &str) -> Repository {
        let source = Source { path: path.into(), text: text.into() };
        Repository { sources: vec![source], ..Repository::default() }
    }

    /// Returns the lines of the findings, and checks that each problem contains `part`.
    pub(super) fn lines(findings: &[Finding], part: &str) -> Vec<usize> {
        for finding in findings {
            assert!(finding.problem.contains(part), "{finding} does not speak of {part}");
        }
        findings.iter().map(|finding| finding.line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_leads_an_editor_to_its_line() {
        let finding = Finding { file: "a/b.rs".into(), line: 7, problem: "too long".into() };
        assert_eq!(finding.to_string(), "a/b.rs:7: too long");
    }

    #[test]
    fn the_whole_repository_is_read() {
        let repository = Repository::read(&Shell::new(false)).unwrap();
        let has = |path: &str| repository.sources.iter().any(|source| source.path == path);
        assert!(has("xtask/src/tidy/mod.rs") && has("core/src/sync/order.rs"));
        assert!(repository.manifests.iter().any(|(path, _)| path == "core/Cargo.toml"));
        assert!(repository.core().all(|source| source.path.starts_with("core/src/")));
    }
}
