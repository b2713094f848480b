//! Ranks killed at the worst moment: between the two halves of appending a cell to a queue.
//!
//! No production code stops there. A rank that is to die takes a cell of its own in hand, through the same
//! functions that the engine calls, on the segment that its world has mapped.

use core::ptr::NonNull;
use core::time::Duration;
use std::thread;

use strait::boot::Config;
use strait::{Endpoint, Error, Fault, Request, World};
use strait_core::layout::{CellIndex, Life};
use strait_core::shm::{Cell, CellArena, CellHead};
use strait_core::wire::{FIRST_SEQUENCE, Key, Kind};
use strait_tests::{Ranks, die, payload, report, segment};

/// Whose queue it is.
const CONSUMER: u32 = 0;

/// Messages of one burst.
const BURST: u64 = 10;

const TAG: u32 = 5;

/// The environment variable for a job's seed.
const SEED: &str = "STRAIT_TEST_SEED";

/// Where a rank dies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Killed {
    BeforeSwap,
    AfterSwap,
    AfterLink,
}

/// Sends one message more, after `sent` others, and dies on the way.
fn die_sending(world: &World, sent: u64, killed: Killed) -> ! {
    let segment = segment(world);
    let rank = world.rank();
    // The engine uses the lowest of its cells first, and does not come to the highest with so few messages.
    let raw = (rank + 1) * segment.plan().config().cells_per_rank;
    let cell: CellIndex = segment.parse(raw).unwrap().expect("a cell");
    let number = sent.to_ne_bytes();
    let head = CellHead {
        sequence: FIRST_SEQUENCE + sent,
        key: Key::new(0, TAG).0,
        total: 8,
        source: rank,
        length: 8,
        kind: Kind::Eager as u8,
        ..CellHead::default()
    };
    let pointer = segment.cell(cell);
    // SAFETY: the cell is this rank's, and free.
    unsafe {
        Cell::payload(pointer).copy_from_nonoverlapping(NonNull::from(&number).cast(), 8);
        Cell::write_head(pointer, head);
    }
    let queue = &segment.rank_block(CONSUMER).recv_queue;
    segment.rank_block(rank).liveness.hand.hold(&segment, CONSUMER, cell);
    if killed != Killed::BeforeSwap {
        let last = queue.swap(&segment, cell).unwrap();
        if killed == Killed::AfterLink {
            queue.link(&segment, last, cell);
        }
    }
    die();
}

/// A job in which every message goes through the queues.
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

#[track_caller]
fn assert_died<T: core::fmt::Debug>(outcome: Result<T, Error>, rank: u32) {
    assert!(
        matches!(outcome, Err(Error::Fault(Fault::PeerFailed { rank: dead })) if dead == rank),
        "{outcome:?} instead of the death of rank {rank}"
    );
}

/// Rank 1 sends `before` messages and is killed at another; ranks 2 and 3 send before and after.
fn one_death(name: &'static str, before: u64, killed: Killed) {
    job(4, name, &[1]).run(|world| {
        let endpoint = world.endpoint();
        match world.rank() {
            CONSUMER => {
                receive(endpoint, 3, 2 * BURST);
                receive(endpoint, 2, 2 * BURST);
                receive(endpoint, 1, before + u64::from(killed != Killed::BeforeSwap));
                await_death(endpoint, 1);
            }
            1 => {
                (0..before).for_each(|number| endpoint.send(&[number], CONSUMER, TAG).unwrap());
                die_sending(&world, before, killed);
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
    one_death("killed_before_the_swap", 3, Killed::BeforeSwap);
}

#[test]
fn killed_between_swap_and_link() {
    one_death("killed_between_swap_and_link", 3, Killed::AfterSwap);
}

#[test]
fn killed_between_swap_and_link_of_its_first_message() {
    one_death("killed_between_swap_and_link_of_its_first_message", 0, Killed::AfterSwap);
}

#[test]
fn killed_after_the_link() {
    one_death("killed_after_the_link", 3, Killed::AfterLink);
}

/// Nobody has sent anything: the dead rank's cell is the first, and so nobody has set the head.
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
            1 => die_sending(&world, 0, Killed::AfterSwap),
            _ => {
                await_death(endpoint, 1);
                send_burst(endpoint, 0);
            }
        }
        world.finalize().unwrap();
    });
}

/// Ranks 3, 1 and 2 are killed one after the other, in this order, and a survivor sends in between. The consumer looks at its
/// queue when all is over: three breaks, and chains between them that must not change places.
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
                die_sending(&world, 0, Killed::AfterSwap);
            }
        }
        world.finalize().unwrap();
    });
}

/// All send to all, rank 0 is killed at a random moment, and the others go on for a while.
fn killed_under_traffic(name: &'static str, config: Config, seed: u64) {
    const VICTIM: u32 = 0;
    const ROUNDS: u64 = 60;
    let job = Ranks::new(config.ranks, name).shaped(config).with_deaths(&[VICTIM]);
    let fastbox_max = if seed.is_multiple_of(2) { 0 } else { 1024 };
    job.with("STRAIT_FASTBOX_MAX", fastbox_max).with(SEED, seed).run(|world| {
        let (me, ranks) = (world.rank(), config.ranks);
        // Every rank enters the first of a test's jobs, whichever it belongs to.
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
                    // The others have done their rounds before it died.
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
        killed_under_traffic("killed_under_traffic_with_room", Config::new(4), seed);
    }
}

#[test]
fn killed_under_traffic_with_next_to_no_room() {
    for seed in 100..112 {
        let config = strait_tests::shape::tiny(4, 2);
        killed_under_traffic("killed_under_traffic_with_next_to_no_room", config, seed);
    }
}
