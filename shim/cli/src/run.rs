//! `strait run`: starts a job and follows it to its end.

use core::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use clap::Args;
use clap::error::ErrorKind;
use rustix::pipe::{PipeFlags, pipe_with};
use strait::boot::{Launch, SegmentConfig, Signal};

use crate::output::complain;
use crate::stall::StallWatch;

/// Start a program as the ranks of a job
///
/// Ends when all ranks have ended, with the exit code of the rank that failed first, or 128 and the
/// number of the signal that killed it.
#[derive(Args, Debug)]
pub(crate) struct RunCommand {
    /// Number of ranks; `-np N` is the same
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Number of virtual nodes on this machine: consecutive blocks of ranks, each with its own
    /// shared memory
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Bind each rank to a processor of its own, as far as there are enough
    #[arg(long)]
    bind: bool,
    /// Print the rank in front of every line of output
    #[arg(long)]
    label: bool,
    /// Set this environment variable for the ranks; without a value they get the launcher's, as
    /// they get all others
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Let the other ranks continue when one has failed
    #[arg(long)]
    keep_going: bool,
    /// Print what strait why finds when no rank has moved for this long, and go on
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    stall: Option<u64>,
    /// End the job when it is found to be stuck
    #[arg(long, requires = "stall")]
    stall_end: bool,
    /// Number of cells that each rank owns [default: 64]
    #[arg(long, value_name = "N")]
    cells: Option<u32>,
    /// Payload of one cell, a multiple of 64 bytes [default: 16384]
    #[arg(long, value_name = "BYTES")]
    cell_bytes: Option<u32>,
    /// Number of lines of 64 bytes in a fastbox [default: 1013, 245 or fewer in jobs of more than
    /// 16 ranks]
    #[arg(long, value_name = "N")]
    fastbox_lines: Option<u32>,
    /// Maximum memory that each rank can allocate in the segment, a multiple of 4096 bytes
    /// [default: 4294967296]
    #[arg(long, value_name = "BYTES")]
    heap_bytes: Option<u64>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_names = ["PROGRAM", "ARGS"])]
    program: Vec<OsString>,
}

impl RunCommand {
    /// Runs the job. Reports a failed rank on standard error, in one line.
    pub(crate) fn execute(self) -> Result<ExitCode, Box<dyn Error>> {
        if let Some(option) = self.program.first().filter(|word| is_option(word)) {
            let option = option.display();
            return Err(format!("strait run has no option {option}; {HOSTS}").into());
        }
        for unknown in strait::env::unknown() {
            complain(&unknown);
        }
        let signals = catch_signals()?;
        let watch = self.stall.map(|seconds| StallWatch::new(seconds, self.stall_end));
        let mut job = self.into_launch().spawn()?;
        job.forward_signals(signals);
        // The thread ends with the process.
        watch.into_iter().try_for_each(StallWatch::start)?;
        let outcome = job.wait()?;
        if !outcome.success() {
            complain(&outcome);
        }
        Ok(ExitCode::from(outcome.code()))
    }

    fn into_launch(self) -> Launch {
        let defaults = SegmentConfig::new(self.ranks);
        let config = SegmentConfig {
            cells_per_rank: self.cells.unwrap_or(defaults.cells_per_rank),
            cell_payload: self.cell_bytes.unwrap_or(defaults.cell_payload),
            fastbox_lines: self.fastbox_lines.unwrap_or(defaults.fastbox_lines),
            heap_bytes: self.heap_bytes.unwrap_or(defaults.heap_bytes),
            ..defaults
        };
        let mut words = self.program.into_iter();
        // The command line has at least one argument.
        let program = words.next().unwrap_or_default();
        Launch {
            config,
            nodes: self.nodes,
            args: words.collect(),
            bind: self.bind,
            label: self.label,
            env: self.env.iter().filter_map(|text| assignment(text)).collect(),
            keep_going: self.keep_going,
            ..Launch::new(self.ranks, program)
        }
    }
}

