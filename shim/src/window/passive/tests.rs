//! Words of locks that are destroyed, or that a dead member left between two modes: each member
//! that waits gets an error, or the lock.

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use strait_core::layout::{Call, Config, Corrupt, Wait};
use strait_core::lock::{Coding, LockType, McsWord, Op, RemoteWord, Request, State, Words};

use super::message::{Answer, Message, Word};
use crate::window::{Assert, LockDesign, Window};
use crate::{Error, Nodes, World};

/// Far more than a test takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

const RANKS: u32 = 3;

/// Runs `body` in each rank of a job on so many nodes, with a window of this design.
fn each_rank(
    nodes: u32,
    design: LockDesign,
    body: impl Fn(&Window<'_>) + Clone + Send + Sync + 'static,
) {
    let nodes = Nodes::blocks(RANKS, nodes).unwrap();
    let (ended, ends) = mpsc::channel();
    for world in World::in_process_on(Config::new(RANKS), &nodes).unwrap() {
        let (body, ended) = (body.clone(), ended.clone());
        thread::spawn(move || {
            // The lock of a destroyed word is never free, so the members do not part in order.
            let world: &'static World = Box::leak(Box::new(world));
            let group = world.endpoint().group(&[0, 1, 2]).unwrap();
            let window = group.allocate_window_for(64, 8, design).unwrap();
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

fn is_corrupt(outcome: &Result<(), Error>) -> bool {
    matches!(outcome, Err(Error::Corrupt(Corrupt::LockWord { .. } | Corrupt::Lock { .. })))
}

#[test]
fn a_destroyed_word_of_a_lock_is_an_error_on_each_waiter() {
    use LockType::{Exclusive, Shared};
    // No place, no number of sharers, and no mode in any coding.
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
                    for offset in [Words::CPU, Words::NETWORK] {
                        window.block.locks().at(offset).preset(garbage);
                    }
                    endpoint.barrier().unwrap();
                    // Its own processor may be needed.
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

/// A member is in the queue when its own flag, the link of the member before it, or the count of those that share the
/// lock is destroyed.
#[test]
fn a_destroyed_queue_is_an_error_on_each_member_of_it() {
    const GARBAGE: u64 = 0x77_7777;
    for nodes in [1, 3] {
        for destroyed in [McsWord::Flag(1), McsWord::Next(0), McsWord::Sharers, McsWord::Lock] {
            each_rank(nodes, LockDesign::Mcs, move |window| {
                let endpoint = window.world.endpoint();
                if window.group.place() == 0 {
                    window.lock(LockType::Exclusive, 0, Assert::NONE).unwrap();
                    endpoint.barrier().unwrap();
                    endpoint.recv(&mut [0_u8], 1, 0).unwrap();
                    let word = window.queue_word(0, destroyed, Op::Swap(0)).unwrap();
                    word.perform(Op::Write(GARBAGE)).unwrap();
                    match destroyed {
                        // Its own words are as they were.
                        McsWord::Sharers | McsWord::Lock => window.unlock(0).unwrap(),
                        // To unlock would write the flag.
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
fn a_member_that_says_something_impossible_to_a_manager_is_told() {
    for design in [LockDesign::TwoSided, LockDesign::Event] {
        for nodes in [1, 3] {
            each_rank(nodes, design, move |window| {
                let (world, place) = (window.world, window.group.place());
                let endpoint = world.endpoint();
                endpoint.barrier().unwrap();
                match place {
                    0 => {
                        // The manager's own calls report the message, too, and this send may: so the
                        // message must not come before the manager has left the barrier.
                        let _ = endpoint.send(&[0_u8], 1, 0);
                        while !matches!(endpoint.iprobe(1, 0), Ok(Some(_))) {
                            thread::yield_now();
                        }
                    }
                    1 => {
                        endpoint.recv(&mut [0_u8], 0, 0).unwrap();
                        // The request for a lock arrives as something else.
                        let word = Word::Request(Request::Unlock);
                        let message = Message { word, desk: 999, place };
                        world.with_desks(|desks| desks.say(0, message));
                        let answer = world
                            .wait_until(|| Wait::new(Call::WindowLock), || window.answer_of(0))
                            .unwrap();
                        assert_eq!(answer, Answer::Corrupt, "{design} {nodes}");
                        endpoint.send(&[0_u8], 0, 0).unwrap();
                    }
                    _ => {}
                }
            });
        }
    }
}

/// A member of the target's node leaves both words so when it moves the lock to CPU mode and dies
/// before it takes the CPU word.
#[test]
fn a_lock_between_two_modes_is_had_from_another_node() {
    use LockType::{Exclusive, Shared};
    for lock_type in [Exclusive, Shared] {
        each_rank(3, LockDesign::Hybrid, move |window| {
            let endpoint = window.world.endpoint();
            if window.group.place() == 0 {
                // The network word says CPU mode from the beginning.
                let moved_away = Coding::Signed.word(State::Elsewhere(0));
                window.block.locks().at(Words::CPU).preset(moved_away);
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
