//! `strait completions`: the words that a shell offers when the user presses the tab key.

use core::error::Error;
use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

use crate::output::say;

/// Print the completions of this program for a shell
///
/// For bash, in ~/.bashrc: source <(strait completions bash). The other shells read a file:
/// `_strait` in a directory of zsh's $fpath, or ~/.config/fish/completions/strait.fish.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: KnownShell,
}

/// The shells that are tested.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    /// Prints the completions of `program`.
    pub(crate) fn execute(&self, mut program: Command) -> Result<ExitCode, Box<dyn Error>> {
        let shell = match self.shell {
            KnownShell::Bash => Shell::Bash,
            KnownShell::Zsh => Shell::Zsh,
            KnownShell::Fish => Shell::Fish,
        };
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut program, "strait", &mut text);
        say(str::from_utf8(&text)?.trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}
