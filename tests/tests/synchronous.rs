//! Synchronous sends: complete only after their receives have begun, on a node and between nodes.

use std::io::IoSlice;

use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{
    Endpoint, Error, Fault, Nodes, Rendezvous, Tuning, Vectored, World, test_some, wait_all,
};
use strait_tests::{Ranks, by_each_transfer, die, in_one_thread, payload, shape, threads_on};

/// Lengths of messages that go by line, by one cell, by many, in parcels, and large.
const LENGTHS: [usize; 7] = [0, 8, 900, 10_000, 30_000, 100_000, 600_000];

/// The tag of the messages that coordinate the ranks.
const NEWS: u32 = 99;

/// Rank 0 sends one message of each length. Rank 1 sees and receives each only when rank 0 has
/// polled again. Both signal this by messages, so nothing depends on time.
fn wait_for_receives(endpoint: Endpoint<'_>) {
    let data: Vec<_> = (0..).zip(LENGTHS).map(|(id, length)| payload::of(id, length)).collect();
    let all = || (0..LENGTHS.len() as u32).zip(LENGTHS);
    if endpoint.world().rank() == 0 {
        endpoint.scope(|scope| {
            let mut sends = Vec::new();
            for (tag, data) in (0..).zip(&data) {
                sends.push(scope.issend(data, 1, tag).unwrap());
            }
            endpoint.recv(&mut [0_u8], 1, NEWS).unwrap();
            for _ in 0..100 {
                let over = test_some(&mut sends).unwrap();
                assert!(over.is_pending(), "{over:?} have met no receive");
            }
            endpoint.send(&[0_u8], 1, NEWS).unwrap();
            wait_all(&mut sends).unwrap();
            for (request, (tag, length)) in sends.iter().zip(all()) {
                let status = request.status().unwrap().unwrap();
                assert_eq!((status.source, status.tag, status.bytes), (1, tag, length));
            }
        });
    } else {
        for (tag, length) in all() {
            assert_eq!(endpoint.probe(0, tag).unwrap().bytes, length);
        }
        endpoint.send(&[0_u8], 0, NEWS).unwrap();
        endpoint.recv(&mut [0_u8], 0, NEWS).unwrap();
        // Receives in any order.
        for (tag, length) in all().rev() {
            let mut bytes = vec![0; length];
            endpoint.recv(&mut bytes, 0, tag).unwrap();
            assert_eq!(payload::first_difference(tag.into(), &bytes), None, "{length} bytes");
        }
    }
}

/// The receives are posted first, and the sends wait; then both again with messages in segments.
fn meet_receives(endpoint: Endpoint<'_>) {
    for (tag, length) in (0..).zip(LENGTHS) {
        let (data, mut bytes) = (payload::of(tag.into(), length), vec![0; length]);
        let (first, second) = data.split_at(length / 3);
        let parts = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)];
        for vectored in [false, true] {
            endpoint.scope(|scope| {
                if endpoint.world().rank() == 0 {
                    endpoint.recv(&mut [0_u8], 1, NEWS).unwrap();
                    match vectored {
                        false => endpoint.ssend(&data, 1, tag).unwrap(),
                        true => {
                            scope.issend(Vectored::new(&parts), 1, tag).unwrap().wait().unwrap();
                        }
                    }
                } else {
                    let receive = scope.irecv(&mut bytes, ANY_SOURCE, tag).unwrap();
                    endpoint.send(&[0_u8], 0, NEWS).unwrap();
                    assert_eq!(receive.wait().unwrap().bytes, length);
                }
            });
            if endpoint.world().rank() == 1 {
                assert_eq!(payload::first_difference(tag.into(), &bytes), None);
                bytes.fill(0);
            }
        }
    }
}

