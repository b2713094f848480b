//! Ranks killed between the two halves of appending a cell to a queue: cells that were appended
//! behind it are not lost. A build without debug assertions has no steps, hence no such tests.
#![cfg(debug_assertions)]

use core::time::Duration;
use std::thread;

use strait::{Endpoint, Error, Fault, World};
use strait_core::layout::Life;
use strait_core::sync::Step;
use strait_tests::{Ranks, die_at, segment};

/// The rank that owns the queue.
const CONSUMER: u32 = 0;

/// Messages of one burst.
const BURST: u64 = 10;

const TAG: u32 = 5;

/// Sends one more message, after `sent` others, and dies on the way.
fn die_sending(world: &World, sent: u64, step: Step) -> ! {
    die_at(step);
    world.endpoint().send(&[sent], CONSUMER, TAG).unwrap();
    unreachable!("{step:?} is not on the way");
}

/// Returns a job in which every message goes through the queues.
fn job(ranks: u32, name: &'static str, deaths: &[u32]) -> Ranks {
    Ranks::new(ranks, name)
        .with("STRAIT_FASTBOX_MAX", 0)
        .with_deaths(deaths)
        .within(Duration::from_secs(30))
}

fn send_burst(endpoint: Endpoint<'_>, from: u64) {
    (from..from + BURST).for_each(|number| endpoint.send(&[number], CONSUMER, TAG).unwrap());
}

fn receive(endpoint: Endpoint<'_>, source: u32, messages: u64) {
    for expected in 0..messages {
        let mut number = [u64::MAX];
        endpoint.recv(&mut number, source, TAG).unwrap();
        assert_eq!(number, [expected], "from rank {source}");
    }
}

/// Waits until `rank` is known to be dead, and has sent nothing to this rank.
fn await_death(endpoint: Endpoint<'_>, rank: u32) {
    assert_died(endpoint.recv(&mut [0_u64], rank, TAG), rank);
}

/// Rank 1 sends `before` messages and is killed at the next one. Ranks 2 and 3 send before and
/// after.
fn one_death(name: &'static str, before: u64, step: Step) {
    job(4, name, &[1]).run(|world| {
        let endpoint = world.endpoint();
        match world.rank() {
            CONSUMER => {
                receive(endpoint, 3, 2 * BURST);
                receive(endpoint, 2, 2 * BURST);
                receive(endpoint, 1, before + u64::from(step != Step::CellHeld));
                await_death(endpoint, 1);
            }
            1 => {
                (0..before).for_each(|number| endpoint.send(&[number], CONSUMER, TAG).unwrap());
                die_sending(&world, before, step);
            }
            _ => {
                send_burst(endpoint, 0);
                await_death(endpoint, 1);
                send_burst(endpoint, BURST);
            }
        }
        world.finalize().unwrap();
    });
}

#[test]
fn killed_before_the_swap() {
    one_death("killed_before_the_swap", 3, Step::CellHeld);
}

#[test]
fn killed_between_swap_and_link() {
    one_death("killed_between_swap_and_link", 3, Step::CellSwapped);
}

#[test]
fn killed_between_swap_and_link_of_its_first_message() {
    one_death("killed_between_swap_and_link_of_its_first_message", 0, Step::CellSwapped);
}

#[test]
fn killed_after_the_link() {
    one_death("killed_after_the_link", 3, Step::CellLinked);
}

/// No rank has sent anything: the dead rank's cell is the first, so the head is not set.
#[test]
fn killed_as_the_first_of_all() {
    job(3, "killed_as_the_first_of_all", &[1]).run(|world| {
        let endpoint = world.endpoint();
        match world.rank() {
            CONSUMER => {
                receive(endpoint, 2, BURST);
                receive(endpoint, 1, 1);
                await_death(endpoint, 1);
            }
            1 => die_sending(&world, 0, Step::CellSwapped),
            _ => {
                await_death(endpoint, 1);
                send_burst(endpoint, 0);
            }
        }
        world.finalize().unwrap();
    });
}

/// Ranks 3, 1 and 2 are killed one after the other, in this order, and a survivor sends in between.
/// The consumer polls its queue only afterwards. It finds three breaks, and chains between them
/// that must keep their order.
#[test]
fn three_killed_in_one_queue() {
    const ORDER: [u32; 3] = [3, 1, 2];
    const SURVIVOR: u32 = 4;
    job(5, "three_killed_in_one_queue", &ORDER).run(|world| {
        let endpoint = world.endpoint();
        let rank = world.rank();
        match rank {
            CONSUMER => {
                let segment = segment(&world);
                while segment.rank_block(SURVIVOR).liveness.state() != Life::Finished {
                    thread::yield_now();
                }
                receive(endpoint, SURVIVOR, 4 * BURST);
                for dead in ORDER {
                    receive(endpoint, dead, 1);
                    await_death(endpoint, dead);
                }
            }
            SURVIVOR => {
                send_burst(endpoint, 0);
                for (dead, round) in ORDER.into_iter().zip(1..) {
                    endpoint.send(&[0_u8], dead, TAG).unwrap();
                    await_death(endpoint, dead);
                    send_burst(endpoint, round * BURST);
                }
            }
            _ => {
                endpoint.recv(&mut [0_u8], SURVIVOR, TAG).unwrap();
                die_sending(&world, 0, Step::CellSwapped);
            }
        }
        world.finalize().unwrap();
    });
}

#[track_caller]
fn assert_died<T: core::fmt::Debug>(outcome: Result<T, Error>, rank: u32) {
    assert!(
        matches!(outcome, Err(Error::Fault(Fault::PeerFailed { rank: dead, .. })) if dead == rank),
        "{outcome:?} instead of the death of rank {rank}"
    );
}
