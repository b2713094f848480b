//! Matched probes: a message that a probe has taken out of matching is received by its handle
//! alone, on a node and between nodes.

use std::io::IoSliceMut;

use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{
    ANY_TAG, Endpoint, Error, Fault, Nodes, Rendezvous, StartError, Status, Tuning, Vectored,
    World, wait_all,
};
use strait_tests::{Ranks, by_each_transfer, die, in_one_thread, payload, shape, threads_on};

/// Lengths of messages that go by line, by one cell, by many, in parcels, and large.
const LENGTHS: [usize; 7] = [0, 8, 900, 10_000, 30_000, 100_000, 600_000];

/// The tag of the messages that coordinate the ranks.
const NEWS: u32 = 99;

/// Returns the payload of the message with this tag.
fn bytes_of(tag: u32) -> Vec<u8> {
    payload::of(tag.into(), LENGTHS[tag as usize % LENGTHS.len()])
}

/// Rank 0 sends messages of all lengths, two of each, half of them synchronous. Rank 1 matches all,
/// then receives them last to first, in four ways.
fn match_all(endpoint: Endpoint<'_>) {
    let tags = || 0..2 * LENGTHS.len() as u32;
    if endpoint.world().rank() == 0 {
        let data: Vec<_> = tags().map(bytes_of).collect();
        endpoint.scope(|scope| {
            let mut sends = Vec::new();
            for (tag, data) in tags().zip(&data) {
                sends.push(match (tag as usize) < LENGTHS.len() {
                    true => scope.isend(data, 1, tag).unwrap(),
                    false => scope.issend(data, 1, tag).unwrap(),
                });
            }
            wait_all(&mut sends).unwrap();
        });
        return;
    }
    let mut matched = Vec::new();
    for tag in tags() {
        // Each of these probes finds the oldest message of its source.
        let message = match tag % 3 {
            0 => endpoint.mprobe(0, tag).unwrap(),
            1 => endpoint.mprobe(ANY_SOURCE, tag).unwrap(),
            _ => loop {
                if let Some(message) = endpoint.improbe(ANY_SOURCE, ANY_TAG).unwrap() {
                    break message;
                }
            },
        };
        let bytes = LENGTHS[tag as usize % LENGTHS.len()];
        assert_eq!(message.status(), Status { source: 0, tag, bytes });
        matched.push(message);
    }
    assert_eq!(endpoint.iprobe(ANY_SOURCE, ANY_TAG).unwrap(), None, "all are matched");
    for (tag, message) in tags().zip(matched).rev() {
        let (expected, status) = (bytes_of(tag), message.status());
        let mut bytes = vec![0xee; expected.len() + 3];
        let (head, tail) = bytes.split_at_mut(expected.len() / 3);
        let received = match tag % 4 {
            0 => endpoint.scope(|scope| scope.imrecv(message, &mut bytes)?.wait()),
            1 => {
                message.recv(Vectored::new_mut(&mut [IoSliceMut::new(head), IoSliceMut::new(tail)]))
            }
            2 => {
                let mut parts = [IoSliceMut::new(head), IoSliceMut::new(tail)];
                endpoint.scope(|scope| scope.imrecv(message, Vectored::new_mut(&mut parts))?.wait())
            }
            _ => message.recv(&mut bytes),
        };
        assert_eq!(received.unwrap(), status);
        assert_eq!(payload::first_difference(tag.into(), &bytes[..expected.len()]), None);
        assert_eq!(bytes[expected.len()..], [0xee; 3], "message {tag}");
    }
}

/// A matched message that is longer than its buffer is truncated, and the next message is intact.
fn truncate(endpoint: Endpoint<'_>) {
    for (tag, length) in (0..).zip(LENGTHS).filter(|(_, length)| *length > 0) {
        if endpoint.world().rank() == 0 {
            let (one, other) = (bytes_of(tag), payload::of(77, length));
            endpoint.scope(|scope| {
                let sends = [&one, &other].map(|data| scope.isend(data, 1, tag).unwrap());
                wait_all(&mut { sends }).unwrap();
            });
            continue;
        }
        let message = endpoint.mprobe(0, tag).unwrap();
        let mut bytes = vec![0; length];
        let error = message.recv(&mut bytes[..length / 2]).unwrap_err();
        let fault = Fault::Truncated { source: 0, tag, message: length, buffer: length / 2 };
        assert!(matches!(error, Error::Fault(found) if found == fault), "{error}");
        assert_eq!(payload::first_difference(tag.into(), &bytes[..length / 16 * 8]), None);
        endpoint.recv(&mut bytes, 0, tag).unwrap();
        assert_eq!(payload::first_difference(77, &bytes), None);
    }
}

