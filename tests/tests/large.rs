//! Messages that are announced and moved by one copy.

use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;
use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{Endpoint, Error, Fault, Request, Transfer, Tuning, Vectored, World, wait_all};
use strait_tests::{Ranks, die, in_one_thread, payload, shape};

/// Lengths on both sides of each limit: eager, grain, job, and a prime far above.
const LENGTHS: [usize; 8] =
    [65_536, 65_537, 262_143, 524_288, 999_983, 1 << 20, (4 << 20) + 1, 16 << 20];

/// The length of one message of the middle range, for scenarios that do not depend on it.
const LENGTH: usize = 700_001;

/// Runs [`in_one_thread`] once for each transfer.
fn by_each_transfer(config: SegmentConfig, body: impl Fn(&[World]) + Send + Sync + 'static) {
    let body = Arc::new(body);
    for transfer in Transfer::ALL {
        println!("by {}", transfer.name());
        let body = Arc::clone(&body);
        in_one_thread(config, move |worlds| {
            for world in worlds {
                world.retune(Tuning { transfer, ..world.tuning() });
            }
            body(worlds);
        });
    }
}

/// Makes progress on all ranks in turn until `request` is complete.
fn finish(worlds: &[World], mut request: Request<'_>) -> Result<strait::Status, Error> {
    loop {
        if let Some(status) = request.test()? {
            return Ok(status);
        }
        progress(worlds);
    }
}

fn progress(worlds: &[World]) {
    worlds.iter().for_each(|world| world.endpoint().progress().unwrap());
}

fn receive(endpoint: Endpoint<'_>, id: u64, length: usize, source: u32, tag: u32) {
    let mut bytes = vec![0xee; length + 5];
    let status = endpoint.recv(&mut bytes, source, tag).unwrap();
    assert_eq!((status.bytes, status.tag), (length, tag));
    assert_eq!(payload::first_difference(id, &bytes[..length]), None, "message {id}");
    assert_eq!(bytes[length..], [0xee; 5], "message {id}");
}

/// Two ranks exchange messages of every length: expected, unexpected, truncated, and many in both
/// directions at once.
fn exchange(world: &World) {
    let (endpoint, peer) = (world.endpoint(), 1 - world.rank());
    for (id, length) in (0..).zip(LENGTHS) {
        if world.rank() == 0 {
            endpoint.send(&payload::of(id, length), 1, 1).unwrap();
            receive(endpoint, id, length, 1, 2);
        } else {
            assert_eq!(endpoint.probe(ANY_SOURCE, 1).unwrap().bytes, length);
            receive(endpoint, id, length, ANY_SOURCE, 1);
            endpoint.send(&payload::of(id, length), 0, 2).unwrap();
        }
        both_ways(endpoint, peer, length.min(300_000));
        truncated(endpoint, peer, length.min(1 << 20));
    }
}

fn both_ways(endpoint: Endpoint<'_>, peer: u32, length: usize) {
    const COUNT: u64 = 6;
    let out: Vec<_> = (0..COUNT).map(|id| payload::of(id, length)).collect();
    let mut arrived = vec![vec![0; length]; COUNT as usize];
    endpoint.scope(|scope| {
        let sends = out.iter().zip(0..).map(|(bytes, tag)| scope.isend(bytes, peer, tag).unwrap());
        let mut requests: Vec<_> = sends.collect();
        // Receives them in another order than they were sent.
        for (bytes, tag) in arrived.iter_mut().zip(0..COUNT as u32).rev() {
            requests.push(scope.irecv(bytes, peer, tag).unwrap());
        }
        wait_all(&mut requests).unwrap();
    });
    for (id, bytes) in (0..).zip(&arrived) {
        assert_eq!(payload::first_difference(id, bytes), None, "message {id} of {length} bytes");
    }
}

fn truncated(endpoint: Endpoint<'_>, peer: u32, length: usize) {
    let out = payload::of(9, length);
    let room = length - length / 3;
    let mut bytes = vec![0xee; room];
    endpoint.scope(|scope| {
        let receive = scope.irecv(&mut bytes, peer, 5).unwrap();
        scope.isend(&out, peer, 5).unwrap().wait().unwrap();
        let error = receive.wait().unwrap_err();
        let expected = Fault::Truncated { source: peer, tag: 5, message: length, buffer: room };
        assert!(matches!(error, Error::Fault(fault) if fault == expected), "{error}");
    });
    assert_eq!(payload::first_difference(9, &bytes), None);
}

fn exchange_by(name: &'static str, transfer: &str) {
    Ranks::new(2, name).with("STRAIT_LMT", transfer).run(|world| {
        exchange(&world);
        world.finalize().unwrap();
    });
}

#[test]
fn both_sides_copy() {
    exchange_by("both_sides_copy", "cma_shared");
}

