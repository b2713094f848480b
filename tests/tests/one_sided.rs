//! Random programs of one-sided operations against the window model: processes and threads, parts of either kind.

use core::time::Duration;

use strait::boot::Config;
use strait_tests::{Ranks, one_sided, threads, traffic};

fn processes(name: &'static str, ranks: u32, private: bool, (first, count): (u64, u64)) {
    let limit = Duration::from_secs(60) * traffic::times();
    Ranks::new(ranks, name).within(limit).run(|world| {
        for seed in traffic::seeds(first, count) {
            one_sided::run(&world, private, seed, 12, 100_000);
        }
        world.finalize().unwrap();
    });
}

#[test]
fn two_processes_in_the_segment() {
    processes("two_processes_in_the_segment", 2, false, (110_000, 12));
}

#[test]
fn four_processes_in_the_segment() {
    processes("four_processes_in_the_segment", 4, false, (120_000, 8));
}

#[test]
fn two_processes_by_the_kernel() {
    processes("two_processes_by_the_kernel", 2, true, (130_000, 12));
}

#[test]
fn four_processes_by_the_kernel() {
    processes("four_processes_by_the_kernel", 4, true, (140_000, 8));
}

#[test]
fn threads_of_one_process() {
    threads(Config::new(3), |world| {
        for seed in traffic::seeds(150_000, 10) {
            one_sided::run(&world, seed % 2 == 0, seed, 8, 20_000);
        }
    });
}
