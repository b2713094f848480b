//! The watchdog's report on jobs that hang on purpose: the call, peer and tag for which each rank
//! waits.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use strait::raw::ANY_SOURCE;
use strait::{ANY_TAG, World, wait_any};
use strait_tests::Ranks;

/// Time limits of the job, in seconds. On a busy machine ranks are killed before they wait; then
/// the next limit counts.
const LIMITS: [u64; 3] = [4, 16, 64];

/// Runs a job that hangs in `body` and is killed. Checks that the watchdog's line about each rank
/// has the expected words.
fn hang(name: &'static str, expected: &[&str], body: impl Fn(World) + Copy) {
    let ranks = expected.len() as u32;
    let mut lines = Vec::new();
    for limit in LIMITS {
        lines = words(Ranks::new(ranks, name).within(Duration::from_secs(limit)), ranks, body);
        if lines.iter().zip(expected).all(|(line, words)| line.contains(words)) {
            return;
        }
    }
    panic!("the watchdog printed {lines:#?} instead of {expected:#?}");
}

/// Returns the watchdog's line about each rank of a job that hangs.
fn words(job: Ranks, ranks: u32, body: impl FnOnce(World)) -> Vec<String> {
    let panicked = catch_unwind(AssertUnwindSafe(|| job.run(body))).map(drop).unwrap_err();
    let words = panicked.downcast::<String>().expect("a message");
    assert!(words.contains("was killed"), "{words}");
    let line = |rank| words.lines().find(|line| line.starts_with(&format!("rank {rank} (process")));
    (0..ranks).map(|rank| line(rank).expect("a line for each rank").to_owned()).collect()
}

#[test]
fn receives_and_sends_name_peer_and_tag() {
    let expected = [
        "waits in recv: source 1, tag 7, context 5, 8 bytes; for ",
        "waits in recv: source any, tag any, context 5, 24 bytes; for ",
        "waits in send: destination 0, tag 9, context 5, 100 bytes; for ",
    ];
    hang("receives_and_sends_name_peer_and_tag", &expected, |world| {
        let endpoint = world.endpoint().with_context(5);
        match world.rank() {
            0 => drop(endpoint.recv(&mut [0_u8; 8], 1, 7)),
            1 => drop(endpoint.recv(&mut [0_u8; 24], ANY_SOURCE, ANY_TAG)),
            _ => drop(endpoint.ssend(&[0_u8; 100], 0, 9)),
        }
    });
}

#[test]
fn waits_for_several_name_the_first_that_is_open() {
    let expected = [
        "waits in wait_any: 0 of 2 are complete, rank 1, tag 3, context 0, 1 bytes; for ",
        "waits in probe: source 0, tag 6, context 0; for ",
    ];
    hang("waits_for_several_name_the_first_that_is_open", &expected, |world| {
        let endpoint = world.endpoint();
        let (mut one, mut other) = ([0_u8; 1], [0_u8; 2]);
        if world.rank() == 0 {
            endpoint.scope(|scope| {
                let requests = [scope.irecv(&mut one, 1, 3), scope.irecv(&mut other, 1, 4)];
                let _ = wait_any(&mut requests.map(Result::unwrap));
            });
        }
        let _ = endpoint.probe(0, 6);
    });
}

#[test]
fn ranks_that_poll_or_compute_say_so() {
    let expected = [
        "polls: a call that does not wait (test, iprobe, progress); the last such call was ",
        "has not waited for long yet: it computes",
    ];
    hang("ranks_that_poll_or_compute_say_so", &expected, |world| match world.rank() {
        0 => while world.endpoint().iprobe(1, 0).is_ok() {},
        _ => loop {
            core::hint::spin_loop();
        },
    });
}

#[test]
fn a_barrier_names_its_context() {
    let expected = [
        "waits in barrier: context 0; for ",
        "waits in recv: source 0, tag 0, context 0, 1 bytes; for ",
    ];
    hang("a_barrier_names_its_context", &expected, |world| {
        world.endpoint().barrier().expect("both come");
        match world.rank() {
            0 => drop(world.endpoint().barrier()),
            _ => drop(world.endpoint().recv(&mut [0_u8; 1], 0, 0)),
        }
    });
}