/// A dropped message returns to its place, or goes to the receive that was posted meanwhile.
fn put_back(endpoint: Endpoint<'_>) {
    let (tags, order) = (LENGTHS.len() as u32, |tag: u32| (tag * 3) % LENGTHS.len() as u32);
    if endpoint.world().rank() == 0 {
        let data: Vec<_> = (0..tags).map(bytes_of).collect();
        for _ in 0..2 {
            endpoint.scope(|scope| {
                let mut sends = Vec::new();
                for (tag, data) in (0..).zip(&data) {
                    sends.push(scope.isend(data, 1, tag).unwrap());
                }
                endpoint.recv(&mut [0_u8], 1, NEWS).unwrap();
                wait_all(&mut sends).unwrap();
            });
        }
        return;
    }
    let take_all =
        || -> Vec<_> { (0..tags).map(|tag| Some(endpoint.mprobe(0, tag).unwrap())).collect() };
    let mut matched = take_all();
    endpoint.send(&[0_u8], 0, NEWS).unwrap();
    (0..tags).for_each(|tag| drop(matched[order(tag) as usize].take().unwrap()));
    for tag in 0..tags {
        let mut bytes = vec![0; bytes_of(tag).len()];
        let status = endpoint.recv(&mut bytes, 0, ANY_TAG).unwrap();
        assert_eq!(status, Status { source: 0, tag, bytes: bytes.len() }, "as they were sent");
        assert_eq!(bytes, bytes_of(tag));
    }

    let mut matched = take_all();
    let mut rooms: Vec<_> = (0..tags).map(|_| vec![0; 600_000]).collect();
    endpoint.scope(|scope| {
        let asked = endpoint.world().rtrs().sent;
        let mut receives = Vec::new();
        for (tag, room) in (0..).zip(&mut rooms) {
            let source = if tag % 2 == 0 { 0 } else { ANY_SOURCE };
            receives.push(scope.irecv(room, source, tag).unwrap());
        }
        // No receive has asked its sender for another message.
        assert_eq!(endpoint.world().rtrs().sent, asked);
        assert!(receives.iter_mut().all(|receive| receive.test().unwrap().is_none()));
        endpoint.send(&[0_u8], 0, NEWS).unwrap();
        (0..tags).for_each(|tag| drop(matched[order(tag) as usize].take().unwrap()));
        wait_all(&mut receives).unwrap();
    });
    for (tag, room) in (0..).zip(&rooms) {
        let expected = bytes_of(tag);
        assert!(room[..expected.len()] == expected, "message {tag}");
    }
}

fn all(world: &World) {
    match_all(world.endpoint());
    truncate(world.endpoint());
    put_back(world.endpoint());
}

#[test]
fn on_a_node_by_each_transfer() {
    by_each_transfer(all);
}

#[test]
fn on_a_node_with_next_to_no_room() {
    // Most messages are offered, and some are arriving when they are matched.
    for unexpected_max in [0, 2000, 1 << 20] {
        threads_on(shape::tiny(2, 1), &Nodes::one(2), move |world| {
            world.retune(Tuning { unexpected_max, ..world.tuning() });
            all(&world);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn between_nodes() {
    for rendezvous in [Rendezvous::Plain, Rendezvous::Speculative] {
        for unexpected_max in [2000, 4 << 20] {
            threads_on(SegmentConfig::new(2), &Nodes::blocks(2, 2).unwrap(), move |world| {
                world.retune(Tuning { rendezvous, unexpected_max, ..world.tuning() });
                all(&world);
                world.finalize().unwrap();
            });
        }
    }
}

/// Parts of one message arrive while it is matched, while it is received, or both, and while others
/// wait.
#[test]
fn a_message_that_is_arriving_is_matched() {
    in_one_thread(shape::tiny(2, 1), |worlds| {
        let [sender, receiver] = [worlds[0].endpoint(), worlds[1].endpoint()];
        let data = payload::of(1, 20_000);
        let turn = |count: usize| {
            (0..count).for_each(|_| worlds.iter().for_each(|w| w.endpoint().progress().unwrap()));
        };
        for (early, late) in (0..5).flat_map(|early| [0, 1, 3, 30].map(|late| (early, late))) {
            let mut bytes = vec![0; 20_000];
            sender.scope(|sends| {
                let mut send = sends.isend(&data, 1, 0).unwrap();
                turn(early);
                let message = loop {
                    if let Some(message) = receiver.improbe(0, 0).unwrap() {
                        break message;
                    }
                };
                turn(late);
                receiver.scope(|receives| {
                    let mut receive = receives.imrecv(message, &mut bytes).unwrap();
                    while receive.test().unwrap().is_none() {
                        turn(1);
                    }
                });
                while send.test().unwrap().is_none() {
                    turn(1);
                }
            });
            assert!(bytes == data, "{early} {late}");
        }
    });
}

/// A receive takes the messages that are not matched, before and behind those that are.
#[test]
fn others_pass_by() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let [sender, receiver] = [worlds[0].endpoint(), worlds[1].endpoint()];
        let mut word = [0_u64];
        (0..6_u64).for_each(|number| sender.send(&[number], 1, (number % 2) as u32).unwrap());
        let third = {
            receiver.recv(&mut word, 0, 0).unwrap();
            receiver.mprobe(0, 0).unwrap()
        };
        let second = receiver.mprobe(ANY_SOURCE, 1).unwrap();
        for expected in [3, 4, 5] {
            receiver.recv(&mut word, ANY_SOURCE, ANY_TAG).unwrap();
            assert_eq!(word, [expected]);
        }
        assert_eq!(third.recv(&mut word).unwrap().bytes, 8);
        assert_eq!(word, [2]);
        drop(second);
        receiver.recv(&mut word, 0, ANY_TAG).unwrap();
        assert_eq!(word, [1]);
        assert!(worlds[1].held().bytes == 0);
        // A message that is not received when its rank leaves is released with all others.
        sender.send(&word, 1, 7).unwrap();
        drop(receiver.mprobe(0, 7).unwrap());
    });
}

#[test]
fn a_message_of_another_world_than_the_scope_s_is_received() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let mut word = [0_u64];
        worlds[0].endpoint().send(&[7_u64], 1, 0).unwrap();
        let message = worlds[1].endpoint().mprobe(0, 0).unwrap();
        worlds[0].endpoint().scope(|scope| {
            let request = scope.imrecv(message, &mut word).unwrap();
            assert_eq!(request.wait().unwrap().source, 0);
        });
        assert_eq!(word, [7]);
    });
}