/// Returns the name and the value of `NAME=VALUE`. The value is `None` if there is none.
fn assignment(text: &OsStr) -> Option<(OsString, OsString)> {
    let text = text.as_bytes();
    let at = text.iter().position(|byte| *byte == b'=')?;
    let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
    Some((part(&text[..at]), part(&text[at + 1..])))
}

/// Rewrites `-np`, which other launchers have, to `-n` among the options of `strait run`.
pub(crate) fn respell(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_none_or(|command| command != "run") {
        return words;
    }
    let options = RunCommand::augment_args(clap::Command::new("run"));
    let takes_value = |word: &OsStr| {
        let name = word.to_string_lossy();
        options.get_arguments().any(|option| {
            let long = option.get_long().is_some_and(|long| name == format!("--{long}"));
            let short = option.get_short().is_some_and(|short| name == format!("-{short}"));
            (long || short) && option.get_action().takes_values()
        })
    };
    let mut at = 2;
    while let Some(word) = words.get_mut(at).filter(|word| is_option(word)) {
        if word == "-np" {
            *word = "-n".into();
        }
        at += if takes_value(word) { 2 } else { 1 };
    }
    words
}

fn is_option(word: &OsStr) -> bool {
    word != "--" && word.as_bytes().starts_with(b"-")
}

/// The hint for options of other launchers.
const HOSTS: &str = "it starts ranks on this host alone, as many as -n says, and knows no hosts, \
                     slots or mappings: see strait run --help; docs/launching.md has launchers for \
                     several hosts";

/// Returns a hint for a command line that `strait run` refuses and other launchers may accept.
pub(crate) fn hint(words: &[OsString], refused: ErrorKind) -> Option<&'static str> {
    if words.get(1).is_none_or(|command| command != "run") {
        return None;
    }
    match refused {
        ErrorKind::MissingRequiredArgument if words.iter().skip(2).any(|word| word == "-n") => {
            Some("options stand before the program: strait run -n N PROGRAM")
        }
        ErrorKind::UnknownArgument => Some(HOSTS),
        _ => None,
    }
}

/// Catches the signals by which users end programs. Each arrives as a byte, its number, on the
/// returned descriptor.
///
/// An ignored signal stays ignored: `nohup` and a shell's background jobs depend on that.
fn catch_signals() -> Result<OwnedFd, Box<dyn Error>> {
    let (numbers, sink) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let ignored = ignored_signals();
    for signal in [Signal::HUP, Signal::INT, Signal::TERM].map(Signal::as_raw) {
        if ignored >> (signal - 1) & 1 == 1 {
            continue;
        }
        let sink = sink.try_clone()?;
        let number = [u8::try_from(signal)?];
        // SAFETY: the action is one system call on a descriptor that lives as long as the action,
        // so it is async-signal-safe. A full pipe holds thousands of unread signals; one more
        // changes nothing.
        unsafe {
            signal_hook::low_level::register(signal, move || {
                let _ = rustix::io::write(&sink, &number);
            })?;
        }
    }
    Ok(numbers)
}

/// Returns the set of signals that this process ignores, bit `n - 1` for signal `n`. It is empty
/// where the system does not report them.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        run: RunCommand,
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn options_of_other_launchers_are_taken_and_those_of_the_program_left() {
        let words = respell(words("strait run --nodes 2 -x A=1 -x B -np 4 program -np 7"));
        let run = Line::parse_from(&words[1..]).run;
        assert_eq!((run.ranks, run.nodes), (4, 2));
        let launch = run.into_launch();
        assert_eq!(launch.env, [("A".into(), "1".into())]);
        assert_eq!(launch.args, ["-np", "7"]);
    }

    #[test]
    fn a_line_that_other_launchers_take_gets_a_hint() {
        let missing = ErrorKind::MissingRequiredArgument;
        let hint = hint(&words("strait run program -n 4"), missing);
        assert!(hint.is_some_and(|hint| hint.contains("before the program")));
        let refused = Line::parse_from(words("run -n 2 --hostfile hosts program")).run.execute();
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("--hostfile") && text.contains("launching.md"), "{text}");
    }
}
