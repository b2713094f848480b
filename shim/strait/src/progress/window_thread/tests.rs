//! Tests of threads of windows: what they serve while their rank computes, and when they end.

use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::thread;

use strait_core::engine::Tuning;
use strait_core::layout::SegmentConfig;
use strait_core::lock::LockType;
use strait_core::ring::Design;
use strait_hca::DeviceChoice;
use strait_hca::soft::SoftMode;
use strait_platform::Nodes;

use crate::{Assert, LockDesign, Op, Window, WindowDesign, World};

/// The longest time that a rank computes. A test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Creates two ranks: on one node, or on two nodes with software devices of this mode.
fn pair(mode: Option<SoftMode>) -> [World; 2] {
    let nodes = Nodes::blocks(2, if mode.is_some() { 2 } else { 1 }).unwrap();
    let device = mode.map_or(DeviceChoice::None, DeviceChoice::Soft);
    let (tuning, config) = (Tuning::default(), SegmentConfig::new(2));
    World::in_process_by((device, Design::ZeroCopy), tuning, config, &nodes)
        .unwrap()
        .try_into()
        .unwrap()
}

/// Runs `part` in both ranks, each on a thread of its own.
fn play(mode: Option<SoftMode>, part: impl Fn(&World) + Sync) {
    thread::scope(|scope| {
        for world in pair(mode) {
            let part = &part;
            scope.spawn(move || {
                part(&world);
                world.finalize().unwrap();
            });
        }
    });
}

fn window(world: &World, design: WindowDesign) -> Window<'_> {
    let builder = Window::builder(world.endpoint()).unit(8);
    builder.design(design).locks(LockDesign::ThreadPerWindow).allocate(1 << 16).unwrap()
}

fn threads_of(world: &World) -> usize {
    // The world has one reference, each thread one, and each handle of a thread one.
    (Arc::strong_count(world.engine().turns()) - 1) / 2
}

/// Short and long operations, numbers that the target's processor combines, and locks.
fn visit(window: &Window<'_>, random: &mut fastrand::Rng, sum: &mut u64) {
    for _ in 0..random.usize(1..12) {
        let exclusive = random.bool();
        let lock_type = if exclusive { LockType::Exclusive } else { LockType::Shared };
        window.lock(lock_type, 1, Assert::NONE).unwrap();
        let add = random.u64(..100);
        *sum += add;
        window.accumulate(&[add], 1, 0, Op::Sum).unwrap();
        let long = vec![random.u64(..); random.usize(1..8000)];
        if exclusive {
            window.put(&long, 1, 1).unwrap();
            window.flush(1).unwrap();
            let mut found = vec![0; long.len()];
            window.get(&mut found, 1, 1).unwrap();
            window.flush(1).unwrap();
            assert!(found == long, "another value than was put");
        }
        window.unlock(1).unwrap();
    }
}

/// The target makes no call until the origin has visited all windows, in a random order.
#[test]
fn each_window_of_a_computing_rank_is_served() {
    for seed in 0..4 {
        for mode in [None].into_iter().chain(SoftMode::ALL.map(Some)) {
            let (sender, receiver) = mpsc::channel();
            let receiver = std::sync::Mutex::new(receiver);
            play(mode, |world| {
                let designs = [WindowDesign::Rdma, WindowDesign::SendRecv, WindowDesign::Rdma];
                let windows = designs.map(|design| window(world, design));
                assert_eq!(threads_of(world), 3);
                if world.rank() == 0 {
                    let (mut random, mut sums) = (fastrand::Rng::with_seed(seed), [0; 3]);
                    for _ in 0..6 {
                        let at = random.usize(..3);
                        visit(&windows[at], &mut random, &mut sums[at]);
                    }
                    sender.send(sums).unwrap();
                } else {
                    let sums = receiver.lock().unwrap().recv_timeout(LIMIT);
                    let sums = sums.expect("the origin waits for a rank that computes");
                    for (window, sum) in windows.iter().zip(sums) {
                        window.lock(LockType::Shared, 1, Assert::NONE).unwrap();
                        assert_eq!(window.local().load::<u64>(0).unwrap(), sum, "{mode:?} {seed}");
                        window.unlock(1).unwrap();
                    }
                }
                windows.into_iter().for_each(|window| window.free().unwrap());
            });
        }
    }
}

