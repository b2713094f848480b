//! Envelopes that stop speculation and resume it.

use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::chance::config;
use super::*;

/// The number of unused RTRs among [`SAMPLES`] that stops speculation.
const TOO_MANY: u32 = SAMPLES * (100 - USAGE_MIN) / 100 + 1;

/// Sends one message; its RTR arrives before it or crosses it. Returns the packet that carried it.
fn round(pair: &mut Pair, in_time: bool) -> Packet {
    pair.recv(exact(0));
    if in_time {
        pair.settle();
    }
    let packet = pair.send(0);
    pair.settle();
    packet
}

/// Runs at most `most` rounds, of which `used` in ten are in time, in the order that `shuffle`
/// gives. Returns the number of rounds until the envelope stops, or `None`.
fn until_stopped(pair: &mut Pair, used: usize, shuffle: &[usize], most: usize) -> Option<usize> {
    let rounds = (0..most).map(|number| shuffle[number % 10] < used);
    rounds.enumerate().find_map(|(number, in_time)| {
        (round(pair, in_time) == Packet::Rts(None)).then_some(number + 1)
    })
}

fn adaptive(test: impl FnOnce(Pair)) {
    with(|pair| test(Pair { choice: Rendezvous::Adaptive, ..pair }));
}

/// Returns a strategy for a random order of ten rounds.
fn shuffle() -> impl Strategy<Value = Vec<usize>> {
    Just((0..10).collect::<Vec<usize>>()).prop_shuffle()
}

/// Returns the number of messages without speculation until the next trial, including the one that
/// said stop-RTR.
fn pause(pair: &mut Pair) -> u32 {
    (1..).find(|_| round(pair, true) != Packet::Rts(None)).unwrap()
}

proptest! {
    #![proptest_config(config())]

    /// In any order, seven of ten or fewer are too few, and nine of ten are enough.
    #[test]
    fn the_threshold_lies_at_eight_of_ten(used in 0..=10_usize, shuffle in shuffle()) {
        adaptive(|mut pair| {
            let stopped = until_stopped(&mut pair, used, &shuffle, 200);
            match used {
                // Among 16 rounds with 6 in 10 used, at most 12 are used.
                0..=6 => assert!(stopped.unwrap() <= SAMPLES as usize + 10),
                // At most two of any 16 rounds are unused.
                9.. => assert_eq!(stopped, None),
                // The result depends on which 16 rounds the decision covers.
                _ => {}
            }
        });
    }

    /// Each pause is twice as long as the one before, until a trial succeeds.
    #[test]
    fn speculation_comes_back_by_the_rule(
        trials in vec((prop::bool::weighted(0.2), 0..=6_usize), 1..if cfg!(miri) { 2 } else { 12 }),
        shuffle in shuffle(),
    ) {
        adaptive(|mut pair| {
            let mut expected = PAUSE_MIN;
            for (succeeds_first, used) in trials {
                if succeeds_first {
                    for number in 0..50 {
                        round(&mut pair, number < 49);
                    }
                    expected = PAUSE_MIN;
                }
                until_stopped(&mut pair, used, &shuffle, 100).unwrap();
                assert_eq!(pause(&mut pair), expected);
                expected = (2 * expected).min(PAUSE_MAX);
            }
        });
    }

    /// In any program, unused RTRs are at most a quarter of the used ones, plus a few for each
    /// trial.
    #[test]
    fn what_is_wasted_is_bounded(
        rounds in vec(0..10_usize, if cfg!(miri) { 50 } else { 500 }),
        used in 0..=10_usize,
    ) {
        adaptive(|mut pair| {
            for chance in &rounds {
                round(&mut pair, *chance < used);
            }
            let Usage { heard, used, stopped } = pair.sender.usage();
            let trials = stopped + 1;
            assert!(heard - used <= used / 4 + trials * u64::from(TOO_MANY + 2));
            assert!(stopped <= 1 + rounds.len() as u64 / u64::from(PAUSE_MIN));
        });
    }
}

/// Runs rounds in which the announcement leaves before the RTR arrives. Returns the number of RTRs
/// sent.
fn cross(pair: &mut Pair, rounds: u32) -> u32 {
    let before = pair.sender.usage().heard;
    for _ in 0..rounds {
        pair.recv(exact(0));
        pair.send(0);
        pair.settle();
    }
    (pair.sender.usage().heard - before) as u32
}

/// Runs rounds in which the receive is posted first. Returns the number of RTRs used.
fn use_rtrs(pair: &mut Pair, rounds: u32) -> u32 {
    let before = pair.sender.usage().used;
    for _ in 0..rounds {
        pair.recv(exact(0));
        pair.settle();
        pair.send(0);
        pair.settle();
    }
    (pair.sender.usage().used - before) as u32
}

#[test]
fn an_envelope_with_unused_rtrs_stops_and_is_retried() {
    with(|mut pair| {
        pair.choice = Rendezvous::Adaptive;
        // The last RTR is in flight when the RTS that stops the next one leaves.
        assert_eq!(cross(&mut pair, PAUSE_MIN), TOO_MANY + 1);
        assert!(!pair.sender.speculates(PEER, key(0)));
        assert_eq!(pair.sender.usage().stopped, 1);
        // From here on, the program posts its receives first.
        let rounds = PAUSE_MIN + 100;
        assert!(use_rtrs(&mut pair, rounds) >= 100);
        assert_eq!(pair.sender.usage().stopped, 1);
        assert!(pair.sender.speculates(PEER, key(0)));
    });
}

#[test]
fn pauses_grow_so_that_trials_cost_little() {
    with(|mut pair| {
        pair.choice = Rendezvous::Adaptive;
        let messages = if cfg!(miri) { 200 } else { 100_000 };
        let wasted = cross(&mut pair, messages);
        // The pauses have 16, 32 … 4096 messages, and then 4096 each.
        let trials = 9 + messages / PAUSE_MAX;
        assert!(wasted <= trials * (TOO_MANY + 2), "{wasted} RTRs in {trials} trials");
        if !cfg!(miri) {
            assert!(wasted * 100 < messages, "{wasted} RTRs");
        }
    });
}

#[test]
fn speculation_that_was_asked_for_never_stops() {
    with(|mut pair| {
        assert_eq!(cross(&mut pair, 200), 200);
        assert_eq!(pair.sender.usage().stopped, 0);
    });
}
