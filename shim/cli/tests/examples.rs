//! Tests that each example runs as a job and prints what it promises.

#[path = "../../strait/examples/in_process.rs"]
#[allow(dead_code, reason = "its tests run here; `main` does not")]
mod in_process;
mod program;

use std::process::Command;

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
