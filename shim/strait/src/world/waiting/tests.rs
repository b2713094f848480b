//! Tests with ranks on several nodes that sleep until they are woken. A sleep without a wake-up
//! lasts an hour here.

use core::cell::Cell;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::thread;

use strait_core::buffer::Cursor;
use strait_core::engine::{Fault, Owner, Received, Tuning};
use strait_core::layout::{Call, Life, SegmentConfig, Wait};
use strait_core::lock::{LockRequest, LockType};
use strait_core::matching::Pattern;
use strait_core::ring::Design;
use strait_core::shm::Slumber;
use strait_hca::DeviceChoice;
use strait_hca::cq::EventDriven as _;
use strait_hca::soft::{Fabric, SoftHca, SoftMode};
use strait_platform::Nodes;
use strait_platform::backoff::SpinLimits;
use strait_platform::boot::PeerAddress;
use strait_platform::sleep::Sleep;
use strait_platform::sleep::testing::take_turns;

use crate::World;
use crate::buffer::part_of_mut;
use crate::network::ConnectionListener;
use crate::progress::windows::lock_manager::WindowLockManager;
use crate::progress::windows::lock_managers::WindowLockManagers;
use crate::progress::windows::lock_message::{LockMessage, LockPayload};
use crate::world::leaving::WOKEN_BY_LEAVING;

/// Number of ranks, two on each node.
const RANKS: u32 = 4;

/// Number of sleeps without which a test has not tested that ranks are woken.
const SLEEPS: u32 = 10;

/// Runs `rank` in each world of a job. Its ranks sleep at once, and until they are woken.
///
/// On a busy machine the ranks may take turns, so that each finds its messages there and hardly
/// sleeps. Then further jobs follow.
fn sleepers(mode: SoftMode, design: Design, rank: fn(&World)) {
    let mut slept = Vec::new();
    for _ in 0..SLEEPS {
        slept.extend(sleeps_of_a_job(mode, design, rank));
        if slept.iter().sum::<u32>() >= SLEEPS {
            return;
        }
    }
    panic!("{design:?}, {mode:?}: {slept:?}");
}

/// Runs one job, and returns how often each rank slept.
fn sleeps_of_a_job(mode: SoftMode, design: Design, rank: fn(&World)) -> Vec<u32> {
    let nodes = Nodes::blocks(RANKS, 2).unwrap();
    let kind = (DeviceChoice::Soft(mode), design);
    let worlds =
        World::in_process_by(kind, Tuning::default(), SegmentConfig::new(RANKS), &nodes).unwrap();
    let (done, all) = mpsc::channel();
    for mut world in worlds {
        world.spin = SpinLimits::none();
        world.engine.place_mut().sleep.for_ever();
        let done = done.clone();
        thread::spawn(move || {
            rank(&world);
            let slept = world.engine.place().sleep.count();
            world.finalize().unwrap();
            done.send(slept).unwrap();
        });
    }
    let slept = (0..RANKS).map(|_| all.recv_timeout(Duration::from_secs(60)));
    slept.map(|slept| slept.expect("every rank is woken")).collect()
}

/// Passes a token round the ranks, in short and long messages. The holder lets the others fall
/// asleep.
fn pass_round(world: &World) {
    const ROUNDS: u8 = 20;
    let (endpoint, me) = (world.endpoint(), world.rank());
    let mut token = vec![0; 200_000];
    for round in 0..ROUNDS {
        let length = if round % 4 == 3 { token.len() } else { 8 };
        if me > 0 || round > 0 {
            let expected = if me == 0 { round - 1 } else { round };
            endpoint.recv(&mut token, (me + RANKS - 1) % RANKS, 1).unwrap();
            assert_eq!(token[7], expected);
        }
        thread::sleep(Duration::from_micros(300));
        if me + 1 < RANKS || round + 1 < ROUNDS {
            token[7] = round;
            endpoint.send(&token[..length], (me + 1) % RANKS, 1).unwrap();
        }
    }
}

