//! Starts the ranks of a job.

use core::fmt;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal, getppid, getrlimit, setrlimit};
use strait_core::layout::SegmentConfig;

use super::greet::{Greeter, socket_pair};
use super::job::Job;
use super::pmi;
use super::rank::RankProcess;
use crate::nodes::Nodes;
use crate::segment::{self, SegmentError, SegmentMap};
use crate::{env, topology};

/// A job to start on this host: one program, as many times as there are ranks.
///
/// ```no_run
/// use strait_platform::boot::Launch;
///
/// let mut job = Launch { label: true, ..Launch::new(4, "./solver") }.spawn()?;
/// let outcome = job.wait()?;
/// println!("{outcome}");
/// # Ok::<(), strait_platform::boot::LaunchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    /// Number of ranks, and the shape of the segment that they share.
    pub config: SegmentConfig,
    /// Number of virtual nodes. The ranks are divided into consecutive blocks ([`Nodes::blocks`]),
    /// each with a segment of its own, as if the blocks were on different machines.
    pub nodes: u32,
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Binds rank `i` to the `i`-th processor that the launcher may use, and starts again at the
    /// first when they run out.
    pub bind: bool,
    /// Puts `[rank] ` in front of every line of output.
    pub label: bool,
    /// Lets the other ranks run on when a rank has failed.
    pub keep_going: bool,
    /// Environment variables that the ranks get besides the launcher's.
    pub env: Vec<(OsString, OsString)>,
}

impl Launch {
    /// Describes `ranks` ranks of `program`, with the defaults for everything else.
    pub fn new(ranks: u32, program: impl Into<OsString>) -> Self {
        Self {
            config: SegmentConfig::new(ranks),
            nodes: 1,
            program: program.into(),
            args: Vec::new(),
            bind: false,
            label: false,
            keep_going: false,
            env: Vec::new(),
        }
    }

    /// Makes the segments and starts the ranks. They wait in their boot exchange until
    /// [`Job::wait`] is called.
    ///
    /// Rank 0 reads the launcher's standard input; the others read nothing. Each rank leads a
    /// process group of its own, which ends with the rank. Only rank 0 stays in the launcher's
    /// group, when that input is a terminal.
    ///
    /// The kernel kills the ranks when the *thread* that called this function ends, so that thread
    /// must outlive the job. A launcher that lives also ends all processes that the ranks started.
    /// A killed launcher cannot.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]. Ranks that were already started are ended.
    pub fn spawn(&self) -> Result<Job, LaunchError> {
        let cpus = if self.bind {
            topology::allowed_cpus().map_err(LaunchError::Cpus)?
        } else {
            Vec::new()
        };
        let file_limit = raise_file_limit(self.descriptors())?;
        let (ranks, nodes) = (self.config.ranks, self.nodes);
        let nodes = Nodes::blocks(ranks, nodes).ok_or(LaunchError::Nodes { ranks, nodes })?;
        let nonce = segment::nonce().map_err(LaunchError::Segment)?;
        let maps = (0..nodes.count())
            .map(|node| SegmentMap::create_on(self.config, nonce, &nodes, node))
            .collect::<Result<_, _>>()
            .map_err(LaunchError::Segment)?;
        let mut job = Job::new(maps, nodes, nonce, self.keep_going);
        for rank in 0..ranks {
            let (ours, theirs) = socket_pair().map_err(os("making a socket"))?;
            let (pmi_ours, pmi_theirs) =
                pmi::server::socket_pair().map_err(os("making a socket"))?;
            let setup = ChildSetup {
                sockets: [theirs.as_raw_fd(), pmi_theirs.as_raw_fd()],
                launcher: rustix::process::getpid(),
                cpu: cpus.get(rank as usize % cpus.len().max(1)).copied(),
                file_limit,
            };
            let (mut command, own_group) = self.command(rank, &theirs, &pmi_theirs);
            // SAFETY: `apply` only makes system calls on copies of integers, which is allowed
            // between `fork` and `exec`. It allocates nothing.
            unsafe { command.pre_exec(move || setup.apply()) };
            let process = command.spawn().map_err(|error| LaunchError::Program {
                program: self.program.clone(),
                rank,
                error,
            })?;
            job.add(
                RankProcess::new(process, Greeter::new(ours, rank), rank, own_group)?,
                pmi_ours,
            );
        }
        Ok(job)
    }

