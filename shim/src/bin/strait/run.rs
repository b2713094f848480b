//! `strait run`: starts a job and follows it to its end.

use core::error::Error;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use clap::Args;
use rustix::pipe::{PipeFlags, pipe_with};
use strait::boot::{Config, Launch, Signal};

/// Start a program as the ranks of a job
///
/// Ends when all ranks have ended, with the exit code of the rank that failed first, or 128 and the number of the
/// signal that killed it.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Act as this many nodes: ranks in consecutive blocks, each block with shared memory of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Bind each rank to a processor of its own, as far as there are enough
    #[arg(long)]
    bind: bool,
    /// Put the rank in front of every line of output
    #[arg(long)]
    label: bool,
    /// Let the other ranks run on when one has failed
    #[arg(long)]
    keep_going: bool,
    /// Cells that each rank owns [default: 64]
    #[arg(long, value_name = "N")]
    cells: Option<u32>,
    /// Payload of one cell, a multiple of 64 bytes [default: 16384]
    #[arg(long, value_name = "BYTES")]
    cell_bytes: Option<u32>,
    /// Lines of 64 bytes in a fastbox [default: 53]
    #[arg(long, value_name = "N")]
    fastbox_lines: Option<u32>,
    /// Most memory that each rank can allocate in the segment, a multiple of 4096 bytes [default: 4294967296]
    #[arg(long, value_name = "BYTES")]
    heap_bytes: Option<u64>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_names = ["PROGRAM", "ARGS"])]
    program: Vec<OsString>,
}

impl Run {
    /// Runs the job. A failed rank is told of on standard error, in one line.
    pub(crate) fn execute(self) -> Result<ExitCode, Box<dyn Error>> {
        let signals = catch_signals()?;
        let mut job = self.into_launch().spawn()?;
        job.forward_signals(signals);
        let outcome = job.wait()?;
        if !outcome.success() {
            eprintln!("strait: {outcome}");
        }
        Ok(ExitCode::from(outcome.code()))
    }

    fn into_launch(self) -> Launch {
        let defaults = Config::new(self.ranks);
        let config = Config {
            cells_per_rank: self.cells.unwrap_or(defaults.cells_per_rank),
            cell_payload: self.cell_bytes.unwrap_or(defaults.cell_payload),
            fastbox_lines: self.fastbox_lines.unwrap_or(defaults.fastbox_lines),
            heap_bytes: self.heap_bytes.unwrap_or(defaults.heap_bytes),
            ..defaults
        };
        let mut words = self.program.into_iter();
        // The command line has at least one word.
        let program = words.next().unwrap_or_default();
        Launch {
            config,
            nodes: self.nodes,
            args: words.collect(),
            bind: self.bind,
            label: self.label,
            keep_going: self.keep_going,
            ..Launch::new(self.ranks, program)
        }
    }
}

/// Catches the signals by which people end programs. Each arrives as a byte, its number, on the descriptor returned.
///
/// One that is ignored stays so: that is how `nohup` and a shell's background jobs work.
fn catch_signals() -> Result<OwnedFd, Box<dyn Error>> {
    let (numbers, sink) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let ignored = ignored_signals();
    for signal in [Signal::HUP, Signal::INT, Signal::TERM].map(Signal::as_raw) {
        if ignored >> (signal - 1) & 1 == 1 {
            continue;
        }
        let sink = sink.try_clone()?;
        let number = [u8::try_from(signal)?];
        // SAFETY: the action is one system call on a descriptor that lives as long as it: async-signal-safe. A full
        // pipe holds thousands of signals nobody has read yet; one more changes nothing.
        unsafe {
            signal_hook::low_level::register(signal, move || {
                let _ = rustix::io::write(&sink, &number);
            })?;
        }
    }
    Ok(numbers)
}

/// The set of signals that this process ignores, bit `n - 1` for signal `n`; empty where the system does not say.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