/// Sends from all ranks to all at once, more than there is room for, and only then receives.
fn flood(world: &World) {
    const COUNT: u32 = 300;
    let (endpoint, me) = (world.endpoint(), world.rank());
    let others = || (0..RANKS).filter(|other| *other != me);
    endpoint.scope(|scope| {
        let data = [7_u8; 5000];
        let data = &*Box::leak(Box::new(data));
        let sends: Vec<_> = others()
            .flat_map(|other| (0..COUNT).map(move |_| other))
            .map(|other| scope.isend(data, other, 2).unwrap())
            .collect();
        let mut room = [0_u8; 5000];
        for _ in 0..COUNT * (RANKS - 1) {
            endpoint.recv(&mut room, crate::Source::Any, 2).unwrap();
        }
        for send in sends {
            send.wait().unwrap();
        }
    });
    endpoint.barrier().unwrap();
}

#[test]
fn ranks_on_nodes_are_woken() {
    for mode in SoftMode::ALL {
        Design::ALL.into_iter().for_each(|design| sleepers(mode, design, pass_round));
    }
}

#[test]
fn ranks_on_nodes_are_woken_for_room() {
    for mode in SoftMode::ALL {
        Design::ALL.into_iter().for_each(|design| sleepers(mode, design, flood));
    }
}

/// Creates rank 0 of two, with a dead peer, and a function that keeps messages of rank 0 to itself
/// moving.
fn busy_beside_the_dead() -> (World, impl Fn(&World) -> bool) {
    const LOOKS: u32 = 2_000_000;
    let mut worlds = World::in_process(2).unwrap();
    drop(worlds.pop());
    let world = worlds.pop().unwrap();
    let looks = Cell::new(0);
    let knows = move |world: &World| {
        looks.set(looks.get() + 1);
        assert!(looks.get() < LOOKS, "no search for dead ranks while something moves");
        let endpoint = world.endpoint();
        if looks.get() > 1 {
            endpoint.recv(&mut [0_u8; 8], 0, 1).unwrap();
        }
        endpoint.send(&[1_u8; 8], 0, 1).unwrap();
        world.lock_progress().gone(1).is_some()
    };
    (world, knows)
}

#[test]
fn a_wait_in_which_something_always_moves_learns_of_an_end() {
    let (world, knows) = busy_beside_the_dead();
    world.wait_until(|| Wait::new(Call::Request), || knows(&world).then_some(())).unwrap();
}

#[test]
fn calls_that_do_not_wait_and_always_move_something_learn_of_an_end() {
    let (world, knows) = busy_beside_the_dead();
    while !knows(&world) {
        world.poll().unwrap();
    }
}

#[test]
fn sleepers_with_a_device_are_woken() {
    let worlds = World::in_process(2).unwrap();
    let (fabric, segment) = (Fabric::create(2).unwrap(), worlds[0].segment());
    let devices = [0, 1].map(|rank| SoftHca::attach(&fabric, rank, SoftMode::Inline).unwrap());
    let sleeps = [0, 1].map(|rank| {
        let own =
            PeerAddress { nonce: segment.nonce(), rank, host: 0, address: None, key: [0; 16] };
        let listener = ConnectionListener::open(own, false).unwrap().events().unwrap();
        let events = (devices[rank as usize].events(), listener);
        Sleep::register().beside(events, &segment, rank).unwrap()
    });
    take_turns(sleeps, segment);
}

#[test]
fn a_rank_that_leaves_rings() {
    let mut worlds = World::in_process(2).unwrap();
    let sleeper = worlds.pop().unwrap();
    let segment = sleeper.segment();
    let bell = &segment.rank_block(1).doorbell;
    bell.prepare_to_sleep(Slumber::Word, || ());
    worlds.pop().unwrap().finalize().unwrap();
    assert!(!bell.is_wanted());
}

