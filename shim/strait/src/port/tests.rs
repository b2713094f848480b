//! Tests with ports of different universes, which know each other only by address.

use core::ptr::NonNull;

use strait_core::buffer::Part;
use strait_core::engine::FailureCause;
use strait_core::hca::HcaError;

use super::*;
use crate::Fault;
use crate::raw::ANY_SOURCE;

const CONTEXT: u32 = 3;

fn universe(name: &str) -> Universe {
    Universe::enter(&format!("test-{}-{name}", std::process::id()), 2).unwrap()
}

/// Creates two ports, each with its own universe, that do not know each other. The first listener
/// is open to other hosts. The second is open if the name of the test ends with `-open`.
fn apart(test: &str) -> [(Universe, Port); 2] {
    [("one", true), ("other", test.ends_with("-open"))].map(|(name, open)| {
        let universe = universe(&format!("{test}-{name}"));
        let port = Port::open_with(&universe, open).unwrap();
        (universe, port)
    })
}

fn cursor(bytes: &mut [u8]) -> Cursor {
    let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
    // SAFETY: callers keep the bytes until the operation is over.
    unsafe { Cursor::contiguous(part) }
}

/// Polls both ports until `done` returns a value.
fn until<T>(ports: [&Port; 2], mut done: impl FnMut() -> Option<T>) -> T {
    loop {
        ports.iter().for_each(|port| port.poll().unwrap());
        if let Some(found) = done() {
            return found;
        }
        std::thread::yield_now();
    }
}

fn send(from: &Port, to: Rank, bytes: &mut [u8]) -> RequestId {
    // SAFETY: callers keep the bytes until the send is over.
    match unsafe { from.isend(to, Key::new(CONTEXT, 5), cursor(bytes)) } {
        Ok(Sent::Pending(id)) => id,
        other => panic!("{other:?}"),
    }
}

fn receive(at: &Port, source: Rank, bytes: &mut [u8]) -> RequestId {
    let pattern = Pattern { context: CONTEXT, source, tag: 5 };
    // SAFETY: callers keep the bytes until the receive is over.
    match unsafe { at.irecv(pattern, cursor(bytes)) } {
        Ok(Received::Pending(id)) => id,
        other => panic!("{other:?}"),
    }
}

/// Creates two ports of one universe. The first has an open fastbox to the second.
fn together(test: &str) -> (Universe, [Port; 2]) {
    let universe = universe(test);
    let ports = [(); 2].map(|()| Port::open(&universe).unwrap());
    let [a, b] = &ports;
    a.meet(b.rank()).unwrap();
    b.meet(a.rank()).unwrap();
    for _ in 0..3 {
        let (mut sent, mut got) = ([1; 9], [0; 9]);
        let id = receive(b, a.rank(), &mut got);
        // SAFETY: the bytes outlive the send, which completes at once because there is room.
        let begun = unsafe { a.isend(b.rank(), Key::new(CONTEXT, 5), cursor(&mut sent)) };
        assert!(matches!(begun, Ok(Sent::Done)), "{begun:?}");
        until([a, b], || b.test(id)).unwrap();
    }
    (universe, ports)
}

#[test]
fn a_sender_sees_that_its_message_has_been_taken() {
    let (_universe, [a, b]) = together("taken");
    let (key, want) = (Key::new(CONTEXT, 5), Want::new(CONTEXT, 5));
    // More messages than the ring has lines, so credit is given early and late.
    for number in 0..300_u32 {
        let sent = number.to_le_bytes();
        let mark = a.send_marked(b.rank(), key, &sent).unwrap();
        assert!(!a.is_taken(b.rank(), mark));
        let mut got = [0; 4];
        assert!(matches!(b.take_next_short(a.rank(), want, &mut got), Bypass::Received(_)));
        b.tell_taken(a.rank());
        assert_eq!((a.is_taken(b.rank(), mark), got), (true, sent));
    }
    let [first, last] = [(); 2].map(|()| a.send_marked(b.rank(), key, &[7; 100]).unwrap());
    let mut got = [0; 100];
    assert!(matches!(b.take_next_medium(a.rank(), want, &mut got), Bypass::Received(_)));
    b.tell_taken(a.rank());
    assert!(a.is_taken(b.rank(), first) && !a.is_taken(b.rank(), last));
}

