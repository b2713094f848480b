//! Runs other programs from the repository root, and shows their output when they fail.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::setup::Tool;
use crate::stop::{Absence, Stop};

/// The directory in which commands run, and how much is printed about them.
pub(crate) struct Shell {
    root: PathBuf,
    verbose: bool,
    /// Tools that could not be installed. Each run tries only once.
    absent: Mutex<BTreeMap<Tool, Absence>>,
}

impl Shell {
    /// Creates a shell in the root of the repository in which `cargo xtask` was called.
    pub(crate) fn new(verbose: bool) -> Self {
        // Cargo sets this variable for the programs that it runs. Copies of the repository may
        // share a target directory, so the compiled-in path may be wrong.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
        let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let manifest = Path::new(&manifest);
        let root = manifest.parent().unwrap_or(manifest).to_path_buf();
        Self { root, verbose, absent: Mutex::default() }
    }

    /// Adds tools that are known to be missing.
    pub(crate) fn knowing(self, absent: BTreeMap<Tool, Absence>) -> Self {
        self.absent().extend(absent);
        self
    }

    /// Returns whether every command is printed.
    pub(crate) const fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Returns the root of the repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the tools that are missing and could not be installed.
    pub(crate) fn absent(&self) -> MutexGuard<'_, BTreeMap<Tool, Absence>> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns cargo's target directory.
    pub(crate) fn target(&self) -> PathBuf {
        // A relative path is relative to the root, as for cargo itself.
        self.root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
    }

    /// Returns a file of the repository as text.
    pub(crate) fn read(&self, path: &str) -> Result<String, Stop> {
        let path = self.root.join(path);
        std::fs::read_to_string(&path).map_err(|error| Stop::io(&path, &error))
    }

    /// Returns a step that runs `program` with `arguments`, which are separated by spaces.
    pub(crate) fn step(&self, program: impl AsRef<OsStr>, arguments: &str) -> Step<'_> {
        let mut command = Command::new(program);
        command.current_dir(&self.root).args(arguments.split_whitespace());
        Step { shell: self, command }
    }

    /// Returns a step that runs `cargo` with `arguments`, which are separated by spaces.
    pub(crate) fn cargo(&self, arguments: &str) -> Step<'_> {
        self.step("cargo", arguments)
    }

    /// Returns whether this command succeeds. Prints nothing.
    pub(crate) fn answers(&self, program: &str, arguments: &str) -> bool {
        let mut step = self.step(program, arguments);
        let quiet = step.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }
}

/// One command.
pub(crate) struct Step<'a> {
    shell: &'a Shell,
    command: Command,
}

impl Step<'_> {
    /// Adds one argument, unchanged.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets a variable, unless the caller's environment has set it.
    pub(crate) fn env_default(self, name: &str, value: &str) -> Self {
        let value = std::env::var_os(name).unwrap_or_else(|| OsString::from(value));
        self.env(name, value)
    }

    /// Runs the command. Its output goes to the output of this program.
    pub(crate) fn run(mut self) -> Result<(), Stop> {
        self.announce();
        let status = self.command.status().map_err(|error| self.unstartable(&error))?;
        if status.success() {
            return Ok(());
        }
        Err(Stop::Failed(format!("`{}` failed: {status}", self.line())))
    }

    /// Runs the command and returns its standard output. Its standard error goes to that of this
    /// program.
    pub(crate) fn stdout(mut self) -> Result<String, Stop> {
        self.command.stderr(Stdio::inherit());
        let output = self.output()?;
        String::from_utf8(output.stdout)
            .map_err(|error| Stop::Failed(format!("the output is not UTF-8: {error}")))
    }

    /// Runs the command and captures its output. An error contains the output.
    pub(crate) fn output(mut self) -> Result<Output, Stop> {
        self.announce();
        self.command.stdin(Stdio::null());
        let output = self.command.output().map_err(|error| self.unstartable(&error))?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim_end();
        let colon = if said.is_empty() { "" } else { "\n" };
        Err(Stop::Failed(format!("`{}` failed: {}{colon}{said}", self.line(), output.status)))
    }

    /// Starts the command; all its output goes to `log`.
    pub(crate) fn spawn_into(mut self, log: File) -> io::Result<Child> {
        self.announce();
        self.command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
    }

    fn announce(&self) {
        if self.shell.verbose {
            eprintln!("$ {}", self.line());
        }
    }

    fn unstartable(&self, error: &io::Error) -> Stop {
        Stop::Failed(format!("`{}` did not start: {error}", self.line()))
    }

    /// Returns the command as a user would type it.
    fn line(&self) -> String {
        let mut line = String::new();
        for (name, value) in self.command.get_envs() {
            let value = value.unwrap_or_default().to_string_lossy();
            let _ = write!(line, "{}={} ", name.to_string_lossy(), quoted(&value));
        }
        line += &quoted(&self.command.get_program().to_string_lossy());
        for argument in self.command.get_args() {
            line.push(' ');
            line += &quoted(&argument.to_string_lossy());
        }
        line
    }
}

/// Returns `word` quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+:,@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the path of each file that `cargo … --message-format json` reports, with the name of its
/// target.
pub(crate) fn artifacts(messages: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let Some(name) = message["target"]["name"].as_str() else { continue };
        let files = match message["executable"].as_str() {
            Some(executable) => vec![executable],
            None => {
                let files = message["filenames"].as_array();
                files.into_iter().flatten().filter_map(|file| file.as_str()).collect()
            }
        };
        found.extend(files.into_iter().map(|file| (name.to_owned(), PathBuf::from(file))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let shell = Shell::new(false);
        let step = shell.cargo("test -p core").env("RUSTFLAGS", "--cfg strait_loom").arg("it's");
        assert_eq!(step.line(), r"RUSTFLAGS='--cfg strait_loom' cargo test -p core 'it'\''s'");
    }

    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let shell = Shell::new(false);
        let step = shell.step("sh", "-c").arg("echo broken >&2; exit 3");
        let Err(Stop::Failed(why)) = step.output() else { panic!("it passed") };
        assert!(why.contains("sh -c") && why.contains("broken") && why.contains('3'), "{why}");
        assert!(shell.step("sh", "-c false").run().is_err());
    }

    #[test]
    fn artifacts_are_taken_from_cargo_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"queue"},"#,
            r#""filenames":["/t/queue"],"executable":"/t/deps/queue-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"core"},"#,
            r#""filenames":["/t/core.rlib","/t/core.rmeta"],"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let found = artifacts(messages);
        let expected =
            [("queue", "/t/deps/queue-1"), ("core", "/t/core.rlib"), ("core", "/t/core.rmeta")];
        assert_eq!(found, expected.map(|(name, path)| (name.to_owned(), PathBuf::from(path))));
    }
}
