//! Ranks that die and ranks that leave: operations that need them end with an error, and all other
//! ranks go on.

use core::time::Duration;

use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{ANY_TAG, Endpoint, Error, Fault, World};
use strait_core::engine::{FailureCause, Gone};
use strait_core::matching::Pattern;
use strait_core::shm::CellArena;
use strait_tests::{Engines, Ranks, die, payload, report, shape};

/// A length that no segment can hold at once, in bytes.
const LONG: usize = 4 << 20;

/// The rank that dies.
const VICTIM: u32 = 3;

/// Asserts that an operation ended because the victim died.
#[track_caller]
fn assert_died<T: core::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(
        matches!(outcome, Err(Error::Fault(Fault::PeerFailed { rank: VICTIM, .. }))),
        "{outcome:?} instead of the death of rank {VICTIM}"
    );
}

/// All of `ranks` send short and long messages to each other, and check the data.
fn all_to_all(world: &World, ranks: &[u32], tag: u32) {
    let me = world.rank();
    let others = || ranks.iter().copied().filter(|rank| *rank != me);
    let id = |from: u32, to: u32, length: usize| {
        u64::from(tag) << 48 | u64::from(from) << 40 | u64::from(to) << 32 | length as u64
    };
    for length in [0, 8, 1000, 20_000, 600_000] {
        report(format_args!("all to all, {length} bytes"));
        let data: Vec<_> = others().map(|to| payload::of(id(me, to, length), length)).collect();
        let mut rooms: Vec<_> = others().map(|_| vec![0; length]).collect();
        world.endpoint().scope(|scope| {
            let receives: Vec<_> = (rooms.iter_mut().zip(others()))
                .map(|(room, from)| scope.irecv(room, from, tag).unwrap())
                .collect();
            let sends: Vec<_> = (data.iter().zip(others()))
                .map(|(data, to)| scope.isend(data, to, tag).unwrap())
                .collect();
            for request in sends.into_iter().chain(receives) {
                request.wait().unwrap();
            }
        });
        for (room, from) in rooms.iter().zip(others()) {
            assert_eq!(payload::first_difference(id(from, me, length), room), None, "from {from}");
        }
    }
}

/// The victim waits for a message from each of the others, which then run `what` while it dies. The
/// victim runs `before` just before its death.
fn while_it_dies(name: &'static str, before: fn(Endpoint<'_>), what: fn(&World)) {
    while_it_dies_in(Ranks::new(4, name), before, what);
}

