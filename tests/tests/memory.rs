//! The engine's private memory: the engine returns all of it.

use core::ptr::NonNull;

use strait::boot::SegmentConfig;
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Engine, Owner, RequestId, Sent};
use strait_core::matching::Pattern;
use strait_core::wire::Key;
use strait_tests::{Arena, Ledger, shape};

/// Sends `data` from `engine` to `destination`.
fn send(engine: &mut Engine<Ledger>, destination: u32, data: &[u8]) -> Option<RequestId> {
    let part = Part { base: NonNull::from(data).cast(), length: data.len() };
    // SAFETY: the tests detach pending operations, or drop the engine, before the data.
    let sent = unsafe {
        let data = Cursor::contiguous(part);
        engine.isend(destination, Key::new(0, 0), data, Owner(1))
    };
    match sent.unwrap() {
        Sent::Pending(id) => Some(id),
        Sent::Done => None,
    }
}

/// Runs `test` with the engines of two ranks. All memory that they borrowed must be returned when
/// they are dropped.
fn lend(config: SegmentConfig, test: impl FnOnce([&mut Engine<Ledger>; 2])) {
    let (arena, ledger) = (Arena::new(config), Ledger::default());
    let (mut one, mut other) = (arena.engine(0, &ledger), arena.engine(1, &ledger));
    assert_ne!(ledger.lent_bytes(), 0);
    test([&mut one, &mut other]);
    drop((one, other));
    assert_eq!(ledger.lent_bytes(), 0, "bytes were not given back");
}

#[test]
fn engines_that_did_nothing_give_all_back() {
    lend(SegmentConfig::new(2), |_| {});
}

#[test]
fn a_send_that_is_let_go_twice_is_copied_once() {
    lend(shape::tiny(2, 1), |[one, other]| {
        let data = vec![7_u8; 50_000];
        let id = send(one, 1, &data).expect("it does not fit");
        // The end of a scope does this after a request was dropped in it.
        one.detach(id).unwrap();
        one.detach_owned(Owner(1)).unwrap();
        drop(data);
        let mut received = vec![0_u8; 50_000];
        let part = Part { base: NonNull::from(&mut received[..]).cast(), length: received.len() };
        let pattern = Pattern { context: 0, source: 0, tag: 0 };
        // SAFETY: the receive ends before the buffer does.
        let _ = unsafe {
            let buffer = Cursor::contiguous(part);
            other.irecv(pattern, buffer, Owner(1)).unwrap()
        };
        while !one.is_flushed() {
            one.progress().unwrap();
            other.progress().unwrap();
        }
        other.progress().unwrap();
        assert!(received.iter().all(|byte| *byte == 7));
    });
}

#[test]
fn messages_without_a_receive_are_released() {
    lend(SegmentConfig::new(2), |[one, other]| {
        for length in [8, 1000, 100_000] {
            let data = vec![7_u8; length];
            assert_eq!(send(one, 1, &data), None, "it fits");
            other.progress().unwrap();
        }
    });
}

#[test]
fn a_send_that_never_left_is_given_back() {
    lend(shape::tiny(2, 1), |[one, _]| {
        let data = vec![7_u8; 50_000];
        let id = send(one, 1, &data).expect("it does not fit");
        one.detach(id).unwrap();
        drop(data);
    });
}
