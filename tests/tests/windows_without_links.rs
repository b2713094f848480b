//! Waits in windows for a rank on another node that dies, under a launcher that reports no death.
//!
//! Window operations between nodes go by the device, so the waiting rank may never have exchanged a
//! message with the rank that it waits for. It must learn of the death nevertheless. Each rank is a
//! node of its own here.

use strait::LockType::{Exclusive, Shared};
use strait::{Assert, Error, Fault, LockDesign, Window, World};
use strait_tests::{Ranks, die};

const RANKS: u32 = 8;

/// The rank that dies.
const VICTIM: u32 = RANKS - 1;

/// The rank that exchanges messages with the victim, and with the others.
const HERALD: u32 = VICTIM - 1;

fn is_failure_of_victim<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Fault(Fault::PeerFailed { rank: VICTIM, .. })))
}

/// Runs `act` in all ranks but the victim and the herald, once the victim is about to die. The
/// victim has run `before_death`.
fn beside_the_victim(
    world: &World,
    window: Window<'_>,
    before_death: impl FnOnce(&Window<'_>),
    act: impl FnOnce(&Window<'_>),
) {
    let endpoint = world.endpoint();
    let others: Vec<_> = (0..HERALD).collect();
    match world.rank() {
        VICTIM => {
            before_death(&window);
            endpoint.send(&[1_u8], HERALD, 0).unwrap();
            endpoint.recv(&mut [0_u8], HERALD, 0).unwrap();
            die();
        }
        HERALD => {
            endpoint.recv(&mut [0_u8], VICTIM, 0).unwrap();
            others.iter().for_each(|rank| endpoint.send(&[1_u8], *rank, 0).unwrap());
            endpoint.send(&[1_u8], VICTIM, 0).unwrap();
            others.iter().for_each(|rank| {
                endpoint.recv(&mut [0_u8], *rank, 0).unwrap();
            });
            others.iter().for_each(|rank| endpoint.send(&[1_u8], *rank, 0).unwrap());
        }
        _ => {
            endpoint.recv(&mut [0_u8], HERALD, 0).unwrap();
            act(&window);
            endpoint.send(&[1_u8], HERALD, 0).unwrap();
            // The parts of all ranks exist until all are done.
            endpoint.recv(&mut [0_u8], HERALD, 0).unwrap();
        }
    }
    drop(window);
}

fn victim_holds_a_lock(world: World) {
    let held = match std::env::var("TEST_HELD").as_deref() {
        Ok("shared") => Shared,
        _ => Exclusive,
    };
    let window = Window::builder(world.endpoint()).unit(8).allocate(64).unwrap();
    let design = window.lock_design();
    let take = |window: &Window<'_>| {
        window.lock(held, 0, Assert::NONE).unwrap();
        window.get(&mut [0_u64], 0, 0).unwrap();
    };
    beside_the_victim(&world, window, take, |window| {
        let mut number = [0_u64];
        let locked = window.lock(Exclusive, 0, Assert::NONE);
        let became = locked.and_then(|()| window.get(&mut number, 0, 0));
        let is_as_documented = match (design, held) {
            (LockDesign::Mcs | LockDesign::TestAndSet | LockDesign::Hybrid, Shared) => {
                is_failure_of_victim(&became)
            }
            _ => became.is_ok(),
        };
        assert!(is_as_documented, "{design}, {held:?}: {became:?}");
        if became.is_ok() {
            window.unlock(0).unwrap();
        }
    });
}

#[test]
fn a_waiter_for_a_lock_learns_that_its_holder_has_died() {
    let name = "a_waiter_for_a_lock_learns_that_its_holder_has_died";
    for held in ["alone", "shared"] {
        for design in LockDesign::ALL {
            let job = Ranks::new(RANKS, name).on_nodes(RANKS).by_pmi().with_deaths(&[VICTIM]);
            let job = job.with("STRAIT_WINDOW_LOCK", design).with("TEST_HELD", held);
            job.run(victim_holds_a_lock);
        }
    }
}

#[test]
fn a_waiter_for_an_epoch_learns_that_its_peer_has_died() {
    let name = "a_waiter_for_an_epoch_learns_that_its_peer_has_died";
    let job = Ranks::new(RANKS, name).on_nodes(RANKS).by_pmi().with_deaths(&[VICTIM]);
    job.run(|world| {
        let window = Window::builder(world.endpoint()).unit(8).allocate(64).unwrap();
        let me = world.rank();
        beside_the_victim(
            &world,
            window,
            |_| {},
            |window| match me % 3 {
                0 => {
                    window.post(&[VICTIM], Assert::NONE).unwrap();
                    let ended = window.wait();
                    assert!(is_failure_of_victim(&ended), "{ended:?}");
                }
                1 => {
                    window.post(&[VICTIM], Assert::NONE).unwrap();
                    let ended = loop {
                        match window.test() {
                            Ok(false) => std::thread::yield_now(),
                            ended => break ended,
                        }
                    };
                    assert!(is_failure_of_victim(&ended), "{ended:?}");
                }
                _ => {
                    window.start(&[VICTIM], Assert::NONE).unwrap();
                    let ended = window.put(&[1_u64], VICTIM, 0).and_then(|()| window.complete());
                    assert!(ended.is_err(), "the target never posts");
                }
            },
        );
    });
}
