//! The first receive, between two engines on one thread.

use core::ptr::NonNull;

use super::*;
use crate::engine::Tuning;
use crate::engine::testing::{ANY_OF_7, OF_7, Pair, with_pair};
use crate::matching::TAG_MAX;
use crate::memory::counted::Counted;

/// Ends the first receive, if its message has come.
type Take = fn(&mut Engine<Counted>, Ticket) -> Option<Status>;

/// All functions that do it. They differ in nothing for a message of one line.
const TAKES: [Take; 2] =
    [Engine::take_first, |engine, ticket| match engine.take_first_short(ticket) {
        Bypass::Received(status) => Some(status),
        Bypass::Nothing | Bypass::Closed => None,
    }];

#[test]
fn the_first_receive_takes_its_message_from_its_line() {
    for take in TAKES {
        with_pair(|mut pair| {
            let mut bytes = [0; 8];
            for round in 0..20_u8 {
                let (_, ticket) = pair.post(OF_7, &mut bytes);
                assert!(pair.receiver.is_first(ticket));
                assert_eq!(take(&mut pair.receiver, ticket), None, "nothing was sent");
                pair.send(7, &[round; 5]);
                let status = Status { source: 0, tag: 7, bytes: 5 };
                assert_eq!(take(&mut pair.receiver, ticket), Some(status));
                assert_eq!(bytes[..5], [round; 5]);
                assert_eq!(take(&mut pair.receiver, ticket), None, "it is over");
                assert_eq!(pair.receiver.find_ticket(ticket), crate::engine::Ticketed::Nothing);
            }
        });
    }
}

#[test]
fn what_the_first_receive_may_not_take_stays() {
    for take in TAKES {
        with_pair(|mut pair| {
            let (mut bytes, mut others, mut last) = ([0; 8], [0; 8], [0; 8]);
            let (id, ticket) = pair.post(OF_7, &mut bytes);
            pair.send(8, b"other");
            assert_eq!(take(&mut pair.receiver, ticket), None, "another tag is first");
            assert!(pair.receiver.serve_lines());
            pair.send(7, b"too long for it");
            assert_eq!(take(&mut pair.receiver, ticket), None, "a message without room");
            let stale = ticket;
            pair.receiver.progress().unwrap();
            assert!(matches!(pair.receiver.test(id), Some(Err(_))), "truncated");

            let (id, ticket) = pair.post(OF_7, &mut bytes);
            let (_, second) = pair.post(OF_7, &mut others);
            pair.send(7, b"first");
            assert_eq!(take(&mut pair.receiver, second), None, "the first one is older");
            assert_eq!(take(&mut pair.receiver, stale), None);
            pair.receiver.lend(id, true);
            assert_eq!(take(&mut pair.receiver, ticket), None, "its handle is in use");
            pair.receiver.lend(id, false);
            assert!(take(&mut pair.receiver, ticket).is_some());
            let (_, third) = pair.post(Pattern { tag: 9, ..OF_7 }, &mut last);
            pair.send(7, b"second");
            assert!(take(&mut pair.receiver, second).is_some());
            pair.send(9, b"3");
            assert_eq!(take(&mut pair.receiver, third), None, "it has another pattern");
            assert!(pair.receiver.serve_lines());
            assert!(pair.receiver.take_status(third).is_some());
            assert_eq!((&bytes[..5], &others[..6]), (&b"first"[..], &b"second"[..]));
            assert_eq!(last[0], b'3');

            let (_, any) = pair.post(ANY_OF_7, &mut bytes);
            pair.send(7, b"any");
            assert!(!pair.receiver.is_first(any));
            assert_eq!(take(&mut pair.receiver, any), None, "it has no source");
            assert!(pair.receiver.serve_lines());
            assert!(pair.receiver.take_status(any).is_some());
        });
    }
}

/// Posts a receive of up to 8 bytes by [`Engine::post_first`].
fn post_first(pair: &mut Pair, pattern: Pattern, buffer: &mut [u8; 8]) -> Option<Ticket> {
    let buffer = Part { base: NonNull::from(buffer).cast(), length: 8 };
    // SAFETY: the buffers of these tests outlive the engines.
    let posted = unsafe { pair.receiver.post_first(pattern, buffer, Owner::UNSCOPED) };
    posted.map(|(_, ticket)| ticket)
}

#[test]
fn a_receive_is_posted_first_where_it_is_alone_and_need_not_look() {
    with_pair(|mut pair| {
        let (mut bytes, mut other) = ([0; 8], [0; 8]);
        assert_eq!(post_first(&mut pair, ANY_OF_7, &mut bytes), None, "it has no source");
        let no_tag = Pattern { tag: TAG_MAX + 1, ..OF_7 };
        assert_eq!(post_first(&mut pair, no_tag, &mut bytes), None);
        let no_rank = Pattern { source: 2, ..OF_7 };
        assert_eq!(post_first(&mut pair, no_rank, &mut bytes), None);

        let ticket = post_first(&mut pair, OF_7, &mut bytes).unwrap();
        assert_eq!(post_first(&mut pair, OF_7, &mut other), None, "it is not alone");
        assert_eq!(pair.receiver.take_first_short(ticket), Bypass::Nothing);
        pair.send(7, b"first");
        let status = Status { source: 0, tag: 7, bytes: 5 };
        assert_eq!(pair.receiver.take_first_short(ticket), Bypass::Received(status));
        assert_eq!(bytes[..5], *b"first");
        assert_eq!(pair.receiver.take_first_short(ticket), Bypass::Closed, "it is over");

        pair.send(8, b"another");
        assert!(pair.receiver.serve_lines());
        assert_eq!(post_first(&mut pair, OF_7, &mut bytes), None, "a message is unexpected");
    });
}

#[test]
fn a_receive_that_should_look_is_not_posted_first() {
    with_pair(|mut pair| {
        let mut bytes = [0; 8];
        // The first receive of each pair of receives before a wait is alone once more at the end.
        let first = post_first(&mut pair, OF_7, &mut bytes).unwrap();
        pair.receiver.cancel(RequestId(first.index));
        assert!(pair.receiver.test(RequestId(first.index)).is_some());
        assert_eq!(post_first(&mut pair, OF_7, &mut bytes), None, "the second before a wait");
        let (_, ticket) = pair.post(OF_7, &mut bytes);
        pair.send(7, b"1");
        assert!(pair.receiver.take_first(ticket).is_some());
        pair.receiver.retune(Tuning { eager_max: 7, ..pair.receiver.tuning() });
        assert_eq!(post_first(&mut pair, OF_7, &mut bytes), None, "it may be announced");
    });
}