#[test]
fn a_kept_message_is_received_once_and_counts_until_then() {
    let (_universe, [a, b]) = together("kept");
    let most = b.world.tuning().unexpected_max;
    let large = vec![3; most];
    let key = Key::new(CONTEXT, 5);
    let names = [b.keep(a.rank(), key, &[1, 2, 3]), b.keep(a.rank(), key, &large)];
    let [short, long] = names.map(Result::unwrap);
    until([&a, &b], || a.is_told_to_keep(b.rank()).then_some(()));
    // A kept message is in no queue.
    let pattern = Pattern { context: CONTEXT, source: a.rank(), tag: 5 };
    assert_eq!(b.iprobe(pattern), Ok(None));
    let mut got = [0; 4];
    // SAFETY: the receive ends in the call.
    let received = unsafe { b.imrecv(short, cursor(&mut got)) };
    assert!(
        matches!(received, Ok(Received::Done(Ok(status))) if status.bytes == 3),
        "{received:?}"
    );
    assert_eq!(got, [1, 2, 3, 0]);
    // SAFETY: the receive ends in the call.
    let received = unsafe { b.imrecv(long, cursor(&mut got[..2])) };
    assert!(matches!(received, Ok(Received::Done(Err(Fault::Truncated { .. })))), "{received:?}");
    assert_eq!(got, [3, 3, 3, 0]);
    until([&a, &b], || (!a.is_told_to_keep(b.rank())).then_some(()));
    // SAFETY: nothing is written.
    let again = unsafe { b.imrecv(short, cursor(&mut got)) };
    assert_eq!(again, Ok(Received::Done(Err(Fault::Cancelled))));
    [a, b].into_iter().for_each(|port| port.close().unwrap());
}

#[test]
fn a_full_ring_takes_no_marked_message() {
    let (_universe, [a, b]) = together("full");
    let key = Key::new(CONTEXT, 5);
    let sent = (0..1000).take_while(|_| a.send_marked(b.rank(), key, &[1]).is_some()).count();
    assert!((64..1000).contains(&sent), "{sent}");
}

/// The first port has the address of the second and writes to it. The second learns the sender's
/// number from the message and answers.
#[test]
fn an_unknown_process_is_met_at_the_listener() {
    for (test, length) in [("met", 8), ("met-long", 600_000), ("met-open", 9)] {
        let [(here, a), (there, b)] = apart(test);
        let to = here.number(b.peer_address()).unwrap();
        assert!(a.is_elsewhere(to));
        a.meet(to).unwrap();
        let mut sent: Vec<u8> = (0..length).map(|place| place as u8).collect();
        let (mut got, mut back) = (vec![0; length], vec![0; length]);
        let asked = receive(&b, ANY_SOURCE, &mut got);
        let id = send(&a, to, &mut sent);
        let status = until([&a, &b], || b.test(asked)).unwrap();
        assert_eq!((status.bytes, &got), (length, &sent));
        assert_eq!(there.number(a.peer_address()).unwrap(), status.source, "a number for each");
        until([&a, &b], || a.test(id)).unwrap();
        let asked = receive(&a, to, &mut back);
        let id = send(&b, status.source, &mut got);
        until([&a, &b], || a.test(asked)).unwrap();
        until([&a, &b], || b.test(id)).unwrap();
        assert_eq!(back, sent);
    }
}

/// Both ports write first, so each calls the other.
#[test]
fn calls_that_cross_make_one_connection() {
    let [(here, a), (there, b)] = apart("cross");
    let [to_b, to_a] =
        [here.number(b.peer_address()), there.number(a.peer_address())].map(Result::unwrap);
    a.meet(to_b).unwrap();
    b.meet(to_a).unwrap();
    let (mut from_a, mut from_b, mut at_a, mut at_b) = ([1; 9], [2; 9], [0; 9], [0; 9]);
    let ids = [send(&a, to_b, &mut from_a), receive(&a, to_b, &mut at_a)];
    let others = [send(&b, to_a, &mut from_b), receive(&b, to_a, &mut at_b)];
    for id in ids {
        until([&a, &b], || a.test(id)).unwrap();
    }
    for id in others {
        until([&a, &b], || b.test(id)).unwrap();
    }
    assert_eq!((at_a, at_b), (from_b, from_a));
}

#[test]
fn operations_with_a_process_that_has_left_fail() {
    let [(here, a), (_, b)] = apart("left-open");
    let to = here.number(b.peer_address()).unwrap();
    b.close().unwrap();
    a.meet(to).unwrap();
    let mut bytes = [1; 9];
    let id = receive(&a, to, &mut bytes);
    a.call(to);
    let outcome = until([&a, &a], || a.test(id));
    // No process answered, so the device was not asked.
    let sign = FailureCause::Device(HcaError::Unreachable { peer: to });
    assert_eq!(outcome, Err(Fault::PeerFailed { rank: to, sign }));
    // SAFETY: nothing begins.
    let refused = unsafe { a.isend(to, Key::new(CONTEXT, 5), cursor(&mut bytes)) };
    assert!(matches!(refused, Err(StartError::Peer(Fault::PeerFailed { .. }))), "{refused:?}");
}

#[test]
fn a_message_to_a_process_that_has_left_fails() {
    let [(here, a), (_, b)] = apart("left-sent");
    let to = here.number(b.peer_address()).unwrap();
    b.close().unwrap();
    a.meet(to).unwrap();
    let mut bytes = [1; 9];
    let id = send(&a, to, &mut bytes);
    let outcome = until([&a, &a], || a.test(id));
    // No process answered, so the device was not asked.
    let sign = FailureCause::Device(HcaError::Unreachable { peer: to });
    assert_eq!(outcome, Err(Fault::PeerFailed { rank: to, sign }));
}

