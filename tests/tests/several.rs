//! Calls for several requests at a time. The generated traffic makes them, too, between processes
//! and between nodes.

use core::task::Poll;

use strait::boot::SegmentConfig;
use strait::{
    Endpoint, Error, Fault, Request, Scope, test_all, test_any, test_some, wait_all, wait_any,
    wait_some,
};
use strait_tests::in_one_thread;

/// Posts receives from rank 0 of one byte each, with their places as tags.
fn receives<'s>(scope: &'s Scope<'s, '_>, rooms: &'s mut [[u8; 1]]) -> Vec<Request<'s>> {
    (0..).zip(rooms).map(|(tag, room)| scope.irecv(room, 0, tag).unwrap()).collect()
}

fn send(endpoint: Endpoint<'_>, tags: &[u8]) {
    tags.iter().for_each(|tag| endpoint.send(&[*tag], 1, u32::from(*tag)).unwrap());
}

/// Asserts that no request is active: every call returns at once.
fn assert_inactive(requests: &mut [Request<'_>]) {
    wait_all(requests).unwrap();
    assert!(test_all(requests).unwrap());
    assert_eq!(wait_any(requests).unwrap(), None);
    assert_eq!(test_any(requests).unwrap(), Poll::Ready(None));
    assert_eq!(wait_some(requests).unwrap(), [0; 0]);
    assert_eq!(test_some(requests).unwrap(), Poll::Ready(vec![]));
}

#[test]
fn each_end_is_reported_once() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let mut rooms = [[0xee_u8]; 5];
        assert_inactive(&mut []);
        worlds[1].endpoint().scope(|scope| {
            let mut requests = receives(scope, &mut rooms);
            assert_eq!(test_some(&mut requests).unwrap(), Poll::Pending);
            assert_eq!(test_any(&mut requests).unwrap(), Poll::Pending);
            assert!(!test_all(&mut requests).unwrap());
            send(worlds[0].endpoint(), &[3, 1]);
            assert!(!test_all(&mut requests).unwrap(), "which leaves all active");
            assert_eq!(wait_some(&mut requests).unwrap(), [1, 3]);
            assert_eq!(test_some(&mut requests).unwrap(), Poll::Pending);
            send(worlds[0].endpoint(), &[2, 0]);
            assert_eq!(test_any(&mut requests).unwrap(), Poll::Ready(Some(0)));
            assert_eq!(wait_any(&mut requests).unwrap(), Some(2));
            assert!(!test_all(&mut requests).unwrap());
            send(worlds[0].endpoint(), &[4]);
            assert_eq!(test_some(&mut requests).unwrap(), Poll::Ready(vec![4]));
            assert_inactive(&mut requests);
            for (tag, request) in (0..).zip(&requests) {
                assert_eq!(request.status().unwrap().unwrap().tag, tag, "it keeps its status");
            }
        });
        assert_eq!(rooms, [[0], [1], [2], [3], [4]]);
    });
}

#[test]
fn all_are_over_at_once() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let mut rooms = [[0_u8]; 3];
        worlds[1].endpoint().scope(|scope| {
            let mut requests = receives(scope, &mut rooms);
            send(worlds[0].endpoint(), &[0]);
            assert_eq!(wait_any(&mut requests).unwrap(), Some(0));
            send(worlds[0].endpoint(), &[1]);
            assert!(!test_all(&mut requests).unwrap());
            send(worlds[0].endpoint(), &[2]);
            assert!(test_all(&mut requests).unwrap());
            assert_inactive(&mut requests);
        });
    });
}

/// A request that was completed by a call of its own is left out, too.
#[test]
fn a_request_that_was_tested_is_inactive() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let mut rooms = [[0_u8]; 2];
        worlds[1].endpoint().scope(|scope| {
            let mut requests = receives(scope, &mut rooms);
            send(worlds[0].endpoint(), &[0, 1]);
            while requests[0].test().unwrap().is_none() {}
            assert_eq!(wait_some(&mut requests).unwrap(), [1]);
            assert_inactive(&mut requests);
        });
    });
}

#[test]
fn those_that_fail_are_over() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let mut rooms = [[0_u8]; 3];
        let is_cancelled = |error| matches!(error, Error::Fault(Fault::Cancelled));
        worlds[1].endpoint().scope(|scope| {
            let mut requests = receives(scope, &mut rooms);
            assert!(requests[1].cancel());
            assert!(!test_all(&mut requests).unwrap(), "the others are not over");
            assert_eq!(wait_some(&mut requests).unwrap(), [1]);
            assert!(is_cancelled(requests[1].status().unwrap_err()));
            worlds[0].endpoint().send(&[0_u8; 2], 1, 0).unwrap();
            send(worlds[0].endpoint(), &[2]);
            let error = loop {
                match test_all(&mut requests) {
                    Ok(over) => assert!(!over),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::Fault(Fault::Truncated { tag: 0, .. })), "{error}");
            assert_inactive(&mut requests);
        });
    });
}
