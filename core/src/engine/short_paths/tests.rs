//! Tests of the short paths between two ranks of one segment.

use super::*;
use crate::engine::testing::with_segment;

const KEY: Key = Key::new(0, 7);

/// Both ends of the paths between ranks 0 and 1, with the fastbox from 0 to 1 announced.
fn announced(segment: &Segment) -> [ShortPaths; 2] {
    let mut ends = [(0, 1), (1, 0)].map(|(rank, peer)| ShortPaths::new(segment, rank, peer));
    assert!(ends[0].is_unopened());
    ends[0].want_fastbox();
    ends[0].fastbox_backed(true, segment, (0, 1));
    assert!(ends[0].announce_fastbox());
    assert!(ends[1].open_inbox(segment, (1, 0)));
    ends
}

#[test]
fn a_fastbox_is_asked_for_and_announced_once() {
    with_segment(2, |segment| {
        let mut ends = announced(segment);
        ends[0].want_fastbox();
        assert!(!ends[0].is_unopened() && !ends[0].announce_fastbox());
        assert!(ends[0].is_announced() && !ends[0].is_open());
        assert!(!ends[1].open_inbox(segment, (1, 0)));
    });
}

#[test]
fn a_refused_fastbox_is_never_announced() {
    with_segment(2, |segment| {
        let mut refused = ShortPaths::new(segment, 0, 1);
        refused.want_fastbox();
        refused.fastbox_backed(false, segment, (0, 1));
        refused.fastbox_backed(true, segment, (0, 1));
        assert!(!refused.announce_fastbox() && !refused.is_unopened());
    });
}

/// Sends a message as the general path does, which reads the credit.
fn put(out: &mut ShortPaths, bytes: &[u8]) {
    let fill = |to: NonNull<u8>, offset, piece| {
        // SAFETY: `send_lines` gives room for each piece of the message.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(&bytes[offset..]).cast(), piece) };
    };
    assert_eq!(out.send_lines(PacketKind::Eager, KEY, bytes.len(), fill), Ok(true));
    out.count_out();
}

#[test]
fn only_open_paths_take_short_messages() {
    with_segment(2, |segment| {
        let [mut out, mut back] = announced(segment);
        assert!(!out.send_short(KEY, b"early"));
        out.open(false);
        put(&mut out, b"hello");
        assert!(out.is_open() && out.send_short(KEY, b"again"));
        out.count_out();
        out.shut();
        assert!(!out.is_open() && !out.send_short(KEY, b"late"));
        for _ in 0..2 {
            let (found, by_baton) = back.find_next().unwrap();
            assert!(!by_baton && back.peek_baton().is_none());
            assert_eq!((found.length(), back.lines_of_next(false).key()), (5, KEY));
            back.release_next(false, 5);
        }
        assert!(back.find_next().is_none());
        assert_eq!(back.next_in(), out.next_out());
        back.tell_consumed();
        assert_eq!((out.lines_consumed(), out.lines_sent()), (Ok(2), 2));
    });
}

#[test]
fn a_packet_is_taken_only_in_its_turn() {
    with_segment(2, |segment| {
        let [mut out, mut back] = announced(segment);
        // The first packet went through the queue.
        out.count_out();
        put(&mut out, b"second");
        assert!(back.find_next().is_none());
        back.count_in();
        assert!(back.find_next().is_some());
    });
}

#[test]
fn an_answer_goes_by_the_baton_when_that_is_open() {
    with_segment(2, |segment| {
        let [mut out, mut back] = announced(segment);
        // The lower rank has the baton first.
        out.open(true);
        assert!(out.send_short(KEY, b"ask"));
        out.count_out();
        assert!(back.peek_baton().is_some());
        back.release_short(true);
        back.count_in();
        back.open_baton();
        assert!(!back.send_short(KEY, b"no path is open"));
        back.open(false);
        assert!(!back.send_short(KEY, b"the baton is not open"));
        back.open_baton();
        back.shut_baton();
        assert!(!back.send_short(KEY, b"the baton is shut"));
        back.open_baton();
        assert!(back.send_short(KEY, b"answer"));
        assert_eq!(out.peek_baton().unwrap().length(), 6);
    });
}

#[test]
fn no_packet_is_expected_from_another_node() {
    with_segment(2, |segment| {
        let [mut out, mut back] = announced(segment);
        put(&mut out, b"stale");
        back.expect_nothing();
        assert!(back.find_next().is_none() && !back.is_unopened());
    });
}
