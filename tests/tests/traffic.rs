//! Random traffic against the matching model: processes and threads, roomy and tiny segments.

use strait::boot::Config;
use strait_tests::{Ranks, shape, threads, traffic};

/// Plays one seed after the other between the ranks of one job.
fn processes(name: &'static str, config: Config, seeds: core::ops::Range<u64>, longest: usize) {
    Ranks::new(config.ranks, name).shaped(config).run(|world| {
        seeds.for_each(|seed| traffic::run(&world, seed, 6, longest));
        world.finalize().unwrap();
    });
}

#[test]
fn two_processes() {
    processes("two_processes", Config::new(2), 100..105, 1 << 20);
}

#[test]
fn four_processes() {
    processes("four_processes", Config::new(4), 200..202, 1 << 20);
}

#[test]
fn eight_processes() {
    processes("eight_processes", Config::new(8), 300..301, 1 << 20);
}

#[test]
fn two_processes_with_next_to_no_room() {
    processes("two_processes_with_next_to_no_room", shape::tiny(2, 1), 400..405, 20_000);
}

#[test]
fn four_processes_with_next_to_no_room() {
    processes("four_processes_with_next_to_no_room", shape::tiny(4, 2), 500..502, 20_000);
}

#[test]
fn eight_processes_with_next_to_no_room() {
    processes("eight_processes_with_next_to_no_room", shape::tiny(8, 1), 600..601, 10_000);
}

#[test]
fn processes_without_fastboxes() {
    let seeds = 700..702;
    Ranks::new(3, "processes_without_fastboxes").with("STRAIT_FASTBOX_MAX", 0).run(|world| {
        seeds.for_each(|seed| traffic::run(&world, seed, 6, 100_000));
        world.finalize().unwrap();
    });
}

#[test]
fn threads_with_room() {
    threads(Config::new(4), |world| {
        (800..803).for_each(|seed| traffic::run(&world, seed, 6, 100_000));
        world.finalize().unwrap();
    });
}

#[test]
fn threads_with_next_to_no_room() {
    for lines in [1, 2] {
        threads(shape::tiny(3, lines), |world| {
            (900..902).for_each(|seed| traffic::run(&world, seed, 6, 20_000));
            world.finalize().unwrap();
        });
    }
}

#[test]
fn a_lone_rank_talks_to_itself() {
    threads(Config::new(1), |world| {
        (1000..1005).for_each(|seed| traffic::run(&world, seed, 6, 100_000));
        world.finalize().unwrap();
    });
}
