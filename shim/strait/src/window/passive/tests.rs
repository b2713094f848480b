//! Tests of lock words that are destroyed, or that a dead member left between two modes. Each
//! waiting member gets an error, or the lock.

use core::cell::Cell;
use core::time::Duration;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use strait_core::hca::Atomics;
use strait_core::layout::{Call, Corrupt, EventKind, RankSet, Wait};
use strait_core::lock::{
    Coding, LockRequest, LockState, LockType, LockWords, McsWord, RemoteWord, WordAccess,
};
use strait_platform::Nodes;

use crate::progress::windows::lock_message::{LockMessage, LockPayload, LockReply};
use crate::{Assert, Error, LockDesign, Window, World};

/// Time limit, far above what a test takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

const RANKS: u32 = 3;

std::thread_local! {
    /// The atomics that this thread's rank claims for its device.
    pub(super) static CLAIMED_ATOMICS: Cell<Option<Atomics>> = const { Cell::new(None) };
}

/// Runs `body` in each rank of a job on `nodes` nodes, with a window of this design.
fn each_rank(
    nodes: u32,
    design: LockDesign,
    body: impl Fn(&Window<'_>) + Clone + Send + Sync + 'static,
) {
    each_rank_claiming(|_| None, nodes, design, body);
}

/// Runs `body` in each rank, which claims atomics for its device.
fn each_rank_claiming(
    claims: impl Fn(u32) -> Option<Atomics> + Copy + Send + 'static,
    nodes: u32,
    design: LockDesign,
    body: impl Fn(&Window<'_>) + Clone + Send + Sync + 'static,
) {
    let nodes = Nodes::blocks(RANKS, nodes).unwrap();
    let (ended, ends) = mpsc::channel();
    for world in World::builder().nodes(nodes).in_process(RANKS).unwrap() {
        let (body, ended) = (body.clone(), ended.clone());
        thread::spawn(move || {
            // The lock of a destroyed word is never free, so the members cannot end in order.
            let world: &'static World = Box::leak(Box::new(world));
            let group = world.endpoint().group(&[0, 1, 2]).unwrap();
            CLAIMED_ATOMICS.set(claims(world.rank()));
            let window = Window::builder(&group).unit(8).options(design).allocate(64).unwrap();
            body(&window);
            ended.send(()).unwrap();
            core::mem::forget(window);
        });
    }
    drop(ended);
    for _ in 0..RANKS {
        ends.recv_timeout(LIMIT).expect("a rank failed or hangs");
    }
}

fn lock_and_unlock(window: &Window<'_>, lock_type: LockType) -> Result<(), Error> {
    window.lock(lock_type, 0, Assert::NONE)?;
    window.get(&mut [0_u64], 0, 0)?;
    window.unlock(0)
}

/// Lets ranks 1, on the target's node, and 2 lock rank 0 in turn. Returns this rank's counters.
fn visit_in_turn(window: &Window<'_>, lock_type: LockType) -> crate::LockCounters {
    let world = window.world;
    for round in 0..6 {
        if world.rank() == 1 + round % 2 {
            window.lock(lock_type, 0, Assert::NONE).unwrap();
            let mut number = [0_u64];
            window.get(&mut number, 0, 0).unwrap();
            window.put(&[number[0] + 1], 0, 0).unwrap();
            window.unlock(0).unwrap();
            // No call waits for a release by the device, and this device is not coherent. So a read
            // that follows it has to end before the next rank's processor accesses the word.
            window.lock(lock_type, 0, Assert::NO_CHECK).unwrap();
            window.get(&mut number, 0, 0).unwrap();
            window.unlock(0).unwrap();
        }
        world.endpoint().barrier().unwrap();
    }
    if world.rank() == 0 {
        assert_eq!(window.local().load::<u64>(0).unwrap() % 6, 0);
    }
    // The next visits change the number.
    world.endpoint().barrier().unwrap();
    window.lock_counters()
}

#[test]
fn a_lock_does_not_migrate_where_atomics_of_devices_and_processors_agree() {
    for design in [LockDesign::Hybrid, LockDesign::TestAndSet] {
        each_rank_claiming(
            |_| Some(Atomics::Coherent),
            2,
            design,
            move |window| {
                assert!(!window.lock_needs_target());
                for lock_type in [LockType::Exclusive, LockType::Shared] {
                    let counters = visit_in_turn(window, lock_type);
                    assert_eq!([counters.to_cpu, counters.to_network, counters.requests], [0; 3]);
                    // Only the rank of the other node uses the device.
                    assert_eq!(counters.accesses > 0, window.world.rank() == 2, "{counters:?}");
                }
            },
        );
    }
}

#[test]
fn a_lock_migrates_where_the_atomics_of_one_device_do_not_agree() {
    let claims = |rank| (rank != 2).then_some(Atomics::Coherent);
    each_rank_claiming(claims, 2, LockDesign::Hybrid, |window| {
        assert!(window.lock_needs_target());
        let counters = visit_in_turn(window, LockType::Exclusive);
        assert_eq!(counters.requests > 0, window.world.rank() == 2);
        assert_eq!(counters.to_cpu > 0, window.world.rank() == 1);
    });
}

fn is_corrupt(outcome: &Result<(), Error>) -> bool {
    matches!(outcome, Err(Error::Corrupt(Corrupt::LockWord { .. } | Corrupt::Lock { .. })))
}

#[test]
fn a_destroyed_lock_word_is_an_error_at_each_waiting_member() {
    use LockType::{Exclusive, Shared};
    // Each value names no place, no number of sharers and no mode in any coding.
    for garbage in [0x5a5a_5a5a_5a5a_5a5a, 77, 0xffff_ffff_0000_0000, 1 << 40] {
        for (nodes, design) in [
            (1, LockDesign::TestAndSet),
            (1, LockDesign::Mcs),
            (1, LockDesign::Hybrid),
            (3, LockDesign::TestAndSet),
            (3, LockDesign::Mcs),
            (3, LockDesign::Hybrid),
        ] {
            each_rank(nodes, design, move |window| {
                let endpoint = window.world.endpoint();
                if window.group.place() == 0 {
                    for offset in [LockWords::CPU, LockWords::NETWORK] {
                        window.block.locks().at(offset).preset(garbage);
                    }
                    endpoint.barrier().unwrap();
                    // The processor of this rank may be needed.
                    endpoint.recv(&mut [0_u8], 1, 0).unwrap();
                    endpoint.recv(&mut [0_u8], 2, 0).unwrap();
                    return;
                }
                endpoint.barrier().unwrap();
                let lock_type = if window.group.place() == 1 { Exclusive } else { Shared };
                let outcome = lock_and_unlock(window, lock_type);
                assert!(is_corrupt(&outcome), "{design} {nodes} {garbage:#x}: {outcome:?}");
                endpoint.send(&[0_u8], 0, 0).unwrap();
            });
        }
    }
}

/// A member is in the queue when one word is destroyed: its own flag, the link of the member before
/// it, or the count of sharers.
#[test]
fn a_destroyed_queue_is_an_error_at_each_member() {
    const GARBAGE: u64 = 0x77_7777;
    for nodes in [1, 3] {
        for destroyed in [McsWord::Flag(1), McsWord::Next(0), McsWord::Holders, McsWord::Lock] {
            each_rank(nodes, LockDesign::Mcs, move |window| {
                let endpoint = window.world.endpoint();
                if window.group.place() == 0 {
                    window.lock(LockType::Exclusive, 0, Assert::NONE).unwrap();
                    endpoint.barrier().unwrap();
                    endpoint.recv(&mut [0_u8], 1, 0).unwrap();
                    let word = window.queue_word(0, destroyed, WordAccess::Swap(0)).unwrap();
                    word.perform(WordAccess::Write(GARBAGE)).unwrap();
                    match destroyed {
                        // The member's own words are intact.
                        McsWord::Holders | McsWord::Lock => window.unlock(0).unwrap(),
                        // An unlock would write the flag.
                        McsWord::Flag(_) => endpoint.recv(&mut [0_u8], 1, 1).map(drop).unwrap(),
                        McsWord::Next(_) => {
                            let outcome = window.unlock(0);
                            assert!(is_corrupt(&outcome), "{destroyed:?}: {outcome:?}");
                        }
                    }
                } else {
                    endpoint.barrier().unwrap();
                    if window.group.place() == 2 {
                        return;
                    }
                    window.lock(LockType::Exclusive, 0, Assert::NONE).unwrap();
                    endpoint.send(&[0_u8], 0, 0).unwrap();
                    let mut outcome = window.get(&mut [0_u64], 0, 0);
                    if destroyed == McsWord::Lock {
                        outcome = outcome.and_then(|()| window.unlock(0));
                    }
                    assert!(is_corrupt(&outcome), "{nodes} {destroyed:?}: {outcome:?}");
                    endpoint.send(&[0_u8], 0, 1).unwrap();
                }
            });
        }
    }
}

#[test]
fn an_impossible_message_to_a_manager_is_an_error() {
    for design in [LockDesign::TwoSided, LockDesign::Event] {
        for nodes in [1, 3] {
            each_rank(nodes, design, move |window| {
                let (world, place) = (window.world, window.group.place());
                let endpoint = world.endpoint();
                endpoint.barrier().unwrap();
                match place {
                    0 => {
                        // The manager's own calls report the message, too, and so may this send. So
                        // the message must not arrive before the manager has left the barrier.
                        let _ = endpoint.send(&[0_u8], 1, 0);
                        while !matches!(endpoint.iprobe(1, 0), Ok(Some(_))) {
                            thread::yield_now();
                        }
                    }
                    1 => {
                        endpoint.recv(&mut [0_u8], 0, 0).unwrap();
                        // The request for a lock arrives as an unlock request.
                        let word = LockPayload::Request(LockRequest::Unlock);
                        let message = LockMessage { word, manager: 999, place };
                        world.with_lock_managers(|lock_managers| lock_managers.say(0, message));
                        let answer = world
                            .wait_until(|| Wait::new(Call::WindowLock), || window.answer_of(0))
                            .unwrap();
                        assert_eq!(answer, LockReply::Corrupt, "{design} {nodes}");
                        endpoint.send(&[0_u8], 0, 0).unwrap();
                    }
                    _ => {}
                }
            });
        }
    }
}

/// The thread of a window takes in the requests for all windows, and serves its own alone.
#[test]
fn a_thread_of_a_window_serves_no_other_window() {
    const ROUNDS: usize = 20;
    for nodes in [1, 3] {
        let arrived = Arc::new(Barrier::new(RANKS as usize));
        each_rank(nodes, LockDesign::TwoSided, move |others| {
            let (place, make) = (others.group.place(), || Window::builder(&others.group).unit(8));
            let own = [(); 2].map(|()| make().options(LockDesign::ThreadPerWindow).allocate(64));
            let own = own.map(Result::unwrap);
            // From here on the target computes.
            arrived.wait();
            if place != 0 {
                // The manager of this window needs a call of its rank.
                others.lock(LockType::Shared, 0, Assert::NONE).unwrap();
                for round in 0..ROUNDS {
                    // Its answer arrives behind the request for the other window.
                    let window = &own[(round + place as usize) % 2];
                    lock_and_unlock(window, LockType::Exclusive).unwrap();
                    assert_eq!(others.answer_of(0), None, "served by a window's thread");
                }
            }
            // Until here.
            arrived.wait();
            if place != 0 {
                others.get(&mut [0_u64], 0, 0).unwrap();
                others.unlock(0).unwrap();
            }
            own.into_iter().for_each(|window| window.free().unwrap());
        });
    }
}

/// A member of the target's node leaves both words in this state when it dies during a move of the
/// lock to CPU mode. It has not taken the CPU word then.
#[test]
fn a_lock_between_two_modes_is_taken_from_another_node() {
    use LockType::{Exclusive, Shared};
    for lock_type in [Exclusive, Shared] {
        each_rank(3, LockDesign::Hybrid, move |window| {
            let endpoint = window.world.endpoint();
            if window.group.place() == 0 {
                // The network word says CPU mode from the beginning.
                let moved_away = Coding::Signed.word(LockState::Elsewhere(0));
                window.block.locks().at(LockWords::CPU).preset(moved_away);
                endpoint.barrier().unwrap();
                // The manager works in these calls.
                endpoint.recv(&mut [0_u8], 1, 0).unwrap();
                endpoint.recv(&mut [0_u8], 2, 0).unwrap();
                return;
            }
            endpoint.barrier().unwrap();
            lock_and_unlock(window, lock_type).unwrap();
            endpoint.send(&[0_u8], 0, 0).unwrap();
        });
    }
}

/// Events name each lock that a member takes and releases, also where it is taken at once.
#[test]
fn events_tell_of_each_lock() {
    use EventKind::{LockReleased, LockTaken};
    for design in LockDesign::ALL {
        let world = World::builder().in_process(1).unwrap().remove(0);
        world.lock_progress().record_events(|| 7);
        let window = Window::builder(world.endpoint()).options(design).allocate(64).unwrap();
        for lock_type in [LockType::Exclusive, LockType::Shared] {
            lock_and_unlock(&window, lock_type).unwrap();
        }
        window.lock_all(Assert::NONE).unwrap();
        window.get(&mut [0_u64], 0, 0).unwrap();
        window.unlock_all().unwrap();
        window.free().unwrap();
        let segment = world.segment();
        let events = segment.rank_record(0).events.iter();
        let locks = events.filter(|event| [LockTaken, LockReleased].contains(&event.kind));
        let found: Vec<_> = locks.map(|event| (event.kind, event.peer, event.bytes)).collect();
        let taken = |exclusive| [(LockTaken, 0, exclusive), (LockReleased, 0, 0)];
        assert_eq!(found, [taken(1), taken(0), taken(0)].concat(), "{design:?}");
        world.finalize().unwrap();
    }
}

/// A lock manager names the holders to members of its node that wait.
#[test]
fn a_wait_for_a_manager_names_the_holders() {
    each_rank(1, LockDesign::TwoSided, |window| {
        let (world, one) = (window.world, RankSet::of(Some(1)));
        for lock_type in [LockType::Exclusive, LockType::Shared] {
            if world.rank() == 1 {
                window.lock(lock_type, 0, Assert::NONE).unwrap();
                window.get(&mut [0_u64], 0, 0).unwrap();
            }
            window.group.barrier().unwrap();
            if world.rank() == 2 {
                let Wait { peer, others, target, .. } = window.wait_for_manager(0);
                assert_eq!((others, target), (one, Some(0)), "{lock_type:?}");
                assert_eq!(peer, (lock_type == LockType::Exclusive).then_some(1));
            }
            window.group.barrier().unwrap();
            if world.rank() == 1 {
                window.unlock(0).unwrap();
            }
            while world.rank() == 2 && window.wait_for_manager(0).peer != Some(0) {
                world.poll().unwrap();
            }
            window.group.barrier().unwrap();
        }
    });
}
