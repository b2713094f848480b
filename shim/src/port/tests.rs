//! Ports of different universes, which know each other by name alone.

use core::ptr::NonNull;

use strait_core::hca::HcaError;
use strait_core::progress::{Part, Sign};

use super::*;
use crate::{ANY_SOURCE, Fault};

const CONTEXT: u32 = 3;

fn universe(name: &str) -> Universe {
    Universe::enter(&format!("test-{}-{name}", std::process::id()), 2).unwrap()
}

/// Two ports, each with the universe it is of, that have not heard of each other. The one's door is open to other hosts, and the
/// other's is if its name ends so.
fn apart(test: &str) -> [(Universe, Port); 2] {
    [("one", true), ("other", test.ends_with("-open"))].map(|(name, open)| {
        let universe = universe(&format!("{test}-{name}"));
        let port = universe.port_with(open).unwrap();
        (universe, port)
    })
}

fn cursor(bytes: &mut [u8]) -> Cursor {
    let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
    // SAFETY: callers keep the bytes until the operation is over.
    unsafe { Cursor::contiguous(part) }
}

/// Polls both until `done`.
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

/// Ports of one universe, the first of which has an open fastbox to the second.
fn together(test: &str) -> (Universe, [Port; 2]) {
    let universe = universe(test);
    let ports = [(); 2].map(|()| universe.port().unwrap());
    let [a, b] = &ports;
    a.meet(b.rank()).unwrap();
    b.meet(a.rank()).unwrap();
    for _ in 0..3 {
        let (mut sent, mut got) = ([1; 9], [0; 9]);
        let id = receive(b, a.rank(), &mut got);
        // SAFETY: the bytes outlive the send, which is over at once: there is room.
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
    // Longer than the ring: credit is given early and late.
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
fn a_full_ring_takes_no_message_whose_taking_is_to_be_told() {
    let (_universe, [a, b]) = together("full");
    let key = Key::new(CONTEXT, 5);
    let sent = (0..1000).take_while(|_| a.send_marked(b.rank(), key, &[1]).is_some()).count();
    assert!((64..1000).contains(&sent), "{sent}");
}

/// One knows the other's name, writes to it, and is answered by somebody who learns its number from the message.
#[test]
fn who_is_named_by_nobody_is_met_at_the_door() {
    for (test, length) in [("door", 8), ("long-door", 300_000), ("door-open", 9)] {
        let [(here, a), (there, b)] = apart(test);
        let to = here.number(b.contact()).unwrap();
        assert!(a.is_elsewhere(to));
        a.meet(to).unwrap();
        let mut sent: Vec<u8> = (0..length).map(|place| place as u8).collect();
        let (mut got, mut back) = (vec![0; length], vec![0; length]);
        let asked = receive(&b, ANY_SOURCE, &mut got);
        let id = send(&a, to, &mut sent);
        let status = until([&a, &b], || b.test(asked)).unwrap();
        assert_eq!((status.bytes, &got), (length, &sent));
        assert_eq!(there.number(a.contact()).unwrap(), status.source, "a number for each");
        until([&a, &b], || a.test(id)).unwrap();
        let asked = receive(&a, to, &mut back);
        let id = send(&b, status.source, &mut got);
        until([&a, &b], || a.test(asked)).unwrap();
        until([&a, &b], || b.test(id)).unwrap();
        assert_eq!(back, sent);
    }
}

/// Both write first, so that each calls the other.
#[test]
fn calls_that_cross_make_one_connection() {
    let [(here, a), (there, b)] = apart("cross");
    let [to_b, to_a] = [here.number(b.contact()), there.number(a.contact())].map(Result::unwrap);
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
fn a_name_of_nobody_fails_what_is_sent_there() {
    let [(here, a), (_, b)] = apart("nobody-open");
    let to = here.number(b.contact()).unwrap();
    b.close().unwrap();
    a.meet(to).unwrap();
    let mut bytes = [1; 9];
    let id = receive(&a, to, &mut bytes);
    a.call(to);
    let outcome = until([&a, &a], || a.test(id));
    // Nobody answered: the device has not been asked.
    let sign = Sign::Device(HcaError::Unreachable { peer: to });
    assert_eq!(outcome, Err(Fault::PeerFailed { rank: to, sign }));
    // SAFETY: nothing begins.
    let refused = unsafe { a.isend(to, Key::new(CONTEXT, 5), cursor(&mut bytes)) };
    assert!(matches!(refused, Err(StartError::Peer(Fault::PeerFailed { .. }))), "{refused:?}");
}

#[test]
fn a_message_to_nobody_fails_too() {
    let [(here, a), (_, b)] = apart("nobody-sent");
    let to = here.number(b.contact()).unwrap();
    b.close().unwrap();
    a.meet(to).unwrap();
    let mut bytes = [1; 9];
    let id = send(&a, to, &mut bytes);
    let outcome = until([&a, &a], || a.test(id));
    // Nobody answered: the device has not been asked.
    let sign = Sign::Device(HcaError::Unreachable { peer: to });
    assert_eq!(outcome, Err(Fault::PeerFailed { rank: to, sign }));
}

#[test]
fn who_leaves_a_universe_says_so_elsewhere() {
    let [(here, a), (_, b)] = apart("leave");
    let to = here.number(b.contact()).unwrap();
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

/// Processes come, talk and leave, more than there are ranks in the universe; each gets what was meant for it.
#[test]
fn a_process_knows_any_number_of_others_one_after_the_other() {
    let here = universe("many");
    let a = here.port_with(false).unwrap();
    for number in 0..40_u8 {
        let there = universe(&format!("many-{number}"));
        let b = there.port_with(false).unwrap();
        let to = here.number(b.contact()).unwrap();
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
            // It is gone without a word.
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

/// How a peer's read or write of `length` bytes at `address` ends.
fn copied(port: &Port, way: Direction, key: RegionKey, address: u64, bytes: &mut [u8]) -> String {
    // SAFETY: the bytes are the caller's for the call.
    let copied = unsafe { port.copy(0, way, (key, address), &part(bytes)) };
    copied.map_or_else(|error| format!("{error:?}"), |()| "done".to_owned())
}

#[test]
fn a_peer_reaches_what_lies_in_a_region_and_nothing_else() {
    use Direction::{Read, Write};
    let universe = universe("regions");
    let (owner, peer) = (universe.port().unwrap(), universe.port().unwrap());
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
    let (owner, peer) = (universe.port().unwrap(), universe.port().unwrap());
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
