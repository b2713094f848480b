use core::ptr::NonNull;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::buffer::{Cursor, Part};
use crate::engine::testing::{OF_7, Pair, with_pair};
use crate::engine::{Bypass, Fault, Gone, Outcome, Received, SendMode, Want};
use crate::matching::{ANY_SOURCE, Pattern};
use crate::shm::Slumber;
use crate::sync::{Ordering, fence};
use crate::wire::Key;

/// Lengths of messages that go in one line, in several, in one cell and in several, and in parcels
/// where there are any.
const LENGTHS: [usize; 7] = [0, 8, 48, 200, 1000, 3000, 9000];

fn part(bytes: &[u8]) -> Part {
    Part { base: NonNull::from(bytes).cast(), length: bytes.len() }
}

impl Pair {
    fn issend(&mut self, tag: u32, data: &[u8]) -> RequestId {
        let (key, owner) = (Key::new(0, tag), Owner::UNSCOPED);
        // SAFETY: the data of these tests outlive the engines.
        let sent = unsafe {
            let data = Cursor::contiguous(part(data));
            self.sender.isend_by(SendMode::Synchronous, 1, key, data, owner)
        };
        let Ok(Sent::Pending(id)) = sent else { panic!("no receive has started: {sent:?}") };
        id
    }

    fn irecv(&mut self, pattern: Pattern, bytes: &mut [u8]) -> Received {
        let room = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        // SAFETY: the buffers of these tests outlive the engines.
        unsafe { self.receiver.irecv(pattern, Cursor::contiguous(room), Owner::UNSCOPED) }.unwrap()
    }

    fn progress(&mut self) {
        for _ in 0..8 {
            self.sender.progress().unwrap();
            self.receiver.progress().unwrap();
        }
    }

    /// Receives a message of exactly this length, and returns whether its bytes are `byte`.
    fn receive(&mut self, tag: u32, length: usize, byte: u8) -> bool {
        let mut bytes = vec![0; length];
        let outcome = match self.irecv(Pattern { tag, ..OF_7 }, &mut bytes) {
            Received::Done(outcome) => outcome,
            Received::Pending(id) => {
                self.progress();
                self.receiver.test(id).unwrap()
            }
        };
        outcome == Ok(Status { source: 0, tag, bytes: length }) && bytes.iter().all(|b| *b == byte)
    }

    /// Returns the outcome of a send, after progress.
    fn sent(&mut self, id: RequestId) -> Option<Outcome> {
        self.sender.progress().unwrap();
        self.sender.test(id)
    }

    fn is_with_the_receiver(&self, id: RequestId) -> bool {
        let stage = self.sender.requests.outgoing(id.0).unwrap().stage;
        matches!(stage, SendStage::Unmatched { .. })
    }
}

#[test]
fn a_send_ends_when_its_receive_starts_before_or_after_it() {
    with_pair(|mut pair| {
        for length in LENGTHS {
            let data = vec![9; length];
            let done = Some(Ok(Status { source: 1, tag: 7, bytes: length }));
            let send = pair.issend(7, &data);
            pair.progress();
            assert!(pair.is_with_the_receiver(send));
            assert_eq!(pair.sent(send), None, "{length} bytes without a receive");
            assert!(pair.receive(7, length, 9));
            assert_eq!(pair.sent(send), done);

            let mut bytes = vec![0; length];
            let Received::Pending(receive) = pair.irecv(OF_7, &mut bytes) else { panic!() };
            let send = pair.issend(7, &data);
            pair.progress();
            assert!(matches!(pair.receiver.test(receive), Some(Ok(_))));
            assert_eq!((pair.sent(send), bytes == data), (done, true));
        }
        assert!(pair.sender.outbox.is_empty() && pair.sender.is_flushed());
    });
}

