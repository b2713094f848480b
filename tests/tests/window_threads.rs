//! Threads that serve the locks of windows, when a rank dies.

use strait::{Assert, LockDesign, LockType, Window};
use strait_tests::{Ranks, die, report};

use LockType::{Exclusive, Shared};

/// Rank 0 makes no call after rank 3 has died with its lock, until the survivors have had the lock.
#[test]
fn a_thread_revokes_the_lock_of_the_dead_while_its_rank_computes() {
    let name = "a_thread_revokes_the_lock_of_the_dead_while_its_rank_computes";
    for nodes in [1, 2] {
        for (design, held) in [
            (LockDesign::ThreadPerWindow, "alone"),
            (LockDesign::ThreadPerWindow, "shared"),
            (LockDesign::Event, "alone"),
        ] {
            let job = Ranks::new(4, name).on_nodes(nodes).with_deaths(&[3]);
            let job = job.with("STRAIT_WINDOW_LOCK", design).with("TEST_HELD", held);
            job.run(|world| {
                let is_shared = std::env::var("TEST_HELD").is_ok_and(|held| held == "shared");
                let held = if is_shared { Shared } else { Exclusive };
                let endpoint = world.endpoint();
                let window = || Window::builder(endpoint).unit(8).allocate(64).unwrap();
                let (window, others) = (window(), window());
                match world.rank() {
                    // The part holds the number of survivors that have had the lock.
                    0 => {
                        while window.local().load::<u64>(0) != Ok(2) {
                            std::thread::yield_now();
                        }
                    }
                    3 => {
                        for of_dead in [&window, &others] {
                            of_dead.lock(held, 0, Assert::NONE).unwrap();
                            of_dead.get(&mut [0_u64], 0, 0).unwrap();
                        }
                        for rank in [1, 2] {
                            endpoint.send(&[1_u8], rank, 0).unwrap();
                        }
                        die();
                    }
                    _ => {
                        endpoint.recv(&mut [0_u8], 3, 0).unwrap();
                        for of_dead in [&others, &window] {
                            of_dead.lock(Exclusive, 0, Assert::NONE).unwrap();
                            let mut number = [0_u64];
                            of_dead.get(&mut number, 0, 0).unwrap();
                            of_dead.put(&[number[0] + 1], 0, 0).unwrap();
                            of_dead.unlock(0).unwrap();
                        }
                    }
                }
                endpoint.group(&[0, 1, 2]).unwrap().barrier().unwrap();
                report("knows");
                drop((window, others));
            });
        }
    }
}
