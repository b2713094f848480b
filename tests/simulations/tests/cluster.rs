//! Engines of several nodes over the simulated fabric, with hundreds of seeds for each design.

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};

use strait_core::engine::Rtrs;
use strait_core::ring::Design;
use strait_core::rma::RecordName;
use strait_tests::cluster::{Cluster, Plan, hear_of_a_death, overtake, play, play_windows, write};
use strait_tests::traffic;

/// Runs `scenario` for each design and many seeds, or for the single seed in `STRAIT_TEST_SEED`.
fn for_each_seed(seeds: u64, scenario: impl Fn(u64, Design)) {
    let one = std::env::var("STRAIT_TEST_SEED").ok().map(|seed| seed.parse().expect("a number"));
    for design in Design::ALL {
        for seed in one.map_or_else(|| traffic::simulated_seeds(seeds), |seed| seed..seed + 1) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario(seed, design))) {
                eprintln!("{} fails; play it again with STRAIT_TEST_SEED={seed}", design.name());
                resume_unwind(panic);
            }
        }
    }
}

#[test]
fn every_message_meets_its_receive() {
    for_each_seed(120, |seed, design| {
        play(Cluster::drawn(seed, 3, design), &Plan::drawn(seed, 3, 40), seed, None);
    });
}

#[test]
fn two_ranks_have_much_to_say() {
    for_each_seed(10, |seed, design| {
        play(Cluster::drawn(seed, 2, design), &Plan::drawn(seed, 2, 200), seed, None);
    });
}

#[test]
fn a_rank_dies_and_the_others_go_on() {
    for_each_seed(80, |seed, design| {
        let victim = (seed as u32 % 4, seed as u32 * 37 % 1500);
        play(Cluster::drawn(seed, 4, design), &Plan::drawn(seed, 4, 40), seed, Some(victim));
    });
}

/// Adds the RTR counts of a play to `sums`.
fn sum_up(sums: &Cell<[u64; 4]>, rtrs: Rtrs) {
    let [sent, used, missed, retracted] = sums.get();
    let Rtrs { sent: one, used: two, missed: three, retracted: four, .. } = rtrs;
    sums.set([sent + one, used + two, missed + three, retracted + four]);
}

#[test]
fn receivers_come_first() {
    let sums = Cell::default();
    for_each_seed(40, |seed, design| {
        let cluster = Cluster::drawn(seed, 2, design);
        sum_up(&sums, play(cluster, &Plan::of_large(seed, 2, 40), seed, None));
    });
    let all = std::env::var_os("STRAIT_TEST_SEED").is_none() && !cfg!(strait_sanitized);
    assert!(!all || sums.get().iter().all(|sum| *sum > 30), "{sums:?}");
}

#[test]
fn a_rank_dies_while_receivers_come_first() {
    for_each_seed(40, |seed, design| {
        let victim = (seed as u32 % 3, seed as u32 * 37 % 1500);
        play(Cluster::drawn(seed, 3, design), &Plan::of_large(seed, 3, 40), seed, Some(victim));
    });
}

#[test]
fn short_messages_do_not_wait_for_a_large_one() {
    Design::ALL.into_iter().for_each(overtake);
}

#[test]
fn ranks_without_a_launcher_that_tells_of_deaths_tell_each_other() {
    Design::ALL.into_iter().for_each(hear_of_a_death);
}

#[test]
fn a_message_is_written_while_its_receiver_computes() {
    Design::ALL.into_iter().for_each(write);
}

#[test]
fn no_two_messages_of_windows_have_one_name() {
    let mirrored = Cell::new(0);
    for_each_seed(10, |seed, design| {
        let ranks = 2 + seed as u32 % 3;
        let cluster = Cluster::drawn(seed, ranks, design);
        mirrored.set(mirrored.get() + play_windows(cluster, seed, 20, RecordName::context));
    });
    assert!(mirrored.get() > 0, "no two numbers coincided");
}

/// A number alone is not a unique name: an origin's data and the answer to the other origin have
/// the same number.
#[test]
#[should_panic(expected = "shares its name")]
fn a_name_that_is_a_number_alone_is_found_out() {
    let number_alone = |name| match name {
        RecordName::Records(number) => number.word() << 1,
        RecordName::Data(number) => number.word() << 1 | 1,
        RecordName::Answer(number) => number.word() << 1 | 1,
    };
    for_each_seed(40, |seed, design| {
        play_windows(Cluster::drawn(seed, 2, design), seed, 30, number_alone);
    });
}