/// Otherwise the ranks of a job, which leave together, would all wake each other.
#[test]
fn a_rank_that_leaves_rings_few_and_one_that_dies_rings_all() {
    const OTHERS: u32 = WOKEN_BY_LEAVING as u32 + 4;
    for (how, rung) in [(Life::Finished, WOKEN_BY_LEAVING), (Life::Dead, OTHERS as usize)] {
        let worlds = World::in_process(OTHERS + 1).unwrap();
        let segment = worlds[0].segment();
        let bells: Vec<_> = (1..=OTHERS).map(|rank| &segment.rank_block(rank).doorbell).collect();
        bells.iter().for_each(|bell| bell.prepare_to_sleep(Slumber::Word, || ()));
        worlds[0].end(how);
        assert_eq!(bells.iter().filter(|bell| !bell.is_wanted()).count(), rung);
    }
}

/// The first look of a receive may find the message. With more ranks than processors it is the
/// only one before the receive is posted.
#[test]
fn a_message_is_received_by_a_rank_that_does_not_poll() {
    let mut worlds = World::in_process(2).unwrap();
    worlds[1].spin = SpinLimits::none();
    let endpoints = [worlds[0].endpoint(), worlds[1].endpoint()];
    for number in 0..20_u64 {
        // One of them is unexpected when the other is received.
        endpoints[0].send(&[number], 1, 7).unwrap();
        endpoints[0].send(&[number + 100], 1, 8).unwrap();
        for (tag, sent) in [(8, number + 100), (7, number)] {
            let mut found = [0_u64];
            endpoints[1].recv(&mut found, 0, tag).unwrap();
            assert_eq!(found, [sent]);
        }
    }
}

/// A request for a window's lock comes by the same lines as other messages, and only a round of
/// progress serves it. A rank that finds each of its messages at once must not go without.
#[test]
fn a_rank_that_finds_its_messages_in_lines_serves_its_windows() {
    let ways: [fn(&World); 3] = [
        |world| {
            world.endpoint().recv(&mut [0_u64], 0, 7).unwrap();
        },
        |world| {
            world.endpoint().recv(&mut [0_u64], crate::Source::Any, 7).unwrap();
        },
        |world| {
            let endpoint = world.endpoint();
            let mut number = [0_u64];
            endpoint.scope(|scope| scope.irecv(&mut number, 0, 7)?.wait().map(drop)).unwrap();
        },
    ];
    for (way, receive) in ways.into_iter().enumerate() {
        let mut worlds = World::in_process(2).unwrap();
        for (place, world) in (0..).zip(&mut worlds) {
            world.spin = SpinLimits::new(2, 2);
            let number = world.with_lock_managers(WindowLockManagers::next_number);
            let lock_manager =
                WindowLockManager::new(number, &[0, 1], place, [number; 2].into(), None, None);
            world.with_lock_managers(|all| all.open(lock_manager));
        }
        let exchange = |number: u64| {
            worlds[0].endpoint().send(&[number], 1, 7).unwrap();
            receive(&worlds[1]);
        };
        // The first messages open the lines.
        for number in 0..20 {
            exchange(number);
            worlds[0].progress().unwrap();
            worlds[1].progress().unwrap();
        }
        let word = LockPayload::Request(LockRequest::Lock(LockType::Exclusive));
        let message = LockMessage { word, manager: 1, place: 0 };
        worlds[0].with_lock_managers(|all| all.say(1, message));
        worlds[0].progress().unwrap();
        (0..4).for_each(exchange);
        worlds[0].progress().unwrap();
        let answer = worlds[0].with_lock_managers(|all| all.manager(1).unwrap().take_answer(1));
        assert!(answer.is_some(), "way {way}");
    }
}

/// A second end of the operation would be one of a later operation with its number, for which the
/// engine has an assertion.
#[test]
fn an_operation_that_fails_ends_once() {
    let mut worlds = World::in_process(1).unwrap();
    let world = worlds.remove(0);
    let what = || Wait::new(Call::Collective);
    let failed = || {
        let mut progress = world.lock_progress();
        progress.keep_outcome(Err(Fault::Cancelled), Owner::BLOCKING).unwrap()
    };
    let outcome = world.wait_until_over(failed(), what, || None).unwrap();
    assert_eq!(outcome, Err(Fault::Cancelled));
    let outcome = world.wait_until_over(failed(), what, || Some(Fault::Cancelled)).unwrap();
    assert_eq!(outcome, Err(Fault::Cancelled));
    world.finalize().unwrap();
}

