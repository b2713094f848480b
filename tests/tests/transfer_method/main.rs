//! Large messages that a method of another crate moves (`[Nemesis07]` §3.2).

mod file_method;

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use fastrand::Rng;
use file_method::{FileMethod, Tally};
use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{Endpoint, Error, Fault, Rendezvous, Tuning, World, wait_all};
use strait_tests::{Ranks, payload, shape, threads};

/// One message of a round.
#[derive(Clone, Copy, Debug)]
struct Planned {
    from: u32,
    length: usize,
    /// Room in the receive buffer, in bytes.
    room: usize,
}

/// Draws the messages of a round, the same in both ranks.
fn plan(common: &mut Rng) -> Vec<Planned> {
    let draw = |_| {
        let length = match common.u32(..4) {
            0 => common.usize(..2000),
            1 => common.usize(2000..100_000),
            _ => common.usize(100_000..700_000),
        };
        let room = if common.u32(..4) == 0 { common.usize(..=length) } else { length + 5 };
        Planned { from: common.u32(..2), length, room }
    };
    (0..6).map(draw).collect()
}

/// Gives a rank its method. Large messages take neither parcels nor the fastbox.
fn prepare(world: &World, method: FileMethod) {
    world.retune(Tuning { eager_max: 3000, ..world.tuning() });
    // SAFETY: the method makes no call of the world.
    assert!(unsafe { world.set_transfer_method(Box::new(method)) }.is_ok());
}

/// Exchanges the messages of one round. Each rank starts its operations in an order of its own, so
/// that either side of a message is the first.
fn round(endpoint: Endpoint<'_>, rank: u32, plan: &[Planned], base: u64, own: &mut Rng) {
    let (mine, theirs): (Vec<_>, Vec<_>) =
        plan.iter().zip(base..).partition(|(planned, _)| planned.from == rank);
    let out: Vec<_> = mine.iter().map(|(planned, id)| payload::of(*id, planned.length)).collect();
    let mut arrived: Vec<_> = theirs.iter().map(|(planned, _)| vec![0xee; planned.room]).collect();
    let peer = 1 - rank;
    endpoint.scope(|scope| {
        let mut sends = out.iter().zip(0_u32..).peekable();
        let mut receives = arrived.iter_mut().zip(0_u32..).peekable();
        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
        while sends.peek().is_some() || receives.peek().is_some() {
            let send = receives.peek().is_none() || own.bool();
            if send && let Some((bytes, tag)) = sends.next() {
                sending.push(scope.isend(bytes, peer, tag).unwrap());
            } else if let Some((bytes, tag)) = receives.next() {
                let source = if own.bool() { ANY_SOURCE } else { peer };
                receiving.push(scope.irecv(bytes, source, tag).unwrap());
            }
            if own.bool() {
                endpoint.progress().unwrap();
            }
        }
        for (request, (planned, _)) in receiving.into_iter().zip(&theirs) {
            let outcome = request.wait();
            if planned.room >= planned.length {
                assert_eq!(outcome.unwrap().bytes, planned.length);
            } else {
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::Fault(Fault::Truncated { .. })), "{error}");
            }
        }
        wait_all(&mut sending).unwrap();
    });
    for (bytes, (planned, id)) in arrived.iter().zip(&theirs) {
        let length = planned.length.min(planned.room);
        assert_eq!(payload::first_difference(*id, &bytes[..length]), None, "{planned:?}");
        assert!(bytes[length..].iter().all(|byte| *byte == 0xee), "{planned:?}");
    }
}

fn traffic(world: &World, seed: u64, refusals: u32, rounds: u64, tally: &Arc<Tally>) {
    let rank = world.rank();
    prepare(world, FileMethod::new(seed << 8 | u64::from(rank), refusals, tally));
    let (mut common, mut own) =
        (Rng::with_seed(seed), Rng::with_seed(seed ^ u64::from(rank) << 32));
    for number in 0..rounds {
        round(world.endpoint(), rank, &plan(&mut common), number * 100, &mut own);
    }
}

/// Asserts that the method has moved messages, and has none left.
fn judge(tally: &Tally, refusals: u32) {
    assert_eq!(tally.open.load(Relaxed), 0, "messages were not ended: {tally:?}");
    assert!(tally.complete.load(Relaxed) > 0, "the method has moved nothing: {tally:?}");
    assert_eq!(tally.refused.load(Relaxed) > 0, refusals > 0, "{tally:?}");
    assert_eq!(tally.abandoned.load(Relaxed) > 0, refusals > 0, "{tally:?}");
}

