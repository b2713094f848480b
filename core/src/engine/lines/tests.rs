//! Receives that are alone, between two engines on one thread.

use super::*;
use crate::engine::testing::with_segment;
use crate::engine::{Sent, Tuning};
use crate::memory::counted::Counted;

const ANY_OF_7: Pattern = Pattern { context: 0, source: ANY_SOURCE, tag: 7 };
const OF_7: Pattern = Pattern { context: 0, source: 0, tag: 7 };

/// Two engines, of which rank 0 sends and rank 1 receives.
struct Pair {
    sender: Engine<Counted>,
    receiver: Engine<Counted>,
}

impl Pair {
    /// Posts a receive of up to 8 bytes.
    fn post(&mut self, pattern: Pattern, buffer: &mut [u8; 8]) -> (RequestId, Ticket) {
        let buffer = Part { base: NonNull::from(buffer).cast(), length: 8 };
        // SAFETY: the buffers of these tests outlive the engines.
        match unsafe { self.receiver.irecv_short(pattern, buffer, Owner::UNSCOPED) } {
            ReceivedShort::Pending(id, ticket) => (id, ticket),
            other => panic!("{other:?}"),
        }
    }

    fn send(&mut self, tag: u32, data: &[u8]) {
        let part = Part { base: NonNull::from(data).cast(), length: data.len() };
        // SAFETY: the message is in shared memory when this returns.
        let sent = unsafe {
            let data = Cursor::contiguous(part);
            self.sender.isend(1, Key::new(0, tag), data, Owner::BLOCKING)
        };
        assert_eq!(sent, Ok(Sent::Done));
        while let Some(peer) = self.sender.poll_want() {
            self.sender.fastbox_backed(peer, true);
        }
    }
}

fn with_pair(test: impl FnOnce(Pair)) {
    with_segment(2, |segment| {
        let engine =
            |rank| Engine::new(Counted::default(), *segment, rank, Tuning::default()).unwrap();
        let mut pair = Pair { sender: engine(0), receiver: engine(1) };
        // Short calls decline a peer before the first contact with it.
        let (mut bytes, first) = ([0; 8], &mut pair.receiver);
        let buffer = Part { base: NonNull::from(&mut bytes).cast(), length: 8 };
        // SAFETY: nothing is posted.
        let declined = unsafe { first.irecv_short(OF_7, buffer, Owner::UNSCOPED) };
        assert!(matches!(declined, ReceivedShort::Declined));
        first.contact(0).unwrap();
        // The first messages open the fastbox. Then they go by lines.
        for _ in 0..4 {
            let mut bytes = [0; 8];
            let (id, _) = pair.post(Pattern { tag: 0, ..OF_7 }, &mut bytes);
            pair.send(0, b"first");
            pair.receiver.progress().unwrap();
            assert!(matches!(pair.receiver.test(id), Some(Ok(_))));
        }
        test(pair);
    });
}

#[test]
fn the_first_receive_takes_its_message_from_its_line() {
    with_pair(|mut pair| {
        let mut bytes = [0; 8];
        for round in 0..20_u8 {
            let (_, ticket) = pair.post(OF_7, &mut bytes);
            assert!(pair.receiver.is_first(ticket));
            assert_eq!(pair.receiver.take_first(ticket), None, "nothing was sent");
            pair.send(7, &[round; 5]);
            let status = Status { source: 0, tag: 7, bytes: 5 };
            assert_eq!(pair.receiver.take_first(ticket), Some(status));
            assert_eq!(bytes[..5], [round; 5]);
            assert_eq!(pair.receiver.take_first(ticket), None, "it is over");
            assert_eq!(pair.receiver.find_ticket(ticket), crate::engine::Ticketed::Nothing);
        }
    });
}

#[test]
fn what_the_first_receive_may_not_take_stays() {
    with_pair(|mut pair| {
        let (mut bytes, mut others, mut last) = ([0; 8], [0; 8], [0; 8]);
        let (id, ticket) = pair.post(OF_7, &mut bytes);
        pair.send(8, b"other");
        assert_eq!(pair.receiver.take_first(ticket), None, "another tag is first");
        assert!(pair.receiver.serve_lines());
        pair.send(7, b"too long for it");
        assert_eq!(pair.receiver.take_first(ticket), None, "a message without room");
        let stale = ticket;
        pair.receiver.progress().unwrap();
        assert!(matches!(pair.receiver.test(id), Some(Err(_))), "truncated");

        let (id, ticket) = pair.post(OF_7, &mut bytes);
        let (_, second) = pair.post(OF_7, &mut others);
        pair.send(7, b"first");
        assert_eq!(pair.receiver.take_first(second), None, "the first one is older");
        assert_eq!(pair.receiver.take_first(stale), None);
        pair.receiver.lend(id, true);
        assert_eq!(pair.receiver.take_first(ticket), None, "its handle is in use");
        pair.receiver.lend(id, false);
        assert!(pair.receiver.take_first(ticket).is_some());
        let (_, third) = pair.post(Pattern { tag: 9, ..OF_7 }, &mut last);
        pair.send(7, b"second");
        assert!(pair.receiver.take_first(second).is_some());
        pair.send(9, b"3");
        assert_eq!(pair.receiver.take_first(third), None, "it has another pattern");
        assert!(pair.receiver.serve_lines());
        assert!(pair.receiver.take_status(third).is_some());
        assert_eq!((&bytes[..5], &others[..6]), (&b"first"[..], &b"second"[..]));
        assert_eq!(last[0], b'3');

        let (_, any) = pair.post(ANY_OF_7, &mut bytes);
        pair.send(7, b"any");
        assert!(!pair.receiver.is_first(any));
        assert_eq!(pair.receiver.take_first(any), None, "it has no source");
        assert!(pair.receiver.serve_lines());
        assert!(pair.receiver.take_status(any).is_some());
    });
}