/// Runs [`while_it_dies`] in a given job of four ranks.
fn while_it_dies_in(job: Ranks, before: fn(Endpoint<'_>), what: fn(&World)) {
    job.with_deaths(&[VICTIM]).within(Duration::from_secs(30)).run(|world| {
        let endpoint = world.endpoint();
        all_to_all(&world, &[0, 1, 2, VICTIM], 1);
        if world.rank() == VICTIM {
            for rank in 0..3 {
                endpoint.recv(&mut [0_u8], rank, 0).unwrap();
            }
            before(endpoint);
            die();
        }
        endpoint.send(&[0_u8], VICTIM, 0).unwrap();
        what(&world);
        // From now on the death is known.
        assert_died(endpoint.send(&[0_u8], VICTIM, 0));
        assert_died(endpoint.send(&[0_u8; 100_000], VICTIM, 0));
        assert_died(endpoint.recv(&mut [0_u8], VICTIM, ANY_TAG));
        assert_died(endpoint.probe(VICTIM, ANY_TAG));
        all_to_all(&world, &[0, 1, 2], 2);
        world.finalize().unwrap();
    });
}

fn nothing(_: Endpoint<'_>) {}

#[test]
fn a_blocked_receive_ends() {
    while_it_dies("a_blocked_receive_ends", nothing, |world| {
        assert_died(world.endpoint().recv(&mut [0_u8], VICTIM, 9));
    });
}

#[test]
fn a_blocked_send_ends() {
    while_it_dies("a_blocked_send_ends", nothing, |world| {
        assert_died(world.endpoint().send(&vec![0_u8; LONG], VICTIM, 9));
    });
}

#[test]
fn a_blocked_probe_ends() {
    while_it_dies("a_blocked_probe_ends", nothing, |world| {
        assert_died(world.endpoint().probe(VICTIM, 9));
    });
}

#[test]
fn a_receive_that_is_tested_ends() {
    while_it_dies("a_receive_that_is_tested_ends", nothing, |world| {
        let mut byte = [0_u8];
        world.endpoint().scope(|scope| {
            let mut request = scope.irecv(&mut byte, VICTIM, 9).unwrap();
            let outcome = loop {
                if let Some(outcome) = request.test().transpose() {
                    break outcome;
                }
            };
            assert_died(outcome);
        });
    });
}

#[test]
fn a_source_that_is_probed_again_and_again_is_seen_to_die() {
    let name = "a_source_that_is_probed_again_and_again_is_seen_to_die";
    while_it_dies(name, nothing, |world| {
        let outcome = loop {
            if let Some(outcome) = world.endpoint().iprobe(VICTIM, 9).transpose() {
                break outcome;
            }
        };
        assert_died(outcome);
    });
}

#[test]
fn sends_without_a_wait_end() {
    while_it_dies("sends_without_a_wait_end", nothing, |world| {
        // Sends short messages while that succeeds, then a long one, and drops all.
        let data = vec![0_u8; LONG];
        let outcome = loop {
            let sent = world.endpoint().scope(|scope| {
                drop(scope.isend(&data[..8], VICTIM, 9)?);
                drop(scope.isend(&data[..100_000], VICTIM, 9)?);
                world.endpoint().iprobe(VICTIM, 9).map(drop)
            });
            if sent.is_err() {
                break sent;
            }
        };
        assert_died(outcome);
    });
}

#[test]
fn what_it_had_sent_is_still_received() {
    let before = |endpoint: Endpoint<'_>| {
        for rank in 0..3 {
            (0..20).for_each(|id| endpoint.send(&payload::of(id, 8), rank, 9).unwrap());
            endpoint.send(&payload::of(20, 5000), rank, 9).unwrap();
        }
    };
    while_it_dies("what_it_had_sent_is_still_received", before, |world| {
        // Lets the victim die first: the data that it left must be enough.
        assert_died(world.endpoint().recv(&mut [0_u8], VICTIM, 10));
        for id in 0..21 {
            let mut bytes = [0; 5000];
            let status = world.endpoint().recv(&mut bytes, VICTIM, 9).unwrap();
            assert_eq!(payload::first_difference(id, &bytes[..status.bytes]), None);
        }
    });
}

#[test]
fn a_message_that_breaks_off_is_no_message() {
    let before = |endpoint: Endpoint<'_>| {
        let data = vec![1_u8; LONG];
        endpoint.scope(|scope| {
            (0..3).for_each(|rank| drop(scope.isend(&data, rank, 9).unwrap()));
            die();
        });
    };
    // The message goes through cells, of which a rank has too few for all of it. If it were
    // announced, a quick receiver could have all of it before the sender dies.
    let config = SegmentConfig { ring_granules: 0, ..SegmentConfig::new(4) };
    let job = Ranks::new(4, "a_message_that_breaks_off_is_no_message").shaped(config);
    while_it_dies_in(job, before, |world| {
        let mut bytes = vec![0_u8; LONG];
        if world.rank() == 0 {
            // The receive is posted before any part of the message arrives, or after.
            assert_died(world.endpoint().recv(&mut bytes, VICTIM, 10));
        }
        assert_died(world.endpoint().recv(&mut bytes, VICTIM, 9));
    });
}

