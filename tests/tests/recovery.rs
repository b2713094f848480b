//! A rank killed at a random moment under traffic: the survivors' messages to each other arrive.
//! `kill.rs` tests the critical moments one by one.

use core::time::Duration;
use std::thread;

use strait::boot::SegmentConfig;
use strait::{Error, Fault, Request};
use strait_tests::{Ranks, die, payload, report};

const TAG: u32 = 5;

/// The environment variable for a job's seed.
const SEED: &str = "STRAIT_TEST_SEED";

#[track_caller]
fn assert_died<T: core::fmt::Debug>(outcome: Result<T, Error>, rank: u32) {
    assert!(
        matches!(outcome, Err(Error::Fault(Fault::PeerFailed { rank: dead, .. })) if dead == rank),
        "{outcome:?} instead of the death of rank {rank}"
    );
}

/// All ranks send to all, rank 0 is killed at a random moment, and the others go on for a while.
fn killed_under_traffic(name: &'static str, config: SegmentConfig, seed: u64) {
    const VICTIM: u32 = 0;
    const ROUNDS: u64 = 60;
    let job = Ranks::new(config.ranks, name).shaped(config).with_deaths(&[VICTIM]);
    let fastbox_max = if seed.is_multiple_of(2) { 0 } else { 1024 };
    job.with("STRAIT_FASTBOX_MAX", fastbox_max).with(SEED, seed).run(|world| {
        let (me, ranks) = (world.rank(), config.ranks);
        // Every rank enters the first of a test's jobs, to whichever job it belongs.
        let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let breath = Duration::from_micros(random.u64(0..4000));
        if me == VICTIM {
            thread::spawn(move || {
                thread::sleep(breath);
                die();
            });
        }
        for round in 0.. {
            if me != VICTIM && round == ROUNDS {
                break;
            }
            report(format_args!("seed {seed}, round {round}"));
            let length = random.usize(0..*[100, 3000, 40_000].get(round as usize % 3).unwrap());
            let id = |from: u32| seed << 32 | round << 8 | u64::from(from);
            let data = payload::of(id(me), length);
            let others = || (0..ranks).filter(|rank| *rank != me);
            let mut rooms: Vec<_> = others().map(|_| vec![0_u8; length]).collect();
            let outcomes: Vec<_> = world.endpoint().scope(|scope| {
                let receives: Vec<_> = (rooms.iter_mut().zip(others()))
                    .map(|(room, from)| (from, scope.irecv(room, from, TAG)))
                    .collect();
                let sends: Vec<_> = others().map(|to| (to, scope.isend(&data, to, TAG))).collect();
                let requests = sends.into_iter().chain(receives);
                requests
                    .map(|(peer, begun)| (peer, begun.and_then(Request::wait).map(drop)))
                    .collect()
            });
            for (peer, outcome) in outcomes {
                match peer {
                    // The others have finished their rounds before the death.
                    _ if me == VICTIM && outcome.is_err() => loop {
                        thread::park();
                    },
                    VICTIM if outcome.is_err() => assert_died(outcome, VICTIM),
                    _ => assert!(outcome.is_ok(), "seed {seed}, rank {peer}: {outcome:?}"),
                }
            }
            for (room, from) in rooms.iter().zip(others()).filter(|(_, from)| *from != VICTIM) {
                assert_eq!(payload::first_difference(id(from), room), None, "seed {seed}, {from}");
            }
        }
        world.finalize().unwrap();
    });
}

#[test]
fn killed_under_traffic_with_room() {
    for seed in 0..12 {
        killed_under_traffic("killed_under_traffic_with_room", SegmentConfig::new(4), seed);
    }
}

#[test]
fn killed_under_traffic_with_next_to_no_room() {
    for seed in 100..112 {
        let config = strait_tests::shape::tiny(4, 2);
        killed_under_traffic("killed_under_traffic_with_next_to_no_room", config, seed);
    }
}
