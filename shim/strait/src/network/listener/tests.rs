//! Tests with listeners and calls in one process.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

fn peer_address(rank: u32) -> PeerAddress {
    PeerAddress {
        nonce: strait_platform::segment::nonce().unwrap(),
        rank,
        host: 0,
        address: None,
        key: [0; 16],
    }
}

fn is_readable(listener: &ConnectionListener) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&listener.events, PollFlags::IN)], Some(&now)).unwrap() > 0
}

/// Polls `look` until it returns a value.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_caller_is_answered_and_a_caller_of_another_process_is_not() {
    let [mine, theirs] = [1, 2].map(|byte| LinkAddress::from_bytes([byte; LinkAddress::LENGTH]));
    for open in [false, true] {
        let (own, caller) = (peer_address(0), peer_address(1));
        let mut listener = ConnectionListener::open(own, open).unwrap();
        let own = listener.own();
        assert_eq!(own.address.is_some(), open);
        let mut call = OutgoingConnection::new(&caller, own, &theirs);
        // This caller has the address of the listener, but not the key.
        let mut stray =
            OutgoingConnection::new(&caller, PeerAddress { key: [1; 16], ..own }, &theirs);
        let mut lost = OutgoingConnection::new(&caller, PeerAddress { rank: 7, ..own }, &theirs);
        let callers = ConnectionListener::open(peer_address(2), false).unwrap();
        let hello = until(|| {
            assert_eq!(call.poll(&callers), Ok(None));
            let _ = (stray.poll(&callers), lost.poll(&callers));
            listener.is_called().then(|| listener.next()).flatten()
        });
        assert_eq!((hello.from, hello.address), (caller.without_key(), theirs));
        let mut accepted = hello.answer(&mine);
        until(|| is_readable(&callers).then_some(()));
        assert_eq!(until(|| call.poll(&callers).unwrap()), mine);
        assert_eq!(accepted.is_connected(), Ok(false));
        call.confirm();
        until(|| accepted.is_connected().unwrap().then_some(()));
        drop(call);
        assert_eq!(accepted.is_connected(), Ok(true), "the confirmation stays valid");
        until(|| {
            assert!(!listener.is_called() || listener.next().is_none());
            stray.poll(&callers).err().and(lost.poll(&callers).err())
        });
    }
}

#[test]
fn a_listener_goes_with_its_owner() {
    let address = LinkAddress::from_bytes([0; LinkAddress::LENGTH]);
    for open in [false, true] {
        let [listener, callers] =
            [0, 1].map(|rank| ConnectionListener::open(peer_address(rank), open).unwrap());
        let own = listener.own();
        let mut call = OutgoingConnection::new(&own, own, &address);
        assert_eq!(call.poll(&callers), Ok(None));
        drop(listener);
        until(|| call.poll(&callers).err());
        let mut late = OutgoingConnection::new(&own, own, &address);
        until(|| late.poll(&callers).err());
    }
}

/// Silent callers keep few descriptors, and later callers get in behind them.
#[test]
fn silent_callers_are_few_and_do_not_stay() {
    let (address, caller) = (LinkAddress::from_bytes([1; LinkAddress::LENGTH]), peer_address(1));
    let callers = ConnectionListener::open(peer_address(2), false).unwrap();
    for open in [false, true] {
        let mut listener = ConnectionListener::open(peer_address(0), open).unwrap();
        let own = listener.own();
        let silent = OutgoingConnection::new(&caller, own, &address);
        let silent: Vec<_> = (0..3 * CALLERS).map(|_| silent.connect().unwrap()).collect();
        let mut call = OutgoingConnection::new(&caller, own, &address);
        until(|| {
            assert!(!listener.is_called());
            (listener.callers.len() == CALLERS).then_some(())
        });
        // Time passes.
        until(|| {
            assert!(listener.callers.len() <= CALLERS);
            let _ = call.poll(&callers).unwrap();
            listener.let_in(Instant::now() + HURRY);
            listener.is_called().then_some(())
        });
        listener.let_in(Instant::now() + TIMEOUT + TIMEOUT);
        assert!(listener.callers.len() <= CALLERS);
        assert_eq!(listener.next().unwrap().from, caller.without_key());
        drop(silent);
    }
}

/// A caller that was dropped because it took long calls again.
#[test]
fn a_caller_that_computed_for_long_is_answered_in_the_end() {
    let [mine, theirs] = [1, 2].map(|byte| LinkAddress::from_bytes([byte; LinkAddress::LENGTH]));
    let mut listener = ConnectionListener::open(peer_address(0), true).unwrap();
    let callers = ConnectionListener::open(peer_address(2), false).unwrap();
    let mut call = OutgoingConnection::new(&peer_address(1), listener.own(), &theirs);
    for _ in 0..3 {
        until(|| {
            assert_eq!(call.poll(&callers), Ok(None));
            listener.let_in(Instant::now());
            (!listener.callers.is_empty()).then_some(())
        });
        listener.callers.clear();
    }
    let hello = until(|| {
        assert_eq!(call.poll(&callers), Ok(None));
        listener.is_called().then(|| listener.next()).flatten()
    });
    let _accepted = hello.answer(&mine);
    assert_eq!(until(|| call.poll(&callers).unwrap()), mine);
}
