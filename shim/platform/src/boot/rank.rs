//! One rank as the launcher sees it: a process, its socket and its output.

use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    waitid,
};

use super::greet::Greeter;
use super::label::{LineSink, Output};
use super::launch::{LaunchError, os};
use super::outcome::RankExit;

/// A rank that was started.
#[derive(Debug)]
pub(super) struct RankProcess {
    number: u32,
    process: Child,
    /// Readable when the process has ended. `None` where the system refuses it: then the launcher
    /// polls the process from time to time.
    pidfd: Option<OwnedFd>,
    /// Whether the process leads a process group, which is then signalled as a whole.
    leads_group: bool,
    /// The end of the process, once it has been reaped.
    status: Option<ExitStatus>,
    /// The launcher's end of the boot socket, until the socket is closed.
    pub(super) greeter: Option<Greeter>,
    /// Standard output and standard error, where the launcher labels them and until they end.
    pub(super) outputs: [Option<Output>; 2],
}

impl RankProcess {
    /// Takes over the process that was started as rank `number`. On failure the process is ended.
    pub(super) fn new(
        mut process: Child,
        greeter: Greeter,
        number: u32,
        leads_group: bool,
    ) -> Result<Self, LaunchError> {
        let stdout = process.stdout.take().map(OwnedFd::from);
        let stderr = process.stderr.take().map(OwnedFd::from);
        let watch = || {
            let pidfd = match pidfd_open(Pid::from_child(&process), PidfdFlags::empty()) {
                Ok(pidfd) => Some(pidfd),
                // The seccomp profiles of older container engines do not know the call.
                Err(Errno::PERM | Errno::NOSYS | Errno::ACCESS) => None,
                Err(error) => return Err(error),
            };
            let stdout =
                stdout.map(|pipe| Output::new(pipe, number, LineSink::Stdout)).transpose()?;
            let stderr =
                stderr.map(|pipe| Output::new(pipe, number, LineSink::Stderr)).transpose()?;
            Ok((pidfd, [stdout, stderr]))
        };
        match watch() {
            Ok((pidfd, outputs)) => Ok(Self {
                number,
                process,
                pidfd,
                leads_group,
                status: None,
                greeter: Some(greeter),
                outputs,
            }),
            Err(error) => {
                let _ = process.kill().and_then(|()| process.wait());
                Err(os("watching a rank's process")(error))
            }
        }
    }

    /// Returns the pidfd, which is readable when the process has ended. Returns `None` where the
    /// caller has to poll [`RankProcess::has_ended`].
    pub(super) const fn pidfd(&self) -> Option<&OwnedFd> {
        self.pidfd.as_ref()
    }

    /// Returns whether the process has ended and can be reaped.
    pub(super) fn has_ended(&self) -> bool {
        let pid = WaitId::Pid(Pid::from_child(&self.process));
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // If the question fails, reaping the process reports the reason.
        waitid(pid, look).map_or(true, |status| status.is_some())
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn is_running(&self) -> bool {
        self.status.is_none()
    }

    /// Returns how the rank ended, once it has ended.
    pub(super) fn exit(&self) -> Option<RankExit> {
        self.status.map(|status| RankExit { rank: self.number, pid: self.pid(), status })
    }

    /// Sends `signal` to the process, and if it leads a group, to the processes that it started.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.is_running() {
            return;
        }
        let pid = Pid::from_child(&self.process);
        // No other process can have this number before the launcher reaps it. So at worst no
        // process receives the signal.
        let _ = match self.leads_group {
            true => kill_process_group(pid, signal),
            false => kill_process(pid, signal),
        };
    }

    /// Reaps the process if it has ended, and kills everything that it left running in its group.
    pub(super) fn reap(&mut self) -> Result<Option<RankExit>, LaunchError> {
        self.signal(Signal::KILL);
        let status = self.process.try_wait();
        self.status = status.map_err(|error| LaunchError::Reap { rank: self.number, error })?;
        if !self.is_running() {
            self.greeter = None;
            self.outputs.iter_mut().filter_map(Option::take).for_each(Output::finish);
        }
        Ok(self.exit())
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        if self.is_running() {
            self.signal(Signal::KILL);
            // A process that the launcher cannot reap is left to the init process.
            let _ = self.process.wait();
        }
    }
}
