//! Runs libFuzzer under the address sanitizer on all data that another process may have written.
//!
//! The targets are functions of the crate `strait-tests`, which also runs them on the corpus;
//! `fuzz/` makes programs of them. `target/fuzz/corpus` keeps the inputs that a run finds useful,
//! and the next run starts from them. An input that breaks something is reduced to a file in
//! `target/fuzz/found`. That file belongs in `fuzz/corpus` together with the fix.

use std::path::Path;

use crate::parallel;
use crate::sanitize::HOST;
use crate::setup::{self, Tool};
use crate::shell::{self, Shell};
use crate::stop::{self, Stop};

/// The programs of `fuzz/` for targets in the crate `strait-tests`.
const OF_TESTS: [&str; 8] =
    ["packets", "engines", "pmi", "greeting", "join", "locks", "records", "observers"];

/// The program of `fuzz/` for the target in the crate `strait-ffi`.
const OF_FFI: [&str; 1] = ["c_interface"];

/// Time for each target in the ladder, seconds.
pub(crate) const SECONDS: u32 = 15;

/// Flags of cargo-fuzz, which make a program report its branches to libFuzzer.
const FLAGS: &str = "-Zsanitizer=address --cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs `cargo xtask fuzz`.
pub(crate) fn run(shell: &Shell, seconds: u32) -> Result<(), Stop> {
    setup::need(shell, Tool::Nightly)?;
    setup::need(shell, Tool::Cpp)?;
    let programs = build(shell)?;
    let targets: Vec<&str> = OF_TESTS.into_iter().chain(OF_FFI).collect();
    let fuzzed = parallel::each(&targets, |&target| {
        let program = programs.iter().find(|(name, _)| name == target);
        let program = program.ok_or_else(|| Stop::Failed(format!("fuzz/ makes no {target}")));
        (target, program.and_then(|(_, program)| fuzz(shell, target, program, seconds)))
    });
    stop::all(fuzzed)
}

fn build(shell: &Shell) -> Result<Vec<(String, std::path::PathBuf)>, Stop> {
    let arguments = "run nightly cargo build --release --manifest-path fuzz/Cargo.toml --locked \
                     --quiet --message-format json --target";
    let messages = shell
        .step("rustup", arguments)
        .arg(HOST)
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", shell.target().join("fuzz"))
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
        .stdout()?;
    Ok(shell::artifacts(&messages))
}

fn fuzz(shell: &Shell, target: &str, program: &Path, seconds: u32) -> Result<(), Stop> {
    let (kept, found) = (folder(shell, "corpus", target)?, folder(shell, "found", target)?);
    // An input that takes longer than the limit (10 s) counts as an endless loop.
    let limits = "-timeout=10 -rss_limit_mb=4096 -max_len=4096 -verbosity=0 -print_final_stats=1";
    let output = shell
        .step(program, limits)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", found.display()))
        .arg(&kept)
        .arg(shell.root().join("fuzz/corpus").join(target))
        .output()
        .map_err(|stop| explain(stop, &found))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let inputs = executed(&said).unwrap_or(0);
    if inputs == 0 {
        return Err(Stop::Failed(format!("{target} ran on no input:\n{said}")));
    }
    eprintln!("fuzz: {target}: {inputs} inputs in {seconds} s, nothing found");
    Ok(())
}

fn explain(stop: Stop, found: &Path) -> Stop {
    match stop {
        Stop::Failed(why) => Stop::Failed(format!(
            "{why}\nthe input is in {}: run the program above on the file to see it again",
            found.display()
        )),
        absent => absent,
    }
}

/// Returns, and creates if need be, the folder of a target under `target/fuzz`.
fn folder(shell: &Shell, kind: &str, target: &str) -> Result<std::path::PathBuf, Stop> {
    let folder = shell.target().join("fuzz").join(kind).join(target);
    std::fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    Ok(folder)
}

/// Returns the number of inputs in libFuzzer's closing statistics.
fn executed(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_inputs_is_found() {
        let said = "Done 7 runs\nstat::number_of_executed_units: 1234\nstat::peak_rss_mb: 50\n";
        assert_eq!(executed(said), Some(1234));
        assert_eq!(executed("Done 7 runs"), None);
    }

    #[test]
    fn every_target_of_the_tests_is_a_program() {
        let manifest = Shell::new(false).read("fuzz/Cargo.toml").expect("a manifest");
        let library = Shell::new(false).read("tests/src/fuzz.rs").expect("the targets");
        for target in OF_FFI {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        }
        for target in OF_TESTS {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(library.contains(&format!("(\"{target}\", {target})")), "{target}");
        }
        assert!(library.contains(&format!("[(&str, Target); {}]", OF_TESTS.len())));
    }
}