#[test]
fn a_receive_from_any_source_outlives_one_of_them() {
    while_it_dies("a_receive_from_any_source_outlives_one_of_them", nothing, |world| {
        let endpoint = world.endpoint();
        let mut bytes = [0_u8; 8];
        if world.rank() != 0 {
            assert_died(endpoint.recv(&mut bytes, VICTIM, 9));
            endpoint.send(&payload::of(7, 8), 0, 9).unwrap();
            return;
        }
        let (mut first, mut second) = ([0_u8; 8], [0_u8; 8]);
        endpoint.scope(|scope| {
            let wild = scope.irecv(&mut first, ANY_SOURCE, 9).unwrap();
            assert_died(endpoint.recv(&mut bytes, VICTIM, 9));
            let status = wild.wait().unwrap();
            assert!([1, 2].contains(&status.source), "{status:?}");
        });
        endpoint.recv(&mut second, ANY_SOURCE, 9).unwrap();
        assert_eq!([first.to_vec(), second.to_vec()], [payload::of(7, 8), payload::of(7, 8)]);
    });
}

/// A rank is killed at an arbitrary point. The survivors' operations end, complete or with an
/// error, and the survivors go on.
fn killed_somewhere(name: &'static str, config: SegmentConfig) {
    for seed in 0..10_u64 {
        let job = Ranks::new(4, name).shaped(config).with("STRAIT_TEST_SEED", seed);
        job.with_deaths(&[VICTIM]).within(Duration::from_secs(30)).run(|world| {
            let seed: u64 = std::env::var("STRAIT_TEST_SEED").unwrap().parse().unwrap();
            all_to_all(&world, &[0, 1, 2, VICTIM], 1);
            if world.rank() == VICTIM {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(
                        fastrand::Rng::with_seed(seed).u64(0..4000),
                    ));
                    die();
                });
            }
            let outcome = talk_for_ever(&world);
            if world.rank() == VICTIM {
                // Waits to be killed.
                std::thread::park();
            }
            assert_died::<()>(Err(outcome));
            all_to_all(&world, &[0, 1, 2], 2);
            world.finalize().unwrap();
        });
    }
}

/// Exchanges messages with the victim, as the victim does with all others, until an operation
/// fails.
fn talk_for_ever(world: &World) -> Error {
    let me = world.rank();
    let peers: Vec<u32> = if me == VICTIM { (0..3).collect() } else { vec![VICTIM] };
    let mut bytes = vec![0_u8; 10_000];
    for turn in 0_u64.. {
        for &peer in &peers {
            let length = [8, 600, 9000, 0][turn as usize % 4];
            let id = |from: u32| turn << 8 | u64::from(from);
            let data = payload::of(id(me), length);
            match world.endpoint().sendrecv(&data, peer, 5, &mut bytes, peer, 5) {
                Ok(status) => {
                    let wrong = payload::first_difference(id(peer), &bytes[..status.bytes]);
                    assert_eq!((status.bytes, wrong), (length, None), "turn {turn} with {peer}");
                }
                Err(error) => return error,
            }
        }
    }
    unreachable!("turns do not end")
}

#[test]
fn a_rank_killed_at_any_point_is_survived() {
    killed_somewhere("a_rank_killed_at_any_point_is_survived", SegmentConfig::new(4));
}

#[test]
fn a_rank_killed_at_any_point_is_survived_with_next_to_no_room() {
    let name = "a_rank_killed_at_any_point_is_survived_with_next_to_no_room";
    killed_somewhere(name, shape::tiny(4, 1));
}

