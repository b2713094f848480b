//! Tests that the README's program is the example `hello`, and that it behaves as the README says.

use core::time::Duration;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Time after which a program counts as hung: it is killed, and the test fails.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn repository_file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the blocks of the README between a fence of three back-quotes and `language`, and the
/// next fence.
fn blocks<'a>(readme: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    readme
        .split(&opening)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect()
}

/// Returns the path of the example that cargo built: the folder `examples` beside the launcher.
fn hello() -> PathBuf {
    let launcher = Path::new(env!("CARGO_BIN_EXE_strait"));
    let hello = launcher.with_file_name("examples").join("hello");
    assert!(hello.exists(), "{} is missing: run `cargo build --examples`", hello.display());
    hello
}

/// Runs `strait run` with `arguments` and returns its standard output. A killed launcher ends its
/// ranks as well, and a file as output needs no reader.
fn run(arguments: &[&str]) -> String {
    let mut output = tempfile::tempfile().unwrap();
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_strait"))
        .arg("run")
        .args(arguments)
        .arg(hello())
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
            panic!("`strait run` hung");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "`strait run` ended with {status}");
    let mut text = String::new();
    output.seek(SeekFrom::Start(0)).unwrap();
    output.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_readme_shows_the_example_verbatim() {
    let (readme, example) =
        (repository_file("README.md"), repository_file("shim/strait/examples/hello.rs"));
    assert_eq!(blocks(&readme, "rust"), [example]);
}

#[test]
fn the_example_prints_the_output_of_the_readme() {
    let readme = repository_file("README.md");
    let shown = blocks(&readme, "console")
        .into_iter()
        .find_map(|block| block.split_once("/hello\n").map(|(_, output)| output))
        .expect("the README shows how to run the example");
    assert_eq!(run(&["-n", "2"]), shown);
}

#[test]
fn the_example_runs_with_more_ranks_than_processors() {
    let expected: String = (1..5).map(|rank| format!("hello from rank {rank} of 5\n")).collect();
    assert_eq!(run(&["-n", "5"]), expected);
}
