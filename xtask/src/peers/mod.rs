//! `cargo xtask peers`: what programs do, over Strait and over each MPI that can be installed.
//!
//! The program is `benches/patterns`: one C source for all libraries (`docs/patterns.md`). Each
//! round runs it over every library in turn, since other load and the places of the processors
//! change within seconds. Each batch has the bare line before and after it, and counts only if the
//! two agree. With `--front` each MPI is compared with itself behind Strait's front.
//!
//! This is no rung: its figures depend on the machine. What the machine lacks is said by name, and
//! the rest is measured.

mod debian;
mod figures;
mod install;
mod library;
mod pairs;
mod record;
mod rows;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::shell::Shell;
use crate::stop::Stop;
use figures::Figures;
use library::Library;
use record::Record;

/// The groups of patterns for two ranks, in the order of the table.
const GROUPS: [&str; 9] = ["pp", "nb", "stream", "cliff", "bw", "touch", "rma", "ov", "depth"];

/// The group of patterns for any number of ranks.
const MANY: &str = "multi";

/// Size of the file in which the bare line lies, in bytes: a page.
const LINE_BYTES: usize = 4096;

/// The options of `cargo xtask peers`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Groups of patterns [default: all but cliff; with more than two ranks multi]
    #[arg(value_parser = groups())]
    groups: Vec<String>,
    /// Rows to measure, as a regular expression such as '^win64_'
    #[arg(long, value_name = "REGEX", default_value = "")]
    rows: String,
    /// Rounds: each runs every library once. 0: only show what the record has
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000))]
    rounds: u32,
    /// Batches of each row in a round
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    batches: u32,
    /// Ranks of the group multi
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1024))]
    ranks: u32,
    /// Measure only these peers
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = install::names())]
    only: Vec<String>,
    /// Compare each peer with itself behind Strait's front, `strait mpi`
    #[arg(long)]
    front: bool,
    /// Measure the Strait of this prefix, which `cargo xtask install` made, instead of this tree's
    #[arg(long, value_name = "PREFIX")]
    strait: Option<PathBuf>,
    /// Append all batches to this file, and compare all that are in it: one run on its own may find
    /// the processors near only, or far only
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
    /// Print the table in Markdown, near beside far
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

fn groups() -> Vec<&'static str> {
    GROUPS.into_iter().chain([MANY]).collect()
}

impl Options {
    /// Returns the groups to measure.
    fn groups(&self) -> Vec<&str> {
        match (self.groups.is_empty(), self.ranks > 2) {
            (false, _) => self.groups.iter().map(String::as_str).collect(),
            (true, true) => vec![MANY],
            (true, false) => groups().into_iter().filter(|group| *group != "cliff").collect(),
        }
    }
}

/// Runs `cargo xtask peers`.
pub(crate) fn run(shell: &Shell, options: &Options) -> Result<(), Stop> {
    let mut record = Record::open(options.record.as_deref())?;
    let mut figures = record.figures()?;
    let absent = match options.rounds {
        0 => Vec::new(),
        _ => measure(shell, options, &mut figures, &mut record)?,
    };
    match options {
        Options { front: true, json: true, .. } => print!("{}", pairs::json(&figures)),
        Options { front: true, markdown: true, .. } => print!("{}", pairs::markdown(&figures)),
        Options { json: true, .. } => print!("{}", figures.json()),
        Options { markdown: true, .. } => print!("{}", figures.markdown()),
        Options { front, .. } => {
            print!("{}", if *front { pairs::table(&figures) } else { figures.table() });
            for problem in absent {
                println!("not measured: {problem}");
            }
        }
    }
    Ok(())
}

/// Measures the groups. Returns a line for each peer that cannot be measured here.
fn measure(
    shell: &Shell,
    options: &Options,
    figures: &mut Figures,
    record: &mut Record,
) -> Result<Vec<String>, Stop> {
    let strait = install::strait(shell, options.strait.as_deref())?;
    let (peers, absent) = install::peers(shell, &options.only);
    let libraries: Vec<Library> = match options.front {
        true => install::with_fronts(peers, &strait.launcher),
        false => [strait].into_iter().chain(peers).collect(),
    };
    for problem in &absent {
        eprintln!("peers: {problem}");
    }
    let line = Line::new()?;
    for group in options.groups() {
        for round in 0..options.rounds {
            eprintln!("peers: {group}, round {} of {}", round + 1, options.rounds);
            // Each library is the first in some round, so that none always follows the same other.
            let first = round as usize % libraries.len();
            for library in libraries[first..].iter().chain(&libraries[..first]) {
                let asked = library::Asked {
                    group,
                    ranks: if group == MANY { options.ranks } else { 2 },
                    batches: options.batches,
                    line: &line.0,
                    rows: &options.rows,
                };
                match library.run(shell, &asked) {
                    Ok(said) => {
                        figures.add(library.name, &said)?;
                        record.append(library.name, &said)?;
                    }
                    Err(stop) => report(library.name, group, stop)?,
                }
            }
        }
    }
    Ok(absent)
}

/// Reports the failure of one run. A failure of Strait ends the command.
fn report(library: &str, group: &str, stop: Stop) -> Result<(), Stop> {
    match stop {
        Stop::Failed(why) if library != install::STRAIT => {
            // The command and its output are long, and `--verbose` shows the command.
            let line = why.lines().next().unwrap_or_default();
            let status = line.rsplit("` failed: ").next().unwrap_or(line);
            eprintln!("peers: {library} failed in {group}: {status}");
            Ok(())
        }
        stop => Err(stop),
    }
}

/// The file of the bare line, which lasts as long as this value.
struct Line(PathBuf);

impl Line {
    fn new() -> Result<Self, Stop> {
        let name = format!("strait-peers-{}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        fs::write(&path, [0; LINE_BYTES]).map_err(|error| Stop::io(&path, &error))?;
        Ok(Self(path))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