fn in_threads(config: SegmentConfig, refusals: u32) {
    for rendezvous in [Rendezvous::Plain, Rendezvous::Speculative] {
        let tally = Arc::new(Tally::default());
        let shared = Arc::clone(&tally);
        threads(config, move |world| {
            world.retune(Tuning { rendezvous, ..world.tuning() });
            traffic(&world, 7, refusals, 10, &shared);
            world.finalize().unwrap();
        });
        judge(&tally, refusals);
    }
}

fn without_parcels() -> SegmentConfig {
    SegmentConfig { parcels: 0, ..SegmentConfig::new(2) }
}

#[test]
fn messages_arrive_whichever_side_is_first() {
    in_threads(without_parcels(), 0);
}

#[test]
fn messages_that_are_refused_at_any_time_arrive() {
    in_threads(without_parcels(), 10);
}

#[test]
fn messages_arrive_where_every_resource_runs_out() {
    in_threads(shape::tiny(2, 1), 5);
}

#[test]
fn messages_arrive_between_processes() {
    Ranks::new(2, "messages_arrive_between_processes").shaped(without_parcels()).run(|world| {
        let tally = Arc::new(Tally::default());
        traffic(&world, 9, 5, 10, &tally);
        world.finalize().unwrap();
        judge(&tally, 5);
    });
}

/// A send that is dropped goes on from a copy: its buffer may be changed.
#[test]
fn a_send_that_is_given_up_before_its_receive_arrives() {
    const LENGTH: usize = 500_001;
    let tally = Arc::new(Tally::default());
    let shared = Arc::clone(&tally);
    threads(without_parcels(), move |world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        prepare(&world, FileMethod::new(u64::from(rank), 0, &shared));
        for id in 0..10 {
            if rank == 0 {
                let mut out = payload::of(id, LENGTH);
                endpoint.scope(|scope| drop(scope.isend(&out, 1, 7).unwrap()));
                out.fill(0xee);
                endpoint.send(&[1_u8], 1, 8).unwrap();
            } else {
                // The message is here, and has met no receive.
                assert_eq!(endpoint.probe(0, 7).unwrap().bytes, LENGTH);
                endpoint.recv(&mut [0_u8], 0, 8).unwrap();
                let mut arrived = vec![0; LENGTH];
                assert_eq!(endpoint.recv(&mut arrived, 0, 7).unwrap().bytes, LENGTH);
                assert_eq!(payload::first_difference(id, &arrived), None);
            }
        }
        world.finalize().unwrap();
    });
    assert_eq!((tally.open.load(Relaxed), tally.complete.load(Relaxed)), (0, 0), "{tally:?}");
    assert!(tally.abandoned.load(Relaxed) > 0, "{tally:?}");
}

#[test]
fn a_second_method_is_given_back() {
    threads(SegmentConfig::new(1), |world| {
        let method = || Box::new(FileMethod::new(1, 0, &Arc::default()));
        // SAFETY: the methods make no call of the world.
        unsafe {
            assert!(world.set_transfer_method(method()).is_ok());
            assert!(world.set_transfer_method(method()).is_err());
        }
    });
}

/// Rank 1 dies after `moves` calls of its method. Every operation of rank 0 ends.
fn dies_after(world: &World, moves: u32) {
    let (endpoint, peer) = (world.endpoint(), 1 - world.rank());
    let tally = Arc::new(Tally::default());
    let method = FileMethod::new(u64::from(moves), 0, &tally);
    prepare(world, if world.rank() == 1 { method.dying_after(moves) } else { method });
    let out = payload::of(1, 999_983);
    let mut failed = false;
    while !failed {
        let mut arrived = vec![0; out.len()];
        endpoint.scope(|scope| {
            let receive = scope.irecv(&mut arrived, peer, 1).unwrap();
            let send = match scope.isend(&out, peer, 1) {
                Ok(send) => send.wait(),
                Err(error) => Err(error),
            };
            for error in [send, receive.wait()].into_iter().filter_map(Result::err) {
                assert_eq!(error.gone_peer(), Some(peer), "{error}");
                failed = true;
            }
        });
        if !failed {
            assert_eq!(payload::first_difference(1, &arrived), None);
        }
    }
    assert_eq!(tally.open.load(Relaxed), 0, "{tally:?}");
}

#[test]
fn a_rank_dies_while_its_method_moves_messages() {
    const MOVES: [u32; 6] = [0, 1, 5, 17, 40, 101];
    for moves in MOVES {
        Ranks::new(2, "a_rank_dies_while_its_method_moves_messages")
            .shaped(without_parcels())
            .with_deaths(&[1])
            .with("STRAIT_TEST_MOVES", moves)
            .run(|world| {
                let moves = std::env::var("STRAIT_TEST_MOVES").unwrap().parse().unwrap();
                dies_after(&world, moves);
                world.finalize().unwrap();
            });
    }
}