#[test]
fn each_send_ends_with_its_own_receive_in_any_order() {
    const COUNT: u32 = 40;
    with_pair(|mut pair| {
        let sends: Vec<_> = (0..COUNT).map(|tag| pair.issend(tag, &[7; 8])).collect();
        pair.progress();
        let with_data = sends.iter().filter(|send| pair.is_with_the_receiver(**send)).count();
        assert_eq!(with_data as u32, u32::BITS, "the others find no bit, and are offered");
        for (tag, send) in (0..COUNT).zip(sends).rev() {
            assert_eq!(pair.sent(send), None, "{tag}");
            assert!(pair.receive(tag, 8, 7));
            assert!(matches!(pair.sent(send), Some(Ok(Status { bytes: 8, .. }))), "{tag}");
        }
        assert!(pair.sender.outbox.is_empty());
    });
}

#[test]
fn a_receive_in_lines_answers() {
    with_pair(|mut pair| {
        for length in [0, 48, 200] {
            let (data, mut bytes) = (vec![3; length], vec![0; 200]);
            let send = pair.issend(7, &data);
            let ticket = pair.sender.ticket(send);
            let unanswered = pair.sender.unanswered(ticket).unwrap();
            assert!(!pair.sender.is_answered(unanswered));
            let status = Status { source: 0, tag: 7, bytes: length };
            assert_eq!(pair.receiver.recv_short(0, Want::new(0, 7), &mut bytes), Bypass::Closed);
            assert_eq!(pair.receiver.recv_lines(OF_7, &mut bytes), Bypass::Received(status));
            assert_eq!(bytes[..length], data);
            assert!(pair.sender.is_answered(unanswered));
            pair.sender.end_answered(unanswered);
            assert_eq!(pair.sender.take_status(ticket), Some(Status { source: 1, ..status }));
            assert!(pair.sender.unanswered(ticket).is_none());
        }
    });
}

#[test]
fn a_probe_leaves_the_message_in_its_lines_for_the_receive_that_answers() {
    with_pair(|mut pair| {
        let (want, mut bytes) = (Want::new(0, 7), [0; 8]);
        let send = pair.issend(7, b"in lines");
        let found = Bypass::Received(Status { source: 0, tag: 7, bytes: 8 });
        for source in [0, ANY_SOURCE] {
            assert_eq!(pair.receiver.probe_lines(source, want), found);
        }
        assert_eq!(pair.sent(send), None);
        assert_eq!(pair.receiver.recv_lines(OF_7, &mut bytes), found);
        assert_eq!((&bytes, pair.sent(send).is_some()), (b"in lines", true));
    });
}

#[test]
fn a_posted_receive_takes_the_message_out_of_its_lines() {
    with_pair(|mut pair| {
        for length in [8, 200] {
            let (data, mut bytes) = (vec![4; length], vec![0; length]);
            let Received::Pending(receive) = pair.irecv(OF_7, &mut bytes) else { panic!() };
            let send = pair.issend(7, &data);
            assert!(pair.receiver.serve_lines());
            assert!(matches!(pair.receiver.test(receive), Some(Ok(_))));
            assert_eq!((pair.sent(send).is_some(), bytes == data), (true, true));
        }
    });
}

#[test]
fn a_message_of_another_tag_is_kept_with_its_answer() {
    with_pair(|mut pair| {
        let send = pair.issend(8, b"other");
        assert_eq!(pair.receiver.recv_lines(OF_7, &mut [0; 8]), Bypass::Nothing);
        assert_eq!(pair.sent(send), None);
        // It is no short message that goes round the answer.
        let kept = Pattern { tag: 8, ..OF_7 };
        assert_eq!(pair.receiver.recv_lines(kept, &mut [0; 8]), Bypass::Closed);
        assert_eq!(pair.sent(send), None);
        let mut bytes = [0; 8];
        assert!(matches!(pair.irecv(kept, &mut bytes), Received::Done(Ok(_))));
        assert!(matches!(pair.sent(send), Some(Ok(_))));
    });
}