#[test]
fn waits_for_a_rank_that_left_fail() {
    Ranks::new(3, "waits_for_a_rank_that_left_fail").run(|world| {
        let endpoint = world.endpoint();
        if world.rank() == 0 {
            for rank in [1, 2] {
                (0..10).for_each(|id| endpoint.send(&payload::of(id, 8), rank, 0).unwrap());
            }
            world.finalize().unwrap();
            return;
        }
        let left = |outcome: Result<(), Error>| {
            let told = matches!(outcome, Err(Error::Fault(Fault::PeerFinished { rank: 0 })));
            assert!(told, "{outcome:?}");
        };
        let mut bytes = [0_u8; 8];
        left(endpoint.recv(&mut bytes, 0, 1).map(drop));
        for id in 0..10 {
            endpoint.recv(&mut bytes, 0, 0).unwrap();
            assert_eq!(payload::first_difference(id, &bytes), None);
        }
        left(endpoint.recv(&mut bytes, 0, 0).map(drop));
        left(endpoint.send(&bytes, 0, 0));
        left(endpoint.send(&vec![0_u8; LONG], 0, 0));
        let other = 3 - world.rank();
        endpoint.sendrecv(&[1_u8], other, 3, &mut bytes, other, 3).unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn a_long_message_to_a_rank_that_leaves_ends() {
    Ranks::new(2, "a_long_message_to_a_rank_that_leaves_ends").run(|world| {
        if world.rank() == 1 {
            let outcome = world.endpoint().send(&vec![0_u8; LONG], 0, 0);
            let told = matches!(outcome, Err(Error::Fault(Fault::PeerFinished { rank: 0 })));
            assert!(told, "{outcome:?}");
        }
        world.finalize().unwrap();
    });
}

/// A large message, which its sender keeps until it is received, and a short one behind it. The
/// sender dies.
#[test]
fn what_follows_a_lost_message_is_not_taken_for_it() {
    let mut job = Engines::new(SegmentConfig::new(3));
    job.send(0, 1, 0, 8);
    job.send(0, 1, 0, 100_000);
    job.send(0, 1, 0, 8);
    job.send(2, 1, 0, 8);
    job.engines[1].progress().unwrap();
    assert_eq!(job.engines[1].peer_gone(0, Gone::Failed(FailureCause::Ended)), Ok(true));
    let sources: Vec<_> = core::iter::from_fn(|| {
        let pattern = Pattern { context: 0, source: ANY_SOURCE, tag: 0 };
        let found = job.engines[1].iprobe(pattern).unwrap()?;
        let room = job.buffer(100_000);
        assert!(job.receive_to(1, found.source, 0, room).is_none());
        Some(found.source)
    })
    .collect();
    assert_eq!(sources, [0, 2], "the first message of the dead rank, and that of the living one");
}

/// Returns a job in which rank 1 has two cells. The first is the last in the queue of rank 0, the
/// second in that of rank 3. Both ranks have died since, rank 3 after it had taken the cell.
fn both_cells_with_the_dead() -> Engines {
    let mut job = Engines::new(SegmentConfig { cells_per_rank: 2, ..SegmentConfig::new(5) });
    assert_eq!(job.send(1, 0, 0, 8), None, "in a cell");
    assert_eq!(job.send(1, 3, 0, 8), None, "in a cell");
    let segment = job.arena.segment();
    segment.rank_block(3).recv_queue.dequeue(&segment).unwrap().expect("the cell");
    job
}

/// Asserts that rank 1 has both cells again: one for each living rank.
fn assert_sends(job: &mut Engines) {
    assert_eq!(job.send(1, 2, 0, 8), None, "the first cell");
    assert_eq!(job.send(1, 4, 0, 8), None, "the second cell");
}

#[test]
fn the_last_cells_of_dead_queues_come_back() {
    let mut job = both_cells_with_the_dead();
    for dead in [0, 3] {
        assert_eq!(job.engines[1].peer_gone(dead, Gone::Failed(FailureCause::Ended)), Ok(true));
    }
    assert_sends(&mut job);
}

/// A living rank is about to link its own cell behind that of rank 1.
#[test]
fn a_cell_of_a_dead_queue_comes_back_when_nothing_is_about_to_be_linked() {
    let mut job = both_cells_with_the_dead();
    let segment = job.arena.segment();
    let (block, behind) = (segment.rank_block(2), segment.parse(2 * 2 + 1).unwrap().unwrap());
    block.liveness.in_flight.hold(&segment, 0, behind);
    let queue = &segment.rank_block(0).recv_queue;
    let before = queue.swap(&segment, behind).unwrap();
    assert_eq!(job.engines[1].peer_gone(0, Gone::Failed(FailureCause::Ended)), Ok(false));
    assert_eq!(job.engines[1].gone(0), None);
    queue.link(&segment, before, behind);
    for dead in [0, 3] {
        assert_eq!(job.engines[1].peer_gone(dead, Gone::Failed(FailureCause::Ended)), Ok(true));
    }
    assert_sends(&mut job);
}