/// The sender dies after its messages were matched. Messages that have arrived are received;
/// messages that it kept are not. Between nodes it `keeps` its synchronous messages.
fn end_with_their_sender(job: Ranks, keeps: bool) {
    const VICTIM: u32 = 1;
    job.with("STRAIT_PARCEL_MAX", 0).with_deaths(&[VICTIM]).run(move |world| {
        let endpoint = world.endpoint();
        if world.rank() == VICTIM {
            let data: Vec<_> = (0..2 * LENGTHS.len() as u32).map(bytes_of).collect();
            endpoint.scope(|scope| {
                let mut sends = Vec::new();
                for (tag, data) in (0..).zip(&data) {
                    sends.push(match (tag as usize) < LENGTHS.len() {
                        true => scope.isend(data, 0, tag).unwrap(),
                        false => scope.issend(data, 0, tag).unwrap(),
                    });
                }
                endpoint.recv(&mut [0_u8], 0, NEWS).unwrap();
                die();
            });
        }
        let tags = 0..2 * LENGTHS.len() as u32;
        let matched: Vec<_> = tags.map(|tag| endpoint.mprobe(VICTIM, tag).unwrap()).collect();
        // The short messages have arrived before this one, because it is behind them.
        endpoint.send(&[0_u8], VICTIM, NEWS).unwrap();
        let died = |error: &Error| {
            let fault = match error {
                Error::Fault(fault) | Error::Start(StartError::Peer(fault)) => fault,
                _ => return false,
            };
            matches!(fault, Fault::PeerFailed { rank: VICTIM, .. })
        };
        let error = endpoint.recv(&mut [0_u8], VICTIM, NEWS).unwrap_err();
        assert!(died(&error), "{error}");
        for message in matched {
            let Status { tag, bytes: length, .. } = message.status();
            let is_synchronous = tag as usize >= LENGTHS.len();
            let kept = is_synchronous && keeps || length > 12 * 1024;
            if kept && tag % 5 == 4 {
                drop(message);
                continue;
            }
            let mut bytes = vec![0; length];
            match message.recv(&mut bytes) {
                Ok(_) => assert!(!kept && bytes == bytes_of(tag), "message {tag}"),
                Err(error) => assert!(kept && died(&error), "message {tag}: {error}"),
            }
        }
        assert_eq!(world.held().bytes, 0);
        assert!(died(&endpoint.improbe(VICTIM, ANY_TAG).map(drop).unwrap_err()));
        world.finalize().unwrap();
    });
}

#[test]
fn they_end_with_their_sender_on_a_node() {
    end_with_their_sender(Ranks::new(2, "they_end_with_their_sender_on_a_node"), false);
}

#[test]
fn they_end_with_their_sender_on_another_node() {
    let job = Ranks::new(2, "they_end_with_their_sender_on_another_node").on_nodes(2);
    end_with_their_sender(job.with("STRAIT_STREAM_MAX", 12 * 1024), true);
}
