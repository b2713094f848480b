//! The batches of earlier runs, in a file: each line is the name of a library and a row of it.

use core::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::figures::Figures;
use super::install;
use crate::stop::Stop;

/// The file, if one is kept.
pub(super) struct Record(Option<(PathBuf, File)>);

impl Record {
    /// Opens the file at `path`, which is created if need be, with its folder.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Stop> {
        let open = |path: &Path| {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(|error| Stop::io(folder, &error))?;
            }
            let file = OpenOptions::new().read(true).append(true).create(true).open(path);
            file.map(|file| (path.to_path_buf(), file)).map_err(|error| Stop::io(path, &error))
        };
        path.map(open).transpose().map(Self)
    }

    /// Returns the batches in the file.
    pub(super) fn figures(&mut self) -> Result<Figures, Stop> {
        let mut text = String::new();
        if let Self(Some((path, file))) = self {
            file.read_to_string(&mut text).map_err(|error| Stop::io(path, &error))?;
        }
        parse(&text)
    }

    /// Adds the output of one run.
    pub(super) fn append(&mut self, library: &str, said: &str) -> Result<(), Stop> {
        let Self(Some((path, file))) = self else { return Ok(()) };
        file.write_all(lines(library, said).as_bytes()).map_err(|error| Stop::io(path, &error))
    }
}

/// Returns the lines of one run.
fn lines(library: &str, said: &str) -> String {
    let mut text = String::new();
    for row in said.lines().filter(|line| line.starts_with("row ")) {
        let _ = writeln!(text, "{library} {row}");
    }
    text
}

/// Parses the lines of any number of runs.
fn parse(text: &str) -> Result<Figures, Stop> {
    let mut figures = Figures::default();
    for line in text.lines() {
        let known = install::known();
        let name = line.split_once(' ').and_then(|(library, row)| {
            known.iter().find(|name| **name == library).map(|name| (*name, row))
        });
        let unknown = || Stop::Failed(format!("the record has an unknown line: {line}"));
        let (library, row) = name.ok_or_else(unknown)?;
        figures.add(library, row)?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_batches_count_again() {
        let said = "a warning\nrow pp_8 8 ns 30,45,45 31,45,45 32,45,45\n";
        let text = lines("strait", said) + &lines("intel", said);
        let table = parse(&text).unwrap().table();
        assert!(table.contains("31 ns") && table.contains("intel"), "{table}");
        assert!(parse("lam row pp_8 8 ns 1,2,3\n").is_err());
    }
}