/// A synchronous send keeps its place among standard sends, and one that is dropped goes on.
fn keep_order(endpoint: Endpoint<'_>) {
    const COUNT: u64 = 30;
    let length = |id: u64| LENGTHS[id as usize * 5 % LENGTHS.len()];
    if endpoint.world().rank() == 0 {
        let data: Vec<_> = (0..COUNT).map(|id| payload::of(id, length(id))).collect();
        endpoint.scope(|scope| {
            let mut sends = Vec::new();
            for (id, data) in (0..COUNT).zip(&data) {
                match id % 3 {
                    0 => sends.push(scope.isend(data, 1, 0).unwrap()),
                    1 => sends.push(scope.issend(data, 1, 0).unwrap()),
                    _ => drop(scope.issend(data, 1, 0).unwrap()),
                }
            }
            wait_all(&mut sends).unwrap();
        });
    } else {
        for id in 0..COUNT {
            let mut bytes = vec![0; length(id)];
            let status = endpoint.recv(&mut bytes, 0, 0).unwrap();
            assert_eq!(status.bytes, length(id), "message {id}");
            assert_eq!(payload::first_difference(id, &bytes), None, "message {id}");
        }
    }
}

fn all(world: &World) {
    wait_for_receives(world.endpoint());
    meet_receives(world.endpoint());
    keep_order(world.endpoint());
}

#[test]
fn on_a_node_by_each_transfer() {
    by_each_transfer(all);
}

#[test]
fn on_a_node_with_next_to_no_room() {
    threads_on(shape::tiny(2, 1), &Nodes::one(2), |world| {
        all(&world);
        world.finalize().unwrap();
    });
}

#[test]
fn between_nodes() {
    for rendezvous in [Rendezvous::Plain, Rendezvous::Speculative] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, 2).unwrap(), move |world| {
            world.retune(Tuning { rendezvous, ..world.tuning() });
            all(&world);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn to_oneself() {
    in_one_thread(SegmentConfig::new(1), |worlds| {
        let endpoint = worlds[0].endpoint();
        for length in LENGTHS {
            let (data, mut bytes) = (payload::of(1, length), vec![0; length]);
            endpoint.scope(|scope| {
                let receive = scope.irecv(&mut bytes, 0, 0).unwrap();
                endpoint.ssend(&data, 0, 0).unwrap();
                receive.wait().unwrap();
            });
            assert_eq!(payload::first_difference(1, &bytes), None);
            endpoint.scope(|scope| {
                let mut send = scope.issend(&data, 0, 0).unwrap();
                assert_eq!(send.test().unwrap(), None);
                endpoint.recv(&mut bytes, 0, 0).unwrap();
                send.wait().unwrap();
            });
        }
        // No receive will ever call for this message, and the end of the job does not wait for it.
        endpoint.scope(|scope| drop(scope.issend(&[1_u8], 0, 0).unwrap()));
    });
}

/// The receiver dies when the sends have reached it, but no receive.
fn end_with_their_peer(job: Ranks) {
    const VICTIM: u32 = 1;
    job.with_deaths(&[VICTIM]).run(|world| {
        let endpoint = world.endpoint();
        if world.rank() == VICTIM {
            for tag in 0..LENGTHS.len() as u32 {
                endpoint.probe(0, tag).unwrap();
            }
            die();
        }
        let data: Vec<_> = LENGTHS.into_iter().map(|length| vec![7_u8; length]).collect();
        let died = |error| matches!(error, Error::Fault(Fault::PeerFailed { rank: VICTIM, .. }));
        endpoint.scope(|scope| {
            let mut sends = Vec::new();
            for (tag, data) in (0..).zip(&data) {
                sends.push(scope.issend(data, VICTIM, tag).unwrap());
            }
            for send in sends {
                assert!(died(send.wait().unwrap_err()));
            }
        });
        assert!(endpoint.ssend(&[0_u8], VICTIM, 0).is_err());
        world.finalize().unwrap();
    });
}

#[test]
fn they_end_with_their_peer_on_a_node() {
    end_with_their_peer(Ranks::new(2, "they_end_with_their_peer_on_a_node"));
}

#[test]
fn they_end_with_their_peer_on_another_node() {
    end_with_their_peer(Ranks::new(2, "they_end_with_their_peer_on_another_node").on_nodes(2));
}