#[test]
fn a_process_that_leaves_a_universe_tells_its_peers() {
    let [(here, a), (_, b)] = apart("leave");
    let to = here.number(b.peer_address()).unwrap();
    a.meet(to).unwrap();
    let (mut sent, mut got, mut late) = ([1; 9], [0; 9], [0; 9]);
    let (id, asked) = (send(&a, to, &mut sent), receive(&b, ANY_SOURCE, &mut got));
    until([&a, &b], || b.test(asked)).unwrap();
    until([&a, &b], || a.test(id)).unwrap();
    let asked = receive(&a, to, &mut late);
    b.close().unwrap();
    let outcome = until([&a, &a], || a.test(asked));
    assert_eq!(outcome, Err(Fault::PeerFinished { rank: to }));
}

/// More processes than ranks of the universe come, talk and leave. Each gets its own messages.
#[test]
fn a_process_knows_any_number_of_others_one_after_the_other() {
    let here = universe("many");
    let a = Port::open_with(&here, false).unwrap();
    for number in 0..40_u8 {
        let there = universe(&format!("many-{number}"));
        let b = Port::open_with(&there, false).unwrap();
        let to = here.number(b.peer_address()).unwrap();
        assert_eq!(to, a.world.size() + u32::from(number), "a number of its own");
        a.meet(to).unwrap();
        let (mut sent, mut got, mut back) = ([number; 9], [0; 9], [0; 9]);
        let asked = receive(&b, ANY_SOURCE, &mut got);
        let id = send(&a, to, &mut sent);
        let source = until([&a, &b], || b.test(asked)).unwrap().source;
        until([&a, &b], || a.test(id)).unwrap();
        let asked = receive(&a, ANY_SOURCE, &mut back);
        let id = send(&b, source, &mut got);
        assert_eq!(until([&a, &b], || a.test(asked)).unwrap().source, to);
        until([&a, &b], || b.test(id)).unwrap();
        assert_eq!(back, [number; 9]);
        if number.is_multiple_of(2) {
            b.close().unwrap();
        } else {
            // The port leaves without a message.
            drop(b);
        }
        until([&a, &a], || a.gone(to));
        until([&a, &a], || {
            a.world.with_network(|network| network.is_without_links())?.then_some(())
        });
    }
}

fn part(bytes: &mut [u8]) -> [Part; 1] {
    [Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() }]
}

/// Returns how a peer's read or write at `address` ends.
fn copied(port: &Port, way: Direction, key: RegionKey, address: u64, bytes: &mut [u8]) -> String {
    // SAFETY: the bytes are exclusive to the caller during the call.
    let copied = unsafe { port.copy(0, way, (key, address), &part(bytes)) };
    copied.map_or_else(|error| format!("{error:?}"), |()| "done".to_owned())
}

#[test]
fn a_peer_reaches_what_lies_in_a_region_and_nothing_else() {
    use Direction::{Read, Write};
    let universe = universe("regions");
    let (owner, peer) = (Port::open(&universe).unwrap(), Port::open(&universe).unwrap());
    let mut memory = vec![7_u8; 64];
    let base = memory.as_mut_ptr().expose_provenance();
    let at = |offset: usize| (base + offset) as u64;
    let key = RegionKey { index: 0, tag: 9 };
    let readable = Access { remote_write: false, remote_atomic: false, ..Access::ALL };
    owner.open_region(key, readable, (base, 32)).unwrap();
    let mut bytes = [0; 16];
    assert_eq!(copied(&peer, Read, key, at(16), &mut bytes), "done");
    assert_eq!(bytes, [7; 16]);
    assert_eq!(copied(&peer, Write, key, at(16), &mut bytes), "Region(Access)");
    for address in [at(17), at(32), at(0) - 1, 0x111, u64::MAX - 3] {
        assert_eq!(copied(&peer, Read, key, address, &mut bytes), "Region(Bounds)", "{address:#x}");
    }
    for other in
        [(0, 8), (1, 9), (u32::MAX, 9), (0, 0)].map(|(index, tag)| RegionKey { index, tag })
    {
        assert_eq!(
            copied(&peer, Read, other, at(0), &mut bytes),
            "Region(UnknownKey)",
            "{other:?}"
        );
    }
    owner.close_region(key);
    assert_eq!(copied(&peer, Read, key, at(0), &mut bytes), "Region(UnknownKey)");
    assert_eq!(memory, [7; 64]);
}

#[test]
fn the_table_of_regions_grows() {
    let universe = universe("table");
    let (owner, peer) = (Port::open(&universe).unwrap(), Port::open(&universe).unwrap());
    let mut memory = vec![1_u8; 8];
    let base = memory.as_mut_ptr().expose_provenance();
    let mut bytes = [0; 8];
    for index in 0..3000 {
        owner.open_region(RegionKey { index, tag: index + 1 }, Access::ALL, (base, 8)).unwrap();
    }
    for index in [0, 509, 510, 511, 2999] {
        let key = RegionKey { index, tag: index + 1 };
        assert_eq!(copied(&peer, Direction::Read, key, base as u64, &mut bytes), "done");
    }
    let last = RegionKey { index: REGIONS_MAX as u32, tag: 1 };
    assert!(owner.open_region(last, Access::ALL, (base, 8)).is_err());
}
