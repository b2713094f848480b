//! Matching of messages in lines, between two engines on one thread.

use super::*;
use crate::engine::testing::{ANY_OF_7, with_pair};

const WANT: Want = Want::new(0, 7);

#[test]
fn a_receive_from_any_source_takes_a_line_or_says_that_none_has_come() {
    with_pair(|mut pair| {
        let (mut eight, mut few) = ([0; 8], [0; 4]);
        let status = |bytes| Bypass::Received(Status { source: 0, tag: 7, bytes });
        let receiver = &mut pair.receiver;
        assert_eq!(receiver.recv_exactly_from_any(WANT, &mut eight), Bypass::Nothing);
        assert_eq!(receiver.recv_short_from_any(WANT, &mut eight), Bypass::Nothing);
        pair.send(7, &[1; 8]);
        assert_eq!(pair.receiver.recv_short_from_any(WANT, &mut few), Bypass::Closed, "no room");
        assert_eq!(pair.receiver.recv_exactly_from_any(WANT, &mut few), Bypass::Closed);
        assert_eq!(pair.receiver.recv_exactly_from_any(WANT, &mut eight), status(8));
        pair.send(7, &[2; 4]);
        assert_eq!(pair.receiver.recv_exactly_from_any(WANT, &mut eight), Bypass::Closed);
        assert_eq!(pair.receiver.recv_short_from_any(WANT, &mut eight), status(4));
        assert_eq!(eight, [2, 2, 2, 2, 1, 1, 1, 1]);
    });
}

#[test]
fn a_receive_from_any_source_leaves_older_messages_their_turn() {
    with_pair(|mut pair| {
        let mut bytes = [0; 8];
        pair.send(7, b"older");
        assert!(pair.receiver.serve_lines());
        assert_eq!(pair.receiver.recv_short_from_any(WANT, &mut bytes), Bypass::Closed);
        let taken = pair.receiver.recv_lines(ANY_OF_7, &mut bytes);
        assert!(matches!(taken, Bypass::Received(Status { bytes: 5, .. })));
        let mut posted = [0; 8];
        let (_, ticket) = pair.post(ANY_OF_7, &mut posted);
        pair.send(7, b"for it");
        assert_eq!(pair.receiver.recv_short_from_any(WANT, &mut bytes), Bypass::Closed);
        assert!(pair.receiver.serve_lines() && pair.receiver.take_status(ticket).is_some());
    });
}