#[test]
fn an_operation_that_is_given_up_ends_too() {
    let mut worlds = World::in_process(1).unwrap();
    let world = worlds.remove(0);
    let mut buffer = [0_u8; 8];
    let pattern = Pattern { context: 0, source: 0, tag: 7 };
    // SAFETY: the receive ends before the buffer does.
    let received = unsafe {
        world.irecv(pattern, Cursor::contiguous(part_of_mut(&mut buffer)), Owner::BLOCKING)
    };
    let Ok(Received::Pending(id)) = received else { panic!("{received:?}") };
    let loss = || Some(Fault::PeerFinished { rank: 0 });
    let outcome = world.wait_until_over(id, || Wait::new(Call::Collective), loss).unwrap();
    assert_eq!(outcome, Err(Fault::PeerFinished { rank: 0 }));
    assert!(world.lock_progress().is_over(id));
    world.finalize().unwrap();
}

/// The last member of a group may learn that the others have left before it polls again.
#[test]
fn a_message_counts_that_came_before_its_sender_left() {
    let worlds = World::in_process(2).unwrap();
    let mut buffer = [0_u8; 8];
    let pattern = Pattern { context: 0, source: 0, tag: 7 };
    // SAFETY: the receive ends before the buffer does.
    let received = unsafe {
        worlds[1].irecv(pattern, Cursor::contiguous(part_of_mut(&mut buffer)), Owner::BLOCKING)
    };
    let Ok(Received::Pending(id)) = received else { panic!("{received:?}") };
    worlds[0].endpoint().send(&[5_u8; 8], 1, 7).unwrap();
    let loss = || Some(Fault::PeerFinished { rank: 0 });
    let outcome = worlds[1].wait_until_over(id, || Wait::new(Call::Collective), loss).unwrap();
    assert_eq!(outcome.map(|status| status.bytes), Ok(8));
    assert_eq!(buffer, [5; 8]);
    for world in worlds {
        world.finalize().unwrap();
    }
}

/// Lengths of messages in one line, in several, in a cell, in a parcel, and in several runs.
const LENGTHS: [usize; 5] = [8, 200, 900, 5000, 100_000];

/// Sends to or receives from the other rank, which sleeps whenever its message is received.
fn synchronise(world: &World, over: &AtomicUsize) {
    let (endpoint, doorbell) = (world.endpoint(), &world.map.rank_block(0).doorbell);
    for (number, length) in LENGTHS.repeat(4).into_iter().enumerate() {
        if world.rank() == 0 {
            endpoint.ssend(&vec![5_u8; length], 1, 0).unwrap();
            over.fetch_add(1, SeqCst);
            continue;
        }
        while !doorbell.is_wanted() {
            thread::yield_now();
        }
        endpoint.recv(&mut vec![0_u8; length], 0, 0).unwrap();
        // It makes no call that could wake the sender now.
        while over.load(SeqCst) == number {
            thread::yield_now();
        }
    }
}

#[test]
fn a_receive_wakes_the_sender_of_a_synchronous_message() {
    let kind = (DeviceChoice::Soft(SoftMode::Inline), Design::ZeroCopy);
    let (config, nodes) = (SegmentConfig::new(2), Nodes::one(2));
    let worlds = World::in_process_by(kind, Tuning::default(), config, &nodes).unwrap();
    let (over, (done, all)) = (Arc::new(AtomicUsize::new(0)), mpsc::channel());
    for mut world in worlds {
        world.spin = SpinLimits::none();
        world.engine.place_mut().sleep.for_ever();
        let (over, done) = (Arc::clone(&over), done.clone());
        thread::spawn(move || {
            synchronise(&world, &over);
            done.send(world.engine.place().sleep.count()).unwrap();
            world.finalize().unwrap();
        });
    }
    let slept = [(); 2].map(|()| all.recv_timeout(Duration::from_secs(60)).expect("it is woken"));
    assert!(slept.iter().any(|count| *count > 0), "no rank has slept");
}
