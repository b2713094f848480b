//! Tests with ranks that compute and make no calls while other ranks wait for them.

use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::thread;

use strait_core::engine::Tuning;
use strait_core::layout::SegmentConfig;
use strait_core::ring::Design;
use strait_hca::DeviceChoice;
use strait_hca::soft::SoftMode;
use strait_platform::Nodes;

use crate::World;

/// The mode of the software devices, and the design of the links over them.
type Kind = (SoftMode, Design);

const LARGE: usize = 3 << 20;

/// The longest time that a rank computes. A test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Creates two ranks with progress threads: on one node, or on two nodes with this kind of network.
fn pair(kind: Option<Kind>) -> [World; 2] {
    let nodes = Nodes::blocks(2, if kind.is_some() { 2 } else { 1 }).unwrap();
    let kind = match kind {
        Some((mode, design)) => (DeviceChoice::Soft(mode), design),
        None => (DeviceChoice::None, Design::ZeroCopy),
    };
    let mut worlds =
        World::in_process_by(kind, Tuning::default(), SegmentConfig::new(2), &nodes).unwrap();
    worlds.iter_mut().for_each(|world| world.start_progress_thread().unwrap());
    worlds.try_into().unwrap()
}

/// Runs `waits` in rank 0 and `computes` in rank 1. Rank 1 learns when rank 0 has finished.
fn play(
    kind: Option<Kind>,
    waits: impl FnOnce(&World) + Send,
    computes: impl FnOnce(&World, &dyn Fn()) + Send,
) {
    let [zero, one] = pair(kind);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            waits(&zero);
            sender.send(()).unwrap();
            zero.finalize().unwrap();
        });
        scope.spawn(move || {
            let compute =
                || receiver.recv_timeout(LIMIT).expect("rank 0 waits for a rank that computes");
            computes(&one, &compute);
            one.finalize().unwrap();
        });
    });
}

fn everywhere(test: fn(Option<Kind>)) {
    test(None);
    for mode in SoftMode::ALL {
        Design::ALL.into_iter().for_each(|design| test(Some((mode, design))));
    }
}

fn payload() -> Vec<u8> {
    (0..LARGE).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn a_computing_rank_receives_a_large_message() {
    everywhere(|kind| {
        let data = payload();
        let send = |world: &World| world.endpoint().send(&data, 1, 5).unwrap();
        play(kind, send, |world, compute| {
            let mut room = vec![0; LARGE];
            world.endpoint().scope(|scope| {
                let receive = scope.irecv(&mut room, 0, 5).unwrap();
                compute();
                assert_eq!(receive.wait().unwrap().bytes, LARGE);
            });
            assert!(room == data, "{kind:?}: a byte differs");
        });
    });
}

#[test]
fn a_computing_rank_sends_a_large_message() {
    everywhere(|kind| {
        let data = payload();
        let receive = |world: &World| {
            let mut room = vec![0; LARGE];
            world.endpoint().recv(&mut room, 1, 5).unwrap();
            assert!(room == payload(), "{kind:?}: a byte differs");
        };
        play(kind, receive, |world, compute| {
            world.endpoint().scope(|scope| {
                let send = scope.isend(&data, 0, 5).unwrap();
                compute();
                send.wait().unwrap();
            });
        });
    });
}

/// The messages exceed the room on the way, but not the share of one source.
#[test]
fn a_computing_rank_takes_in_unexpected_messages() {
    const COUNT: u32 = 350;
    everywhere(|kind| {
        let send = |world: &World| {
            (0..COUNT).for_each(|tag| world.endpoint().send(&[tag; 2000], 1, tag).unwrap());
        };
        play(kind, send, |world, compute| {
            compute();
            for tag in (0..COUNT).rev() {
                let mut room = [0; 2000];
                world.endpoint().recv(&mut room, 0, tag).unwrap();
                assert_eq!(room, [tag; 2000]);
            }
        });
    });
}

/// Calls and the thread alternate all the time.
#[test]
fn messages_go_back_and_forth_beside_the_thread() {
    everywhere(|kind| {
        const ROUNDS: u64 = 100;
        let rounds = |world: &World| {
            let (endpoint, peer) = (world.endpoint(), 1 - world.rank());
            let mut room = [0_u64];
            for round in 0..ROUNDS {
                endpoint.sendrecv(&[round], peer, 1, &mut room, peer, 1).unwrap();
                assert_eq!(room, [round]);
            }
            endpoint.barrier().unwrap();
        };
        play(kind, rounds, |world, compute| {
            rounds(world);
            compute();
        });
    });
}

#[test]
fn the_thread_ends_with_its_world() {
    for end in 0..3 {
        let [zero, one] = pair(None);
        let shared = [&zero, &one].map(|world| Arc::downgrade(world.engine().turns()));
        let ending = [zero, one].map(|world| {
            thread::spawn(move || match end {
                0 => world.finalize().unwrap(),
                1 => drop(world),
                _ => {
                    let _world = world;
                    panic!("a program that fails");
                }
            })
        });
        let failed = ending.map(|thread| thread.join().is_err());
        assert_eq!(failed, [end == 2; 2]);
        assert!(shared.iter().all(|shared| shared.upgrade().is_none()), "a thread still runs");
    }
}

#[test]
fn a_second_thread_is_not_started() {
    let [mut zero, _one] = pair(None);
    zero.start_progress_thread().unwrap();
    assert_eq!(
        Arc::strong_count(zero.engine().turns()),
        3,
        "the world's, the handle's and the thread's"
    );
}
