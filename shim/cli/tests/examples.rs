//! Tests that each example runs as a job and prints what it promises.

#[path = "../../strait/examples/in_process.rs"]
#[allow(dead_code, reason = "its tests run here; `main` does not")]
mod in_process;
mod program;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use program::{example, run, sorted};

#[test]
fn a_token_goes_around_the_ring() {
    let expected = "the token went through 5 ranks; the sum of their numbers is 10\n";
    assert_eq!(run(&["-n", "5"], "ring"), expected);
}

#[test]
fn the_halo_exchange_keeps_the_sum() {
    let expected = "after 50 steps on 3 ranks, the sum is still 1000.000\n";
    assert_eq!(run(&["-n", "3"], "halo"), expected);
    assert_eq!(run(&["-n", "3", "--nodes", "3"], "halo"), expected);
}

#[test]
fn workers_of_any_number_find_the_same() {
    let expected = "871 takes 178 steps, the most of 1..1000\n";
    assert_eq!(run(&["-n", "2"], "master_worker"), expected);
    assert_eq!(run(&["-n", "4"], "master_worker"), expected);
}

#[test]
fn no_ticket_of_the_counter_is_lost() {
    let expected = "300 tickets; each is in the list once: true\n";
    assert_eq!(run(&["-n", "3"], "counter"), expected);
    assert_eq!(run(&["-n", "3", "--nodes", "3"], "counter"), expected);
}

#[test]
fn both_sides_compute_while_a_message_moves() {
    let expected = [
        "rank 0 sent 4194304 values and computed 1.6449",
        "rank 1 computed 1.6449; all values arrived: true",
    ];
    assert_eq!(sorted(&run(&["-n", "2"], "overlap")), expected);
}

#[test]
fn memory_is_shared_by_message_and_by_window() {
    let expected =
        ["3 ranks read the numbers of their neighbours", "rank 1 received 1048576 sevens"];
    assert_eq!(sorted(&run(&["-n", "3"], "shared_memory")), expected);
}

#[test]
fn the_example_with_tests_is_a_program_too() {
    assert_eq!(run(&["-n", "3"], "in_process"), "the mean of the 3 ranks is 1\n");
}

#[test]
fn the_core_is_embedded_without_std() {
    let output = Command::new(example("embed")).output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "rank 1 received: no allocator, no system call\n");
}

/// Runs `strait tune --profile` into `directory` with `options`, for a job of two ranks.
fn tune(directory: &Path, options: &[&str], job: &[&str], program: &str) -> Output {
    let strait = env!("CARGO_BIN_EXE_strait");
    let mut command = Command::new(strait);
    command.args(["tune", "--profile"]).arg(directory).args(options);
    command.args([strait, "run", "-n", "2"]).args(job).arg(program);
    command.env_remove("STRAIT_RENDEZVOUS_PROFILE").stdin(Stdio::null()).output().unwrap()
}

/// Returns what a program printed, without its errors.
fn printed(output: &Output) -> &str {
    core::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn a_run_by_the_profile_of_an_earlier_one_asks_for_every_message() {
    let (program, place) = (example("posted_first"), tempfile::tempdir().unwrap());
    let directory = place.path().join("profile");
    for nodes in ["1", "2"] {
        let job = ["--nodes", nodes];
        // The second run replaces the profile of the first.
        for _ in 0..2 {
            let output = tune(&directory, &[], &job, program.to_str().unwrap());
            assert!(output.status.success(), "{output:?}");
            // A receiver without a profile does not ask for the first message.
            let text = printed(&output);
            assert!(text.contains("9 of 10 messages were asked for\n"), "{text}");
            assert!(text.contains("1 of 1 envelopes gain; 9 of 9 RTRs used"), "{text}");
            let setting = text.lines().last().unwrap().strip_prefix("export ").unwrap();
            let text = run(&["-n", "2", "-x", setting, "--nodes", nodes], "posted_first");
            assert_eq!(text, "10 of 10 messages were asked for\n");
        }
    }
}

#[test]
fn a_profile_without_requests_and_a_run_that_fails_give_no_setting() {
    let place = tempfile::tempdir().unwrap();
    let hello = example("hello");
    let output = tune(place.path(), &["--json"], &[], hello.to_str().unwrap());
    assert!(output.status.success(), "{output:?}");
    let row = "{\"tune\":\"rendezvous_profile\",\"variable\":null,\"choice\":null}\n";
    assert_eq!(printed(&output), row);
    // The output of the program itself is not JSON.
    assert!(!output.stderr.is_empty());
    let output = tune(place.path(), &["--json"], &["--label"], "false");
    assert_eq!((output.status.code(), printed(&output)), (Some(1), ""));
    assert!(!place.path().join("rank.0").exists());
    let output = tune(place.path(), &[], &[], "true");
    let cause = String::from_utf8_lossy(&output.stderr);
    // No rank of this job belongs to Strait.
    assert!(!output.status.success() && cause.contains("cannot read the rendezvous profile"));
}
