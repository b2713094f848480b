//! A run of the program with a watchdog, and its output.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use strait::topology;

/// Time after which a program counts as hung: it is killed, and the test fails.
const TIME_LIMIT: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// Options for few and short samples.
pub(crate) const LITTLE: [&str; 4] = ["--samples=3", "--iterations=5", "--seconds=60", "--json"];

const KEYS: [&str; 12] = [
    "bench",
    "variant",
    "transport",
    "ranks",
    "nodes",
    "bytes",
    "metric",
    "unit",
    "min",
    "p50",
    "p99",
    "samples",
];

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `strait` with these arguments.
pub(crate) fn strait(words: &[&str]) -> Ended {
    run(Command::new(env!("CARGO_BIN_EXE_strait")).args(words))
}

pub(crate) fn run(command: &mut Command) -> Ended {
    let (stdout, stderr) = (tempfile::NamedTempFile::new(), tempfile::NamedTempFile::new());
    let (stdout, stderr) = (stdout.unwrap(), stderr.unwrap());
    let mut process = command
        .stdin(Stdio::null())
        .stdout(stdout.reopen().unwrap())
        .stderr(stderr.reopen().unwrap())
        .spawn()
        .unwrap();
    let pidfd = pidfd_open(Pid::from_child(&process), PidfdFlags::empty()).unwrap();
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let ended = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&TIME_LIMIT))).unwrap() == 1;
    if !ended {
        process.kill().unwrap();
    }
    let code = process.wait().unwrap().code();
    let [stdout, stderr] =
        [stdout, stderr].map(|file| std::fs::read_to_string(file.path()).unwrap());
    assert!(ended, "{command:?} hung.\nstdout: {stdout}\nstderr: {stderr}");
    Ended { code, stdout, stderr }
}

impl Ended {
    #[track_caller]
    pub(crate) fn expect_success(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "stdout: {}", self.stdout);
        self.stdout
    }

    /// Returns the rows, and checks that each has exactly the keys.
    #[track_caller]
    pub(crate) fn rows(self) -> Vec<Value> {
        let stdout = self.expect_success();
        let rows = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let rows: Vec<Value> = rows.collect();
        for row in &rows {
            let found: BTreeSet<&str> =
                row.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(found, BTreeSet::from(KEYS), "{row}");
            let is_device = row["bench"] == "hca" || row["nodes"] != 1;
            assert_eq!(row["transport"] == "shm", !is_device, "{row}");
            let [min, p50] = ["min", "p50"].map(|key| row[key].as_f64().unwrap());
            assert!(0.0 <= min && min <= p50, "{row}");
        }
        rows
    }

    /// Checks that clap refused the command: code 2, and the error on standard error.
    #[track_caller]
    pub(crate) fn expect_usage_error(self, text: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{}", self.stderr);
        assert!(self.stderr.contains(text), "{}", self.stderr);
    }
}

/// Returns whether the rows contain this bench, metric and size.
pub(crate) fn has(rows: &[Value], bench: &str, metric: &str, bytes: u64) -> bool {
    rows.iter().any(|row| row["bench"] == bench && row["metric"] == metric && row["bytes"] == bytes)
}

/// Returns whether ranks of a pair have a processor each, so that there is a bare line to measure.
pub(crate) fn bare_lines() -> bool {
    topology::allowed_cpu_count() > 1
}
