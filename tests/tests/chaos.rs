//! The chaos driver finds faults that its ranks commit on purpose, and prints how to reproduce
//! them.

use std::process::{Command, Output};

fn chaos(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    command.args(arguments).output().expect("the driver runs")
}

/// Faults that are planted.
mod planted {
    use super::chaos;

    /// Asserts that the driver finds the fault, and that its report contains each of `expected`.
    #[track_caller]
    fn is_found(fault: &str, expected: &[&str]) {
        // A build without optimization copies long messages slowly. A slow job is not the fault.
        let limit = if fault == "hang" { "5" } else { "300" };
        // Without early deaths and slow devices most jobs reach the fault. The driver ends at the
        // first job that shows it. A fault that is a race shows in one of about fifteen jobs.
        let output = chaos(&[
            "--plant",
            fault,
            "--ranks",
            "3",
            "--jobs",
            "1000",
            "--limit",
            limit,
            "--without",
            "nodes",
            "--without",
            "early",
        ]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{fault} was not found: {said}");
        assert!(expected.iter().any(|words| said.contains(words)), "{fault}: {said}");
        for words in ["to repeat: cargo xtask chaos --job", "last began"] {
            assert!(said.contains(words), "{fault}: {said}");
        }
    }

    #[test]
    fn a_changed_byte_is_found() {
        is_found("flip", &["is another", "a false head", "was expected", "bytes instead of"]);
    }

    #[test]
    fn a_lost_message_is_found() {
        is_found("lose", &["was expected", "messages were sent"]);
    }

    #[test]
    fn a_message_that_comes_twice_is_found() {
        is_found("double", &["received twice", "was expected"]);
    }

    #[test]
    fn messages_in_the_wrong_order_are_found() {
        is_found("swap", &["was expected"]);
    }

    #[test]
    fn a_lost_accumulate_is_found() {
        is_found("add", &["not in"]);
    }

    #[test]
    fn a_lost_put_is_found() {
        is_found("put", &["is read back", "of rank"]);
    }

    #[test]
    fn a_lock_that_excludes_nothing_is_found() {
        is_found("lock", &["a pair", "not in"]);
    }

    #[test]
    fn a_death_that_is_none_is_found() {
        is_found("death", &["a death on purpose"]);
    }

    #[test]
    fn a_rank_that_waits_for_nothing_is_found() {
        is_found("hang", &["the job is stuck"]);
    }

    #[test]
    fn a_process_that_is_left_is_found() {
        is_found("child", &["was left behind"]);
    }

    #[test]
    fn a_descriptor_that_is_left_is_found() {
        is_found("descriptor", &["descriptors are left open"]);
    }
}

#[test]
fn an_option_that_is_none_is_refused() {
    let output = chaos(&["--frobnicate", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("usage: chaos"), "{said}");
}

/// Runs a few jobs without a fault. The ladder has a rung that runs more.
#[test]
fn jobs_with_deaths_end_well() {
    let output = chaos(&["--jobs", "6", "--ranks", "3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