#[test]
fn a_probe_does_not_answer_and_the_receive_of_its_message_does() {
    with_pair(|mut pair| {
        let send = pair.issend(7, b"probed");
        pair.progress();
        let (message, _) = pair.receiver.improbe(OF_7).unwrap().unwrap();
        assert_eq!(pair.sent(send), None);
        pair.receiver.put_back(message).unwrap();
        let (message, _) = pair.receiver.improbe(OF_7).unwrap().unwrap();
        assert_eq!(pair.sent(send), None);
        let mut bytes = [0; 8];
        let room = Part { base: NonNull::from(&mut bytes).cast(), length: 8 };
        // SAFETY: the buffer outlives the engines.
        let received = unsafe {
            pair.receiver.imrecv(message, Cursor::contiguous(room), Owner::UNSCOPED).unwrap()
        };
        assert!(matches!(received, Received::Done(Ok(_))));
        assert!(matches!(pair.sent(send), Some(Ok(_))));
    });
}

#[test]
fn a_receive_without_enough_room_answers() {
    with_pair(|mut pair| {
        let send = pair.issend(7, &[1; 99]);
        let mut bytes = [0; 8];
        let Received::Pending(receive) = pair.irecv(OF_7, &mut bytes) else { panic!() };
        pair.progress();
        let fault = pair.receiver.test(receive).unwrap();
        assert!(matches!(fault, Err(Fault::Truncated { message: 99, buffer: 8, .. })), "{fault:?}");
        assert!(matches!(pair.sent(send), Some(Ok(Status { bytes: 99, .. }))));
    });
}

#[test]
fn a_send_that_was_given_up_keeps_its_bit_until_the_receive() {
    with_pair(|mut pair| {
        let (first, second) = (pair.issend(7, b"given up"), pair.issend(8, b"awaited"));
        pair.sender.detach(first).unwrap();
        assert!(pair.sender.requests.get(first.0).is_none());
        for tag in 9..7 + u32::BITS {
            let send = pair.issend(tag, &[6; 8]);
            assert!(pair.receive(tag, 8, 6) && pair.sent(send).is_some());
        }
        let late = pair.issend(100, b"late");
        assert!(!pair.is_with_the_receiver(late), "the first message has the bit");
        let mut bytes = [0; 8];
        assert!(matches!(pair.irecv(OF_7, &mut bytes), Received::Done(Ok(_))));
        assert_eq!((&bytes, pair.sent(second)), (b"given up", None));
        let next = pair.issend(101, b"next");
        pair.progress();
        assert!(pair.is_with_the_receiver(next));
    });
}

#[test]
fn sends_without_an_answer_fail_with_their_peer() {
    with_pair(|mut pair| {
        let (lost, given_up) = (pair.issend(7, b"lost"), pair.issend(7, b"given up"));
        pair.sender.detach(given_up).unwrap();
        assert_eq!(pair.sender.peer_gone(1, Gone::Finished), Ok(true));
        assert_eq!(pair.sender.test(lost), Some(Err(Fault::PeerFinished { rank: 1 })));
        assert!(pair.sender.outbox.is_empty() && pair.sender.is_flushed());
    });
}

#[test]
fn a_sender_that_sleeps_is_woken_by_the_answer() {
    with_pair(|mut pair| {
        let send = pair.issend(7, b"awaited");
        let bell = &pair.receiver.segment().rank_block(0).doorbell;
        bell.prepare_to_sleep(Slumber::Word, || fence(Ordering::SeqCst));
        assert!(!pair.receiver.has_bells());
        assert!(matches!(pair.receiver.recv_lines(OF_7, &mut [0; 8]), Bypass::Received(_)));
        assert!(pair.receiver.has_bells());
        assert_eq!((pair.receiver.poll_bell(), pair.receiver.has_bells()), (Some(0), false));
        assert!(matches!(pair.sent(send), Some(Ok(_))));
    });
}
