//! Reports of several hosts. An agent, such as ssh, runs `strait why --json` on each of them.

use core::fmt;
use core::time::Duration;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use clap::Args;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};

use super::merge::reports;

/// The options about other hosts.
#[derive(Args, Debug)]
pub(super) struct HostOptions {
    /// Judge the jobs of this user on these hosts
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', value_parser = parse_host)]
    #[arg(conflicts_with_all = ["pid", "dot", "merge"])]
    hosts: Vec<String>,
    /// Command that runs a program on a host: its words, then the host, then the program's words
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "hosts")]
    agent: String,
    /// Path of strait on the hosts [default: the path of this program]
    #[arg(long, value_name = "PATH", requires = "hosts")]
    program: Option<PathBuf>,
    /// Time after which a host without a report is given up, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "hosts")]
    timeout: u64,
}

/// A host that gave no report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SilentHost {
    pub(super) host: String,
    pub(super) reason: String,
}

impl fmt::Display for SilentHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {} gave no report: {}", self.host, self.reason)
    }
}

/// Refuses names that the agent would take for one of its options.
fn parse_host(word: &str) -> Result<String, &'static str> {
    match word.trim() {
        "" => Err("a host has no name"),
        host if host.starts_with('-') => Err("a host's name does not begin with a hyphen"),
        host => Ok(host.to_owned()),
    }
}

/// An agent that runs for a host.
struct Asked<'a> {
    host: &'a str,
    /// The agent's process, to end it.
    process: Option<OwnedFd>,
    /// The reports, or the reason for which there are none. `None` until the agent has ended.
    answer: Option<Result<Vec<Value>, String>>,
}

impl HostOptions {
    pub(super) const fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Runs `strait why --json` with `words` on all hosts at the same time. Returns the reports,
    /// and the hosts that gave none. A report takes `duration` on its host.
    pub(super) fn ask(
        &self,
        words: &[String],
        duration: Duration,
    ) -> io::Result<(Vec<Value>, Vec<SilentHost>)> {
        let program = self.program.clone().map_or_else(std::env::current_exe, Ok)?;
        let (answers, answered) = mpsc::channel();
        let mut asked = Vec::new();
        for (number, host) in self.hosts.iter().enumerate() {
            let agent = self.start(host, program.as_os_str(), words);
            asked.push(match agent.and_then(|agent| listen(number, agent, answers.clone())) {
                Ok(process) => Asked { host, process, answer: None },
                Err(error) => {
                    let reason = format!("{} cannot be started: {error}", self.agent);
                    Asked { host, process: None, answer: Some(Err(reason)) }
                }
            });
        }
        drop(answers);
        let limit = Duration::from_secs(self.timeout) + duration;
        let begin = Instant::now();
        // The channel closes when the last agent has ended.
        while let Ok((number, output)) =
            answered.recv_timeout(limit.saturating_sub(begin.elapsed()))
        {
            asked[number].answer = Some(answer(output));
        }
        Ok(settle(asked, limit))
    }

    fn start(&self, host: &str, program: &OsStr, words: &[String]) -> io::Result<Child> {
        let mut agent = self.agent.split_whitespace();
        let name = agent.next().ok_or_else(|| io::Error::other("the command is empty"))?;
        Command::new(name)
            .args(agent)
            .arg(host)
            .arg(program)
            .args(["why", "--json"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

/// Waits in a thread for the end of an agent. Returns its process, where the kernel can name it
/// safely.
fn listen(
    number: usize,
    agent: Child,
    answers: Sender<(usize, io::Result<Output>)>,
) -> io::Result<Option<OwnedFd>> {
    let process = pidfd_open(Pid::from_child(&agent), PidfdFlags::empty()).ok();
    let wait = move || {
        // After the limit there is no receiver any more.
        let _ = answers.send((number, agent.wait_with_output()));
    };
    thread::Builder::new().name("strait-agent".to_owned()).spawn(wait)?;
    Ok(process)
}

/// Returns the reports that an agent has printed.
fn answer(output: io::Result<Output>) -> Result<Vec<Value>, String> {
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        return Err(match last {
            Some(last) => format!("{last} ({})", output.status),
            None => format!("the agent ended with {}", output.status),
        });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let found = reports(&text).map_err(|reason| format!("its answer is no report: {reason}"))?;
    if found.is_empty() { Err("its answer is empty".to_owned()) } else { Ok(found) }
}

/// Returns the reports with the names of their hosts, and the hosts without reports. Ends agents
/// that still run.
fn settle(asked: Vec<Asked<'_>>, limit: Duration) -> (Vec<Value>, Vec<SilentHost>) {
    let (mut all, mut silent) = (Vec::new(), Vec::new());
    for Asked { host, process, answer } in asked {
        let late = || {
            // An agent that has ended meanwhile needs no signal.
            let _ = process.map(|process| pidfd_send_signal(process, Signal::TERM));
            Err(format!("no answer within {limit:.0?}"))
        };
        match answer.unwrap_or_else(late) {
            Ok(reports) => all.extend(reports.into_iter().map(|mut report| {
                report["host"] = json!(host);
                report
            })),
            Err(reason) => silent.push(SilentHost { host: host.to_owned(), reason }),
        }
    }
    (all, silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(hosts: &[&str], agent: &str, program: &str) -> HostOptions {
        HostOptions {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            agent: agent.to_owned(),
            program: Some(program.into()),
            timeout: 5,
        }
    }

    fn reasons(options: &HostOptions) -> Vec<String> {
        let (reports, silent) = options.ask(&[], Duration::ZERO).unwrap();
        assert_eq!(reports, [] as [Value; 0]);
        silent.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_host_that_cannot_be_asked_is_named_with_the_reason() {
        let missing = options(&["a"], "/no/agent", "strait");
        let said = reasons(&missing);
        assert!(
            said[0].starts_with("host a gave no report: /no/agent cannot be started"),
            "{said:?}"
        );
        let empty = reasons(&options(&["a"], " ", "strait"));
        assert!(empty[0].contains("the command is empty"), "{empty:?}");
        // The agent is the shell, the host a file that it cannot open.
        let refused = reasons(&options(&["/no/a", "/no/b"], "sh", "strait"));
        assert!(refused[0].contains("host /no/a") && refused[0].contains("exit status"));
        assert!(refused[1].contains("host /no/b"), "{refused:?}");
        let silent = reasons(&options(&["a"], "true", "strait"));
        assert_eq!(silent, ["host a gave no report: its answer is empty"]);
        let noise = reasons(&options(&["a"], "echo", "strait"));
        assert!(noise[0].contains("its answer is no report"), "{noise:?}");
    }

    #[test]
    fn a_host_that_does_not_answer_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("host").display().to_string();
        std::fs::write(&host, "exec sleep 600").unwrap();
        let options = HostOptions { timeout: 0, ..options(&[&host], "sh", "strait") };
        let begin = Instant::now();
        let (reports, silent) = options.ask(&[], Duration::from_millis(100)).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(300));
        assert_eq!(reports, [] as [Value; 0]);
        assert!(silent[0].reason.contains("no answer within 100ms"), "{silent:?}");
    }

    #[test]
    fn a_host_is_no_option_of_the_agent() {
        assert_eq!(parse_host(" node7 "), Ok("node7".to_owned()));
        assert!(parse_host("-oProxyCommand=true").is_err() && parse_host("").is_err());
    }
}