#[test]
fn the_receiver_copies() {
    exchange_by("the_receiver_copies", "cma");
}

#[test]
fn the_copy_ring_carries() {
    exchange_by("the_copy_ring_carries", "copy_ring");
}

#[test]
fn the_copy_ring_carries_round_the_caches() {
    exchange_by("the_copy_ring_carries_round_the_caches", "copy_ring_nt");
}

#[test]
fn the_fastest_is_found() {
    exchange_by("the_fastest_is_found", "auto");
}

#[test]
fn any_source_takes_announced_messages_of_all() {
    const RANKS: u32 = 4;
    Ranks::new(RANKS, "any_source_takes_announced_messages_of_all").run(|world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        for round in 0..5 {
            if rank > 0 {
                endpoint.send(&payload::of(u64::from(rank), LENGTH), 0, round).unwrap();
                continue;
            }
            for _ in 1..RANKS {
                let mut bytes = vec![0; LENGTH];
                let status = endpoint.recv(&mut bytes, ANY_SOURCE, round).unwrap();
                let id = u64::from(status.source);
                assert_eq!(payload::first_difference(id, &bytes), None, "rank {id}");
            }
        }
        world.finalize().unwrap();
    });
}

#[test]
fn more_messages_than_descriptors_are_under_way() {
    by_each_transfer(SegmentConfig::new(2), |worlds| {
        const COUNT: usize = 100;
        let length = 40_000;
        let out: Vec<_> = (0..COUNT as u64).map(|id| payload::of(id, length)).collect();
        worlds[0].endpoint().scope(|sends| {
            let mut sent: Vec<_> =
                (0..).zip(&out).map(|(tag, bytes)| sends.isend(bytes, 1, tag).unwrap()).collect();
            for id in (0..COUNT).rev() {
                let mut bytes = vec![0; length];
                worlds[1].endpoint().scope(|scope| {
                    let request = scope.irecv(&mut bytes, 0, id as u32).unwrap();
                    finish(worlds, request).unwrap();
                });
                assert_eq!(payload::first_difference(id as u64, &bytes), None);
            }
            for request in sent.drain(..) {
                finish(worlds, request).unwrap();
            }
        });
    });
}

#[test]
fn buffers_in_parts_meet_on_either_side_or_both() {
    by_each_transfer(shape::tiny(2, 2), |worlds| {
        let bytes = payload::of(1, LENGTH);
        for (cut_out, cut_in) in [(true, false), (false, true), (true, true)] {
            let cuts = |cut: bool| if cut { [7, 40_003] } else { [0, 0] };
            let [a, b] = cuts(cut_out);
            let out = [&bytes[..a], &bytes[a..b], &[], &bytes[b..]].map(IoSlice::new);
            let mut arrived = vec![0; LENGTH];
            let [a, b] = cuts(cut_in);
            let (first, rest) = arrived.split_at_mut(a);
            let (second, third) = rest.split_at_mut(b - a);
            let mut parts = [third, second, first];
            parts.reverse();
            let mut parts = parts.map(IoSliceMut::new);
            worlds[0].endpoint().scope(|sends| {
                let send = match cut_out {
                    true => sends.isend(Vectored::new(&out), 1, 3).unwrap(),
                    false => sends.isend(&bytes, 1, 3).unwrap(),
                };
                worlds[1].endpoint().scope(|receives| {
                    let request = match cut_in {
                        true => receives.irecv(Vectored::new_mut(&mut parts), 0, 3).unwrap(),
                        false => receives.irecv(&mut parts[2], 0, 3).unwrap(),
                    };
                    finish(worlds, request).unwrap();
                });
                finish(worlds, send).unwrap();
            });
            assert_eq!(payload::first_difference(1, &arrived), None, "{cut_out} {cut_in}");
        }
    });
}

/// Receives message 1 at rank 1, and checks it.
fn expect(worlds: &[World], length: usize) {
    let mut bytes = vec![0; length];
    worlds[1].endpoint().scope(|scope| {
        let request = scope.irecv(&mut bytes, 0, 0).unwrap();
        assert_eq!(finish(worlds, request).unwrap().bytes, length);
    });
    assert_eq!(payload::first_difference(1, &bytes), None);
}

#[test]
fn a_dropped_send_goes_on_from_a_copy() {
    for (name, moves) in [("before it is announced", 0), ("announced", 1)] {
        by_each_transfer(SegmentConfig::new(2), move |worlds| {
            let mut bytes = payload::of(1, LENGTH);
            worlds[0].endpoint().scope(|scope| {
                drop(scope.isend(&bytes, 1, 0).unwrap());
            });
            bytes.fill(0);
            (0..moves).for_each(|_| progress(worlds));
            expect(worlds, LENGTH);
        });
        println!("dropped {name}");
    }
}