    /// Returns the command of one rank, and whether the rank leads a process group.
    fn command(&self, rank: u32, socket: &OwnedFd, pmi: &OwnedFd) -> (Command, bool) {
        // Virtual nodes share this machine's processors.
        let cpus = (topology::allowed_cpu_count() / self.nodes as usize).max(1);
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env(env::RANK.name, rank.to_string())
            .env(env::SIZE.name, self.config.ranks.to_string())
            .env(env::CPUS.name, cpus.to_string())
            .env(env::BOOT_FD.name, socket.as_raw_fd().to_string())
            .env(env::PMI_RANK.name, rank.to_string())
            .env(env::PMI_SIZE.name, self.config.ranks.to_string())
            .env(env::PMI_FD.name, pmi.as_raw_fd().to_string());
        if self.label {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        if rank != 0 {
            command.stdin(Stdio::null());
        }
        // A terminal stops a process that reads from it and is not in the foreground group.
        let own_group = rank != 0 || !io::stdin().is_terminal();
        if own_group {
            command.process_group(0);
        }
        (command, own_group)
    }

    /// Returns the number of descriptors that the launcher has open when all ranks run. Each rank
    /// needs two sockets, a pidfd and two pipes, and each node a segment. The launcher needs a few
    /// for itself and for a start in progress.
    fn descriptors(&self) -> u64 {
        let each = if self.label { 5 } else { 3 };
        u64::from(self.config.ranks) * each + u64::from(self.nodes) + 64
    }
}

/// The setup that a rank's process makes for itself between `fork` and `exec`.
#[derive(Clone, Copy)]
struct ChildSetup {
    sockets: [RawFd; 2],
    launcher: Pid,
    cpu: Option<usize>,
    file_limit: Option<Rlimit>,
}

impl ChildSetup {
    fn apply(self) -> io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the launcher died before the line above, its death sends no signal any more.
        if getppid() != Some(self.launcher) {
            return Err(Errno::SRCH.into());
        }
        for socket in self.sockets {
            // SAFETY: the descriptor is this process's copy of the socket, which stays open beyond
            // this borrow, also after `exec`.
            let socket = unsafe { BorrowedFd::borrow_raw(socket) };
            rustix::io::fcntl_setfd(socket, FdFlags::empty())?;
        }
        if let Some(limit) = self.file_limit {
            setrlimit(Resource::Nofile, limit)?;
        }
        self.cpu.map_or(Ok(()), topology::pin_to)
    }
}

/// Raises the descriptor limit to hold `need` descriptors. Returns the limit to restore in the
/// ranks if it was changed.
fn raise_file_limit(need: u64) -> Result<Option<Rlimit>, LaunchError> {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_none_or(|soft| soft >= need) {
        return Ok(None);
    }
    if let Some(hard) = before.maximum.filter(|&hard| hard < need) {
        return Err(LaunchError::Descriptors { need, limit: hard });
    }
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    setrlimit(Resource::Nofile, raised).map_err(os("raising the limit of open descriptors"))?;
    Ok(Some(before))
}

/// Adds the name of the step to an error.
pub(super) fn os(step: &'static str) -> impl FnOnce(Errno) -> LaunchError {
    move |error| LaunchError::Os { step, error }
}

/// The reason why a job could not be started, or could not be followed to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum LaunchError {
    /// The program does not start.
    Program {
        /// The program.
        program: OsString,
        /// The rank that it was to be.
        rank: u32,
        /// The kernel's error.
        error: io::Error,
    },
    /// The segment cannot be made.
    Segment(SegmentError),
    /// A node would have no rank.
    Nodes {
        /// Ranks requested.
        ranks: u32,
        /// Nodes requested.
        nodes: u32,
    },
    /// The allowed processors could not be read.
    Cpus(io::Error),
    /// The launcher may not open as many descriptors as the job needs.
    Descriptors {
        /// Descriptors needed.
        need: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The kernel did not report the end of a rank's process.
    Reap {
        /// The rank.
        rank: u32,
        /// The kernel's error.
        error: io::Error,
    },
    /// The kernel refused a step.
    Os {
        /// The step.
        step: &'static str,
        /// The kernel's error.
        error: Errno,
    },
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { program, rank, error } => {
                write!(f, "cannot start {program:?} as rank {rank}: {error}")?;
                match error.kind() {
                    io::ErrorKind::NotFound => {
                        f.write_str("; give a path to the program, or a name that is in PATH")
                    }
                    io::ErrorKind::PermissionDenied => f.write_str("; is the file executable?"),
                    io::ErrorKind::WouldBlock => {
                        f.write_str("; the limit of processes is reached (ulimit -u)")
                    }
                    _ => Ok(()),
                }
            }
            Self::Segment(error) => error.fmt(f),
            Self::Nodes { ranks: 0, .. } => f.write_str("a job needs at least 1 rank"),
            Self::Nodes { ranks, nodes } => {
                write!(
                    f,
                    "{ranks} ranks cannot fill {nodes} nodes: each node needs at least 1 rank"
                )
            }
            Self::Cpus(error) => write!(f, "cannot read which processors may be used: {error}"),
            Self::Descriptors { need, limit } => write!(
                f,
                "the job needs {need} open descriptors, the hard limit is {limit}: raise it \
                 (ulimit -Hn), or start fewer ranks"
            ),
            Self::Reap { rank, error } => {
                write!(f, "cannot read how rank {rank} ended: {error}; is SIGCHLD ignored?")
            }
            Self::Os { step, error } => write!(f, "the launcher failed at {step}: {error}"),
        }
    }
}

impl core::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Program { error, .. } | Self::Cpus(error) | Self::Reap { error, .. } => {
                Some(error)
            }
            Self::Segment(error) => Some(error),
            Self::Os { error, .. } => Some(error),
            Self::Descriptors { .. } | Self::Nodes { .. } => None,
        }
    }
}
