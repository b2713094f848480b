//! Matching of messages in lines, between two engines on one thread.

use super::*;
use crate::engine::testing::{ANY_OF_7, send, with_pair, with_senders};
use crate::memory::counted::Counted;

const WANT: Want = Want::new(0, 7);

#[test]
fn a_receive_from_any_source_takes_a_line_of_its_length() {
    with_pair(|mut pair| {
        let mut bytes = [0; 8];
        assert_eq!(pair.receiver.recv_exactly_from_any(WANT, &mut bytes), None, "nothing came");
        for (tag, length) in [(7, 4), (8, 8)] {
            pair.send(tag, &[3; 8][..length]);
            assert_eq!(pair.receiver.recv_exactly_from_any(WANT, &mut bytes), None);
            let pattern = Pattern { tag, ..ANY_OF_7 };
            let taken = pair.receiver.recv_lines(pattern, &mut bytes);
            assert_eq!(taken, Bypass::Received(Status { source: 0, tag, bytes: length }));
        }
        pair.send(7, &[1; 8]);
        let status = Status { source: 0, tag: 7, bytes: 8 };
        assert_eq!(pair.receiver.recv_exactly_from_any(WANT, &mut bytes), Some(status));
        assert_eq!(bytes, [1; 8]);
    });
}

#[test]
fn a_short_look_at_any_source_tells_of_messages_that_it_does_not_take() {
    with_pair(|mut pair| {
        let mut bytes = [0; 8];
        let mut look = |receiver: &mut Engine<_>| receiver.recv_short_from_any(WANT, &mut bytes);
        assert_eq!(look(&mut pair.receiver), Bypass::Nothing);
        pair.send(7, b"a few");
        let status = Status { source: 0, tag: 7, bytes: 5 };
        assert_eq!(look(&mut pair.receiver), Bypass::Received(status));
        pair.send(8, b"other");
        assert_eq!(look(&mut pair.receiver), Bypass::Closed, "a message of another tag is first");
        pair.send(7, b"behind");
        assert_eq!(look(&mut pair.receiver), Bypass::Closed);
        assert_eq!(&bytes[..5], b"a few");
    });
}

#[test]
fn a_receive_from_any_source_leaves_older_messages_and_receives_their_turn() {
    with_pair(|mut pair| {
        let (mut bytes, mut posted) = ([0; 8], [0; 8]);
        pair.send(7, b"unwanted");
        assert!(pair.receiver.serve_lines());
        pair.send(7, b"younger.");
        assert_eq!(pair.receiver.recv_exactly_from_any(WANT, &mut bytes), None);
        for expected in [b"unwanted", b"younger."] {
            assert!(matches!(pair.receiver.recv_lines(ANY_OF_7, &mut bytes), Bypass::Received(_)));
            assert_eq!(&bytes, expected);
        }
        let (_, ticket) = pair.post(ANY_OF_7, &mut posted);
        pair.send(7, b"for that");
        assert_eq!(pair.receiver.recv_exactly_from_any(WANT, &mut bytes), None);
        assert!(pair.receiver.serve_lines() && pair.receiver.take_status(ticket).is_some());
    });
}

#[test]
fn a_stream_of_one_source_does_not_hide_the_message_of_another() {
    type Look = fn(&mut Engine<Counted>, &mut [u8; 8]) -> Option<u32>;
    fn source_of(found: Bypass) -> Option<u32> {
        match found {
            Bypass::Received(Status { source, .. }) => Some(source),
            Bypass::Nothing | Bypass::Closed => None,
        }
    }
    let looks: [Look; 4] = [
        |engine, bytes| match engine.recv_exactly_from_any(WANT, bytes) {
            Some(status) => Some(status.source),
            None => source_of(engine.recv_lines(ANY_OF_7, bytes)),
        },
        |engine, bytes| source_of(engine.recv_short_from_any(WANT, bytes)),
        |engine, bytes| source_of(engine.recv_lines(ANY_OF_7, bytes)),
        |engine, bytes| {
            let source = source_of(engine.probe_lines(ANY_SOURCE, WANT))?;
            source_of(engine.recv_short(source, WANT, bytes))
        },
    ];
    for look in looks {
        with_senders(|senders, receiver| {
            send(&mut senders[1], 2, 7, b"only one");
            let mut bytes = [0; 8];
            let came = (0..600).any(|_| {
                send(&mut senders[0], 2, 7, b"one more");
                look(receiver, &mut bytes) == Some(1)
            });
            assert!(came && &bytes == b"only one");
        });
    }
}
