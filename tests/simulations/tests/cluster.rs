//! Engines of several nodes over the simulated fabric, with hundreds of seeds for each design.

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};

use strait_core::engine::{RemoteTransfers, Rtrs};
use strait_core::lmt::RemoteTransfer;
use strait_core::ring::Design;
use strait_core::rma::RecordName;
use strait_tests::cluster::{
    Cluster, Plan, Windows, come_late, come_scattered, drop_receives, hear_of_a_death, overtake,
    play, play_windows, refuse_lies, refuse_nonsense, time, write,
};
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
    let sums = Cell::new([0; 3]);
    for_each_seed(120, |seed, design| {
        let plan = Plan::drawn(seed, 3, 40);
        let (_, RemoteTransfers { read, written, scattered }) =
            play(Cluster::drawn(seed, 3, design), &plan, seed, None);
        let [reads, writes, all] = sums.get();
        sums.set([reads + read, writes + written, all + scattered]);
    });
    let all = std::env::var_os("STRAIT_TEST_SEED").is_none() && !cfg!(strait_sanitized);
    let ways = sums.get();
    assert!(
        !all || ways.iter().zip([1000, 500, 200]).all(|(some, least)| *some > least),
        "{ways:?}"
    );
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
        sum_up(&sums, play(cluster, &Plan::of_large(seed, 2, 40), seed, None).0);
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
fn receives_that_come_late_have_their_messages_read_or_written() {
    Design::ALL.into_iter().for_each(come_late);
}

/// Sends windows of announced messages in virtual time, on the cards of `[RdmaChannel04]`, and
/// prints what a message takes. Returns the times with the ways `auto`, `read` and `write`, and how
/// the messages came with `auto`.
fn compare(windows: Windows) -> ([u64; 3], RemoteTransfers) {
    let ways = RemoteTransfer::ALL.map(|way| time(Design::ZeroCopy, way, windows));
    let Windows { count, messages, .. } = windows;
    let times = ways.map(|(time, _)| time / (count * messages) as u64);
    let counts = ways[0].1;
    println!("{windows:?}: auto, read, write: {times:?} ns; {counts:?}");
    (times, counts)
}

#[test]
fn announced_messages_are_written_where_that_is_cheaper() {
    for (length, messages) in [(20 << 10, 1), (64 << 10, 4), (64 << 10, 16), (512 << 10, 2)] {
        let windows = Windows { count: 80, messages, length, compute_ns: 0 };
        let ([auto, read, write], came) = compare(windows);
        assert!(write < read && auto < read, "{windows:?}");
        assert!(came.written > 3 * came.read, "{windows:?}: {came:?}");
    }
}

#[test]
fn announced_messages_are_read_from_a_sender_that_computes() {
    for (length, messages) in [(20 << 10, 1), (64 << 10, 4)] {
        let windows = Windows { count: 80, messages, length, compute_ns: 300_000 };
        let (_, came) = compare(windows);
        assert!(came.read > 9 * came.written, "{windows:?}: {came:?}");
    }
}

#[test]
fn dropped_receives_of_announced_messages_are_not_written() {
    Design::ALL.into_iter().for_each(drop_receives);
}

#[test]
fn a_word_about_no_message_ends_the_stream() {
    Design::ALL.into_iter().for_each(refuse_nonsense);
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

#[test]
fn messages_in_several_parts_go_beside_the_stream() {
    Design::ALL.into_iter().for_each(come_scattered);
}

#[test]
fn descriptions_that_make_no_sense_end_the_stream() {
    Design::ALL.into_iter().for_each(refuse_lies);
}