#[test]
fn a_send_that_is_dropped_half_way_goes_on_from_a_copy() {
    // One call moves four jobs, so a message of many jobs is partly moved after one call.
    let length = 8 << 20;
    for (sender_moves, receiver_moves) in [(0, 1), (1, 1), (2, 0), (0, 3)] {
        by_each_transfer(SegmentConfig::new(2), move |worlds| {
            let mut bytes = payload::of(1, length);
            let mut arrived = vec![0; length];
            worlds[1].endpoint().scope(|receives| {
                let receive = receives.irecv(&mut arrived, 0, 0).unwrap();
                worlds[0].endpoint().scope(|sends| {
                    let send = sends.isend(&bytes, 1, 0).unwrap();
                    (0..receiver_moves).for_each(|_| worlds[1].endpoint().progress().unwrap());
                    (0..sender_moves).for_each(|_| worlds[0].endpoint().progress().unwrap());
                    drop(send);
                });
                bytes.fill(0);
                finish(worlds, receive).unwrap();
            });
            assert_eq!(payload::first_difference(1, &arrived), None);
        });
    }
}

#[test]
fn a_dropped_receive_is_written_no_more_and_its_sender_goes_on() {
    for moves in 0..4 {
        by_each_transfer(SegmentConfig::new(2), move |worlds| {
            let bytes = payload::of(1, 8 << 20);
            let mut arrived = vec![0; bytes.len()];
            worlds[0].endpoint().scope(|sends| {
                worlds[1].endpoint().scope(|receives| {
                    let receive = receives.irecv(&mut arrived, 0, 7).unwrap();
                    let send = sends.isend(&bytes, 1, 7).unwrap();
                    worlds[1].endpoint().progress().unwrap();
                    (0..moves).for_each(|_| progress(worlds));
                    drop(receive);
                    finish(worlds, send).unwrap();
                });
                arrived.fill(0xee);
                (0..10).for_each(|_| progress(worlds));
                assert!(arrived.iter().all(|byte| *byte == 0xee), "after {moves} moves");
            });
            // The channel is intact.
            let out = payload::of(1, LENGTH);
            worlds[0].endpoint().scope(|sends| drop(sends.isend(&out, 1, 0).unwrap()));
            expect(worlds, LENGTH);
        });
    }
}

#[test]
fn a_long_message_to_oneself_arrives() {
    by_each_transfer(SegmentConfig::new(1), |worlds| {
        let (bytes, mut arrived) = (payload::of(4, LENGTH), vec![0; LENGTH]);
        worlds[0].endpoint().scope(|scope| {
            let send = scope.isend(&bytes, 0, 0).unwrap();
            let receive = scope.irecv(&mut arrived, 0, 0).unwrap();
            finish(worlds, receive).unwrap();
            finish(worlds, send).unwrap();
        });
        assert_eq!(payload::first_difference(4, &arrived), None);
    });
}

/// Rank 1 dies in the middle of a message to rank 0 and one from it. The messages are only
/// announced, or matched by their receives (`open`), after `moves` calls.
fn dies(world: &World, open: bool, moves: u32) {
    let (endpoint, length) = (world.endpoint(), 32 << 20);
    let (bytes, mut arrived) = (payload::of(1, length), vec![0; length]);
    let peer = 1 - world.rank();
    if world.rank() == 1 {
        endpoint.scope(|scope| {
            let _send = scope.isend(&bytes, peer, 0).unwrap();
            let _receive = open.then(|| scope.irecv(&mut arrived, peer, 0).unwrap());
            endpoint.recv(&mut [0_u8], peer, 1).unwrap();
            (0..moves).for_each(|_| endpoint.progress().unwrap());
            die();
        });
    }
    endpoint.scope(|scope| {
        let receive = open.then(|| scope.irecv(&mut arrived, peer, 0).unwrap());
        let send = scope.isend(&bytes, peer, 0).unwrap();
        endpoint.send(&[0_u8], peer, 1).unwrap();
        for request in [receive, Some(send)].into_iter().flatten() {
            // The message may have been complete before the death. Otherwise the error names the
            // dead rank.
            if let Err(error) = request.wait() {
                assert_eq!(error.gone_peer(), Some(1), "{error}");
            } else {
                assert!(open, "no receive took it");
            }
        }
    });
    assert_eq!(endpoint.send(&bytes, peer, 0).unwrap_err().gone_peer(), Some(1));
    if !open {
        let error = endpoint.recv(&mut arrived, peer, 0).unwrap_err();
        assert_eq!(error.gone_peer(), Some(1), "its announcement went with it");
    }
}

