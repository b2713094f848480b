//! `strait mpi`: runs a program of another MPI with its messages on Strait.

use core::error::Error;
use std::env;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::output::say;
use host::Host;

mod elf;
mod front;
mod host;

/// Run an MPI program, as it is, with its messages on Strait: strait mpi mpiexec -n 4 ./program
#[derive(Debug, Args)]
#[command(trailing_var_arg = true)]
pub(crate) struct Mpi {
    /// Say which MPI it is, and which communicators it keeps, and why.
    #[arg(long)]
    explain: bool,
    /// The MPI library, where the command does not tell it.
    #[arg(long)]
    library: Option<PathBuf>,
    /// The folder of Strait's libraries; by default that of this program, or lib beside it.
    #[arg(long)]
    fronts: Option<PathBuf>,
    /// The command: a launcher with its options, the program and its arguments.
    #[arg(required = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Mpi {
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        let words = &self.command;
        let programs = programs(words);
        let Some(program) = programs.first().copied() else {
            let text = "no word of the command names a program that can be run";
            return Err(text.into());
        };
        let host = match &self.library {
            Some(library) => Host::of_library(library)?,
            None => Host::of_command(words, program)?,
        };
        let front = prepare(&host, self.fronts.as_deref())?;
        let mut command = command(words, &programs, &preload(&front));
        if self.explain {
            command.env(strait::env::MPI_VERBOSE.name, "1");
            say(&format!("strait: {} through {}", host.path.display(), front.display()))?;
        }
        Err(format!("cannot run {}: {}", words[0], command.exec()).into())
    }
}

/// Makes the front for a host, from our library in `folder` or near this program.
fn prepare(host: &Host, folder: Option<&std::path::Path>) -> Result<PathBuf, Box<dyn Error>> {
    let program = env::current_exe()?;
    let here = program.parent().unwrap_or(&program);
    let places = match folder {
        Some(folder) => vec![folder.to_path_buf()],
        None => vec![here.to_path_buf(), here.join("../lib")],
    };
    let name = host.interface.library();
    let found = places.iter().map(|place| place.join(name)).find(|file| file.is_file());
    let library = found.ok_or_else(|| {
        format!("{name} is not in {}: install it with `cargo xtask install`", places[0].display())
    })?;
    front::prepare(host, &library)
}

/// Returns the front of a program, or of an MPI library, for `strait mpi-env --front`.
pub(crate) fn front_of(file: &str) -> Result<PathBuf, Box<dyn Error>> {
    let words = [file.to_owned()];
    let host = Host::of_library(file.as_ref()).or_else(|_| Host::of_command(&words, 0))?;
    prepare(&host, None)
}

/// Returns the value of `LD_PRELOAD` with the front before what the user has there.
fn preload(front: &std::path::Path) -> String {
    let front = front.display().to_string();
    match env::var("LD_PRELOAD") {
        Ok(others) if !others.is_empty() => format!("{front}:{others}"),
        _ => front,
    }
}

/// Options of launchers with values that may be names of programs too, as in `-launcher ssh`: the
/// name of each without dashes, and the number of its values.
const OPTIONS: [(&str, usize); 22] = [
    // Hydra: MPICH and Intel MPI.
    ("launcher", 1),
    ("launcher-exec", 1),
    ("bootstrap", 1),
    ("bootstrap-exec", 1),
    ("rmk", 1),
    ("env", 2),
    ("genv", 2),
    ("iface", 1),
    // Open MPI.
    ("mca", 2),
    ("gmca", 2),
    ("omca", 2),
    ("prtemca", 2),
    ("pmixmca", 2),
    ("launch-agent", 1),
    ("x", 1),
    // Both. On some file systems every file can be run.
    ("f", 1),
    ("hosts", 1),
    ("host", 1),
    ("hostfile", 1),
    ("machinefile", 1),
    ("wdir", 1),
    ("output-filename", 1),
];

/// Returns the places of the programs in a command: the first word that can be run behind the
/// launcher and its options, and behind each `:` of the launcher's. A command without a launcher is
/// a program.
fn programs(words: &[String]) -> Vec<usize> {
    let mut starts = vec![1];
    starts.extend(words.iter().enumerate().filter(|(_, word)| *word == ":").map(|(at, _)| at + 1));
    let found: Vec<_> = starts.iter().filter_map(|start| program(words, *start)).collect();
    if found.is_empty() && host::find(&words[0]).is_some() { vec![0] } else { found }
}

/// Returns the place of the first program from `place` on.
fn program(words: &[String], mut place: usize) -> Option<usize> {
    loop {
        let word = words.get(place)?;
        if word.starts_with('-') {
            let name = word.trim_start_matches('-');
            let values = OPTIONS.iter().find(|(option, _)| *option == name);
            place += values.map_or(0, |(_, values)| *values);
        } else if host::find(word).is_some() {
            return Some(place);
        }
        place += 1;
    }
}

/// Returns the command with the front before each program, but not before the launcher.
fn command(words: &[String], programs: &[usize], preload: &str) -> Command {
    let mut command = Command::new(&words[0]);
    if programs == [0] {
        command.args(&words[1..]).env("LD_PRELOAD", preload);
        return command;
    }
    for (place, word) in words.iter().enumerate().skip(1) {
        if programs.contains(&place) {
            command.arg("env").arg(format!("LD_PRELOAD={preload}"));
        }
        command.arg(word);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_program_follows_the_launchers_options() {
        let all = words("env -n 4 --bind-to none sh -c true : -n 2 cat x");
        assert_eq!(programs(&all), [5, 11]);
        let made = command(&all, &[5, 11], "/f.so");
        let made: Vec<_> = made.get_args().map(|word| word.to_string_lossy()).collect();
        let expected =
            "-n 4 --bind-to none env LD_PRELOAD=/f.so sh -c true : -n 2 env LD_PRELOAD=/f.so cat x";
        assert_eq!(made.join(" "), expected);
    }

    #[test]
    fn programs_that_options_name_are_not_those_of_the_job() {
        let all = words("env -launcher sh -launcher-exec cat --genv A true -f /bin/sh -n 4 sh");
        assert_eq!(programs(&all), [all.len() - 1]);
        // An option that takes no value is followed by the program.
        assert_eq!(programs(&words("env -prepend-rank cat x")), [2]);
        assert_eq!(programs(&words("env -env A")), [0]);
    }

    #[test]
    fn a_program_without_a_launcher_is_preloaded_itself() {
        let all = words("sh no-such-program");
        assert_eq!(programs(&all), [0]);
        let made = command(&all, &[0], "/f.so");
        let variables: Vec<_> = made.get_envs().collect();
        assert_eq!(variables, [("LD_PRELOAD".as_ref(), Some("/f.so".as_ref()))]);
    }

    #[test]
    fn an_unknown_library_is_refused_by_name() {
        let error = Host::of_library("/proc/self/exe".as_ref()).unwrap_err().to_string();
        assert!(error.contains("is no library"), "{error}");
    }
}
