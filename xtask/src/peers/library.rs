//! A library to measure: the program that is compiled for it, and how its launcher runs that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::shell::{Shell, Step};
use crate::stop::Stop;

/// The limit for one run, in seconds. The slowest group takes about ten.
const LIMIT: u32 = 120;

/// A library and its launcher.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) name: &'static str,
    /// The launcher, with its options. The number of ranks and the program follow.
    pub(super) launcher: PathBuf,
    pub(super) options: &'static str,
    pub(super) program: PathBuf,
    pub(super) environment: Vec<(&'static str, OsString)>,
    /// A library that is loaded first where each rank has a processor of its own.
    pub(super) preload: Option<PathBuf>,
    /// Our program `strait`, which puts the front before this MPI.
    pub(super) front: Option<PathBuf>,
}

/// What one run measures.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) group: &'a str,
    pub(super) ranks: u32,
    pub(super) batches: u32,
    /// The file of the bare line.
    pub(super) line: &'a Path,
    /// A regular expression that selects rows. An empty one selects all.
    pub(super) rows: &'a str,
}

impl Library {
    /// Returns this MPI with the front of `strait` before it, under the name `name`. It gets no
    /// other library: a preloaded one favours the MPI alone.
    pub(super) fn with_front(&self, name: &'static str, strait: &Path) -> Self {
        let Self { launcher, options, program, environment, .. } = self;
        Self {
            name,
            launcher: launcher.clone(),
            options,
            program: program.clone(),
            environment: environment.clone(),
            preload: None,
            front: Some(strait.to_path_buf()),
        }
    }

    /// Runs the program once and returns its output.
    pub(super) fn run(&self, shell: &Shell, asked: &Asked<'_>) -> Result<String, Stop> {
        let step = shell.step("timeout", &format!("-k 5 {LIMIT}"));
        let step = match &self.front {
            Some(strait) => {
                let cache = shell.target().join("peers/cache");
                step.env("XDG_CACHE_HOME", cache).arg(strait).arg("mpi")
            }
            None => step,
        };
        let step = step.arg(&self.launcher);
        let ranks = asked.ranks.to_string();
        let options = self.options.split_whitespace().chain(["-n", &ranks]);
        let step = options.fold(step, Step::arg);
        // The launcher must not load it: it has no processor of its own.
        let preload = self.preload.as_ref().filter(|_| asked.ranks == 2);
        let step = match preload {
            Some(library) => step.arg("env").arg(format!("LD_PRELOAD={}", library.display())),
            None => step,
        };
        let step = step.arg(&self.program).arg(asked.group).arg(asked.batches.to_string());
        let step = step.arg(asked.line).arg(asked.rows);
        let step = self.environment.iter().fold(step, |step, (name, value)| step.env(name, value));
        let output = step.output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