#[test]
fn a_rank_dies_that_was_announced_a_message() {
    Ranks::new(2, "a_rank_dies_that_was_announced_a_message").with_deaths(&[1]).run(|world| {
        dies(&world, false, 0);
    });
}

#[test]
fn a_rank_dies_that_has_open_transfers() {
    Ranks::new(2, "a_rank_dies_that_has_open_transfers").with_deaths(&[1]).run(|world| {
        dies(&world, true, 0);
    });
}

#[test]
fn a_rank_dies_that_is_moving() {
    Ranks::new(2, "a_rank_dies_that_is_moving").with_deaths(&[1]).run(|world| {
        dies(&world, true, 1);
    });
}

#[test]
fn a_rank_dies_that_is_filling_and_emptying_rings() {
    let name = "a_rank_dies_that_is_filling_and_emptying_rings";
    for transfer in ["copy_ring", "copy_ring_nt"] {
        Ranks::new(2, name).with_deaths(&[1]).with("STRAIT_LMT", transfer).run(|world| {
            dies(&world, true, 3);
        });
    }
}

/// Every rank sends to every other; rank 2 is killed at an arbitrary moment.
fn killed_at_any_moment(name: &'static str, transfer: &str) {
    Ranks::new(3, name).with_deaths(&[2]).with("STRAIT_LMT", transfer).run(|world| {
        let endpoint = world.endpoint();
        let bytes = payload::of(1, 2 << 20);
        if world.rank() == 2 {
            std::thread::spawn(|| {
                std::thread::sleep(core::time::Duration::from_millis(150));
                die();
            });
        }
        let mut gone = false;
        for round in 0..60_u32 {
            for peer in (0..3).filter(|peer| *peer != world.rank()) {
                if peer == 2 && gone {
                    continue;
                }
                let mut arrived = vec![0; bytes.len()];
                let result = endpoint.sendrecv(&bytes, peer, round, &mut arrived, peer, round);
                match result {
                    Ok(_) => assert_eq!(payload::first_difference(1, &arrived), None),
                    Err(error) if error.gone_peer() == Some(2) => gone = true,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        if world.rank() == 2 {
            std::thread::sleep(core::time::Duration::from_secs(20));
        }
        world.finalize().unwrap();
    });
}

#[test]
fn a_rank_is_killed_while_it_copies_and_the_others_go_on() {
    killed_at_any_moment("a_rank_is_killed_while_it_copies_and_the_others_go_on", "cma_shared");
}

/// Two ranks exchange large messages. Between the start of a message and its wait each computes for
/// drawn times, and enters the library for a short message, so that either side leaves while the
/// message is under way.
#[test]
fn sides_leave_and_come_back_at_any_time() {
    const ROUNDS: u64 = 60;
    Ranks::new(2, "sides_leave_and_come_back_at_any_time").run(|world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        let peer = 1 - rank;
        let (mut common, mut own) = (Rng::with_seed(1), Rng::with_seed(100 + u64::from(rank)));
        for round in 0..ROUNDS {
            let lengths: [usize; 2] = core::array::from_fn(|_| common.usize(100_000..2_500_000));
            let (mine, theirs) = (lengths[rank as usize], lengths[peer as usize]);
            let (out, mut arrived) = (payload::of(round, mine), vec![0xee; theirs]);
            endpoint.scope(|scope| {
                let receives_first = own.bool();
                let mut receive = None;
                let mut into = Some(&mut arrived[..]);
                if receives_first {
                    receive = into.take().map(|into| scope.irecv(into, peer, 1).unwrap());
                    compute(own.u64(..150));
                }
                let send = scope.isend(&out, peer, 1).unwrap();
                compute(own.u64(..300));
                if let Some(into) = into {
                    receive = Some(scope.irecv(into, peer, 1).unwrap());
                }
                if common.bool() {
                    let mut short = [0];
                    endpoint.sendrecv(&[round as u8], peer, 2, &mut short, peer, 2).unwrap();
                    assert_eq!(short, [round as u8]);
                    compute(own.u64(..300));
                }
                send.wait().unwrap();
                receive.expect("posted").wait().unwrap();
            });
            assert_eq!(payload::first_difference(round, &arrived), None, "round {round}");
        }
        world.finalize().unwrap();
    });
}

/// Stays outside the library for some microseconds.
fn compute(microseconds: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(microseconds) {
        core::hint::spin_loop();
    }
}

#[test]
fn a_rank_is_killed_while_transfers_change_and_the_others_go_on() {
    killed_at_any_moment("a_rank_is_killed_while_transfers_change_and_the_others_go_on", "auto");
}

#[test]
fn a_rank_is_killed_while_it_streams_and_the_others_go_on() {
    killed_at_any_moment("a_rank_is_killed_while_it_streams_and_the_others_go_on", "copy_ring");
}
