//! Runs of the examples as jobs, and the pages that show them.

#![allow(dead_code, reason = "each suite uses some of these functions")]

use core::time::Duration;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// Time after which a program counts as hung: it is killed, and the test fails.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Returns the text of a file of the repository.
pub(crate) fn repository_file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the blocks of a page between a fence of three back-quotes and `language`, and the next
/// fence.
pub(crate) fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    page.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

/// Returns the path of an example that cargo built: in the folder `examples` beside the launcher.
pub(crate) fn example(name: &str) -> PathBuf {
    let launcher = Path::new(env!("CARGO_BIN_EXE_strait"));
    let example = launcher.with_file_name("examples").join(name);
    assert!(example.exists(), "{} is missing: run `cargo build --examples`", example.display());
    example
}

/// Runs `strait run` with `arguments` and returns its standard output.
pub(crate) fn run(arguments: &[&str], name: &str) -> String {
    let (status, text) = outcome(arguments, name);
    assert!(status.success(), "`strait run` of {name} ended with {status}:\n{text}");
    text
}

/// Runs `strait run` and returns its status and standard output. A killed launcher ends its ranks
/// as well, and a file as output needs no reader.
pub(crate) fn outcome(arguments: &[&str], name: &str) -> (ExitStatus, String) {
    let mut output = tempfile::tempfile().unwrap();
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_strait"))
        .arg("run")
        .args(arguments)
        .arg(example(name))
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = launcher.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > TIME_LIMIT {
            launcher.kill().and_then(|()| launcher.wait()).unwrap();
            panic!("`strait run` of {name} hung");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut text = String::new();
    output.seek(SeekFrom::Start(0)).unwrap();
    output.read_to_string(&mut text).unwrap();
    (status, text)
}

/// Returns the lines of `text` in a fixed order: those of several ranks come in any.
pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}
