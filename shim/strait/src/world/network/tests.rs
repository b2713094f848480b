//! Tests of links that cannot be made.

use core::ptr::NonNull;

use strait_core::buffer::Part;
use strait_core::engine::{Channel as _, Gone, Tuning};
use strait_core::hca::Access;
use strait_core::layout::SegmentConfig;
use strait_core::ring::Design;
use strait_hca::DeviceChoice;
use strait_hca::soft::SoftMode;
use strait_platform::Nodes;

use super::World;
use crate::raw::RawEndpoint as _;
use crate::{Error, Fault, NetworkError};

#[test]
fn a_link_that_cannot_be_made_is_an_error_that_names_the_peer() {
    let (kind, nodes) =
        ((DeviceChoice::Soft(SoftMode::Inline), Design::ZeroCopy), Nodes::named([0, 1, 2, 3]));
    let worlds =
        World::in_process_by(kind, Tuning::default(), SegmentConfig::new(4), &nodes).unwrap();
    let mut memory = vec![0_u64; 1 << 16];
    let mut taken = memory.iter_mut().map_while(|word| {
        let part = Part { base: NonNull::from(word).cast(), length: 8 };
        // SAFETY: no other process learns the key, and the memory outlives the worlds' use of the
        // device.
        worlds[0].with_network(|network| unsafe { network.register(part, Access::LOCAL) })?
    });
    let all: Vec<_> = taken.by_ref().collect();
    let send = |to| worlds[0].endpoint().send(&[1_u8], to, 1);
    let error = send(1).unwrap_err();
    assert!(matches!(error, Error::Network(NetworkError::NoLink { peer: 1, .. })), "{error:?}");
    assert!(error.to_string().contains("no link to rank 1"), "{error}");
    assert!(matches!(send(1), Err(Error::Fault(Fault::PeerFailed { rank: 1, .. }))));
    // An operation that the refusal ended names the peer afterwards, too.
    let data = Part { base: NonNull::from(&[1_u8]).cast(), length: 1 };
    // SAFETY: the bytes are a constant.
    let mut unlinked = unsafe { worlds[0].endpoint().begin_ssend(data, 3, 1) }.unwrap();
    let error = unlinked.wait(&worlds[0]).unwrap_err();
    assert!(matches!(error, Error::Network(NetworkError::NoLink { peer: 3, .. })), "{error:?}");
    let error = unlinked.status().unwrap_err();
    assert!(matches!(error, Error::Fault(Fault::PeerFailed { rank: 3, .. })), "{error:?}");
    worlds[0].with_network(|network| all.into_iter().for_each(|region| network.release(region)));
    // Other peers are not affected.
    std::thread::scope(|scope| {
        let mut worlds = worlds.into_iter();
        let [zero, one, two, three] = [(); 4].map(|()| worlds.next().unwrap());
        drop([one, three]);
        scope.spawn(move || two.endpoint().recv(&mut [0_u8], 0, 1).unwrap());
        zero.endpoint().send(&[1_u8], 2, 1).unwrap();
        zero.finalize().unwrap();
    });
}

/// Returns rank 0 of two ranks on two nodes. Rank 1 has left.
fn one_that_stays() -> World {
    let nodes = Nodes::named([0, 1]);
    let kind = (DeviceChoice::Soft(SoftMode::Inline), Design::ZeroCopy);
    let worlds =
        World::in_process_by(kind, Tuning::default(), SegmentConfig::new(2), &nodes).unwrap();
    let [zero, one] = <[World; 2]>::try_from(worlds).unwrap();
    one.finalize().unwrap();
    zero
}

/// Makes progress until the call of rank 1 has been refused.
fn until_refused(zero: &World) {
    let is_called = || zero.with_network(|network| network.is_linked(1)).unwrap();
    assert!(is_called());
    while is_called() {
        zero.progress().unwrap();
    }
}

/// Makes progress, and returns how rank 1 has ended.
fn gone(zero: &World) -> Option<Gone> {
    zero.progress().unwrap();
    zero.lock_progress().gone(1)
}

#[test]
fn a_peer_that_left_is_not_dead_to_a_rank_that_waits_for_it_no_more() {
    let zero = one_that_stays();
    zero.watch_over(1);
    until_refused(&zero);
    assert_eq!(gone(&zero), None, "a call that was refused once");
    // A rank that goes on to wait must not wait for ever.
    let looks = (0..100).take_while(|_| {
        zero.watch_over(1);
        gone(&zero).is_none()
    });
    assert!((1..10).contains(&looks.count()));
    assert!(matches!(gone(&zero), Some(Gone::Failed(_))));
}

#[test]
fn a_rank_that_waits_for_a_message_takes_one_refusal_for_the_end() {
    let zero = one_that_stays();
    // The message is awaited while a call that only watches is in progress.
    zero.watch_over(1);
    zero.await_from(1);
    until_refused(&zero);
    assert!(matches!(gone(&zero), Some(Gone::Failed(_))));
}

#[test]
fn a_peer_is_called_once_its_address_can_be_read() {
    let nodes = Nodes::named([0, 1]);
    let kind = (DeviceChoice::Soft(SoftMode::Inline), Design::ZeroCopy);
    let worlds =
        World::in_process_by(kind, Tuning::default(), SegmentConfig::new(2), &nodes).unwrap();
    let is_called = || worlds[0].with_network(|network| network.is_linked(1)).unwrap();
    let held = worlds[0].store.lock();
    worlds[0].await_from(1);
    worlds[0].progress().unwrap();
    assert!(!is_called(), "another call of this rank has the store");
    drop(held);
    worlds[0].progress().unwrap();
    assert!(is_called());
    // Each rank waits for the other when it leaves.
    std::thread::scope(|scope| {
        worlds.into_iter().for_each(|world| {
            scope.spawn(|| world.finalize().unwrap());
        });
    });
}
