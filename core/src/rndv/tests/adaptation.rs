//! Envelopes that stop, and come back.

use super::*;

/// Rounds in each of which the message is announced before its RTR comes; how many RTRs were sent.
fn cross(pair: &mut Pair, rounds: u32) -> u32 {
    let before = pair.sender.usage().heard;
    for _ in 0..rounds {
        pair.recv(exact(0));
        pair.send(0);
        pair.settle();
    }
    (pair.sender.usage().heard - before) as u32
}

/// Rounds in each of which the receive comes first; how many RTRs were used.
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
fn an_envelope_whose_rtrs_are_not_used_stops_and_is_tried_again() {
    with(|mut pair| {
        pair.choice = Rendezvous::Adaptive;
        // The last RTR is on its way when the RTS that stops the next leaves.
        assert_eq!(cross(&mut pair, PAUSE_MIN), SAMPLES + 1);
        assert!(!pair.sender.speculates(PEER, key(0)));
        assert_eq!(pair.sender.usage().stopped, 1);
        // Now the program has changed its ways.
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
        let messages = if cfg!(miri) { 500 } else { 100_000 };
        let wasted = cross(&mut pair, messages);
        // Pauses of 64, 128 … 4096 messages, then of 4096 each.
        let trials = 7 + messages / PAUSE_MAX;
        assert!(wasted <= trials * (SAMPLES + 2), "{wasted} RTRs in {trials} trials");
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