/// Threads come and go in a random order, while a message waits for its receive.
#[test]
fn a_thread_ends_with_its_window() {
    for mode in [None].into_iter().chain(SoftMode::ALL.map(Some)) {
        play(mode, |world| {
            let (endpoint, peer) = (world.endpoint(), 1 - world.rank());
            let mut random = fastrand::Rng::with_seed(mode.is_some().into());
            let mut room = [0_u64];
            endpoint.scope(|scope| {
                let receive = scope.irecv(&mut room, peer, 77).unwrap();
                let mut open = Vec::new();
                for round in 0..40_u64 {
                    if open.is_empty() || random.bool() {
                        open.push(window(world, WindowDesign::Rdma));
                    } else {
                        open.swap_remove(random.usize(..open.len())).free().unwrap();
                    }
                    assert_eq!(threads_of(world), open.len());
                    assert_eq!(world.engine().has_thread(), !open.is_empty());
                    let mut found = [0];
                    endpoint.sendrecv(&[round], peer, 1, &mut found, peer, 1).unwrap();
                    assert_eq!(found, [round]);
                }
                open.into_iter().for_each(|window| window.free().unwrap());
                assert_eq!(Arc::strong_count(world.engine().turns()), 1, "a thread still runs");
                endpoint.send(&[5_u64], peer, 77).unwrap();
                receive.wait().unwrap();
            });
            assert_eq!(room, [5]);
        });
    }
}

/// The windows are not freed.
#[test]
fn a_thread_ends_with_its_world() {
    for end in 0..3 {
        let ending = pair(None).map(|world| {
            let shared = Arc::downgrade(world.engine().turns());
            let thread = thread::spawn(move || {
                core::mem::forget(window(&world, WindowDesign::Rdma));
                drop(window(&world, WindowDesign::SendRecv));
                assert_eq!(threads_of(&world), 2);
                match end {
                    0 => world.finalize().unwrap(),
                    1 => drop(world),
                    _ => {
                        let _world = world;
                        panic!("a program that fails");
                    }
                }
            });
            (shared, thread)
        });
        for (shared, thread) in ending {
            assert_eq!(thread.join().is_err(), end == 2);
            assert!(shared.upgrade().is_none(), "a thread still runs");
        }
    }
}

/// Both kinds of threads run, in either order of their starts. The progress thread stays.
#[test]
fn windows_have_threads_beside_the_progress_thread() {
    for is_first in [false, true] {
        let worlds = pair(None);
        thread::scope(|scope| {
            for mut world in worlds {
                scope.spawn(move || {
                    if is_first {
                        world.start_progress_thread().unwrap();
                    }
                    let made = window(&world, WindowDesign::Rdma);
                    if !is_first {
                        world.engine().start_thread().unwrap();
                    }
                    assert_eq!(threads_of(&world), 2);
                    for _ in 0..50 {
                        made.lock(LockType::Exclusive, 0, Assert::NONE).unwrap();
                        let mut number = [0_u64];
                        made.get(&mut number, 0, 0).unwrap();
                        made.put(&[number[0] + 1], 0, 0).unwrap();
                        made.unlock(0).unwrap();
                    }
                    world.endpoint().barrier().unwrap();
                    if world.rank() == 0 {
                        made.lock(LockType::Shared, 0, Assert::NONE).unwrap();
                        assert_eq!(made.local().load::<u64>(0).unwrap(), 100);
                        made.unlock(0).unwrap();
                    }
                    made.free().unwrap();
                    assert!(world.engine().has_thread());
                    assert_eq!(threads_of(&world), 1);
                    world.finalize().unwrap();
                });
            }
        });
    }
}
