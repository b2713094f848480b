//! Passive synchronisation: every design of locks, on one node and between nodes.

use core::time::Duration;

use strait::boot::SegmentConfig;
use strait::{
    Assert, Error, Fault, Group, LockCosts, LockDesign, LockMode, LockPolicy, LockType, Nodes, Op,
    Window, WindowError, WindowOptions, World,
};
use strait_tests::{Ranks, die, report, threads_on};

use LockType::{Exclusive, Shared};

fn all(world: &World) -> Group<'_> {
    world.endpoint().group(&(0..world.size()).collect::<Vec<_>>()).unwrap()
}

fn window(world: &World, design: LockDesign) -> Window<'_> {
    Window::builder(&all(world)).unit(8).options(design).allocate(64).unwrap()
}

/// Every rank adds to two numbers of some targets, not atomically, and reads both under shared
/// locks. The two are always equal.
fn add_alone_and_read_together(world: &World, window: &Window<'_>, rounds: u64) {
    let targets = [0, world.size() - 1];
    for round in 0..rounds {
        for target in targets {
            window.lock(Exclusive, target, Assert::NONE).unwrap();
            let mut number = [0_u64; 2];
            window.get(&mut number, target, 0).unwrap();
            window.put(&[number[0] + 1], target, 0).unwrap();
            window.put(&[number[1] + 1], target, 1).unwrap();
            window.unlock(target).unwrap();
            if round % 4 == u64::from(world.rank()) % 4 {
                window.lock(Shared, target, Assert::NONE).unwrap();
                window.get(&mut number, target, 0).unwrap();
                window.unlock(target).unwrap();
                assert_eq!(number[0], number[1], "read in the middle of a change");
            }
        }
    }
    world.endpoint().barrier().unwrap();
    let own = targets.iter().filter(|target| **target == world.rank()).count() as u64;
    window.lock(Shared, world.rank(), Assert::NONE).unwrap();
    for place in 0..2 {
        let sum: u64 = window.local().load(place * 8).unwrap();
        assert_eq!(sum, own * rounds * u64::from(world.size()), "additions were lost");
    }
    window.unlock(world.rank()).unwrap();
}

#[test]
fn one_at_a_time_changes_what_others_read() {
    let jobs = [(3, 1, "soft-inline"), (4, 2, "soft-inline"), (2, 2, "soft-engine")];
    for (ranks, nodes, device) in jobs {
        let job = Ranks::new(ranks, "one_at_a_time_changes_what_others_read").on_nodes(nodes);
        job.with("STRAIT_HCA", device).run(|world| {
            let rounds = if world.nodes().count() > 1 { 12 } else { 100 };
            for design in LockDesign::ALL {
                let window = window(&world, design);
                assert_eq!(window.lock_design(), design);
                add_alone_and_read_together(&world, &window, rounds);
                window.free().unwrap();
            }
            world.finalize().unwrap();
        });
    }
}

/// Works over any device: those of iWARP have no atomics, so there lock managers replace them.
#[test]
fn every_design_works_over_the_device_of_the_job() {
    let name = "every_design_works_over_the_device_of_the_job";
    let job = Ranks::new(2, name).on_nodes(2).within(Duration::from_secs(200));
    job.run(|world| {
        let is_iwarp = std::env::var("STRAIT_HCA").is_ok_and(|hca| hca.contains("siw"));
        for design in LockDesign::ALL {
            let window = window(&world, design);
            let needs = [LockDesign::TestAndSet, LockDesign::Mcs, LockDesign::Hybrid];
            let falls_back = is_iwarp && needs.contains(&design);
            let made = if falls_back { LockDesign::TwoSided } else { design };
            assert_eq!((window.lock_design_asked(), window.lock_design()), (design, made));
            add_alone_and_read_together(&world, &window, 5);
            window.free().unwrap();
        }
        world.finalize().unwrap();
    });
}

#[test]
fn the_environment_chooses_a_design() {
    let job = Ranks::new(2, "the_environment_chooses_a_design");
    job.with("STRAIT_WINDOW_LOCK", "mcs").run(|world| {
        let window = Window::builder(world.endpoint()).unit(8).allocate(64).unwrap();
        assert_eq!(window.lock_design(), LockDesign::Mcs);
        add_alone_and_read_together(&world, &window, 10);
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

/// Runs `body` on threads, for each design, on one node and on two.
fn each_design(body: fn(&World, &Window<'_>)) {
    for nodes in [1, 2] {
        for design in LockDesign::ALL {
            threads_on(SegmentConfig::new(3), &Nodes::blocks(3, nodes).unwrap(), move |world| {
                let window = window(&world, design);
                body(&world, &window);
                window.free().unwrap();
                world.finalize().unwrap();
            });
        }
    }
}

/// Ranks 0 and 1 share the locks of all members, and each wants one that a third rank waits for,
/// behind the other of the two.
#[test]
fn sharers_of_all_locks_do_not_wait_for_each_other() {
    for nodes in [1, 2] {
        for design in LockDesign::ALL {
            threads_on(SegmentConfig::new(4), &Nodes::blocks(4, nodes).unwrap(), move |world| {
                let window = window(&world, design);
                let (rank, endpoint) = (world.rank(), world.endpoint());
                let add = |target| window.accumulate(&[1_u64], target, 0, Op::Sum).unwrap();
                if rank < 2 {
                    window.lock_all(Assert::NONE).unwrap();
                    add(2 + rank);
                    window.flush(2 + rank).unwrap();
                }
                endpoint.barrier().unwrap();
                if rank >= 2 {
                    window.lock(Exclusive, 5 - rank, Assert::NONE).unwrap();
                }
                endpoint.barrier().unwrap();
                if rank < 2 {
                    add(3 - rank);
                    window.unlock_all().unwrap();
                } else {
                    add(5 - rank);
                    window.unlock(5 - rank).unwrap();
                }
                endpoint.barrier().unwrap();
                let sum: u64 = window.local().load(0).unwrap();
                assert_eq!(sum, if rank < 2 { 0 } else { 3 }, "{design:?} on {nodes} nodes");
                window.free().unwrap();
                world.finalize().unwrap();
            });
        }
    }
}

#[test]
fn all_share_at_once() {
    each_design(|world, window| {
        for _ in 0..3 {
            window.lock_all(Assert::NONE).unwrap();
            window.put(&[world.rank() + 1, 0], 0, world.rank() as usize).unwrap();
            // The barrier returns only because all ranks hold the shared lock of rank 0 at once.
            window.flush(0).unwrap();
            world.endpoint().barrier().unwrap();
            let mut found = [0_u64; 3];
            window.get(&mut found, 0, 0).unwrap();
            assert_eq!(found, [1, 2, 3]);
            window.unlock_all().unwrap();
            world.endpoint().barrier().unwrap();
        }
    });
}

#[test]
fn a_lock_does_not_wait() {
    each_design(|world, window| {
        let endpoint = world.endpoint();
        match world.rank() {
            0 => {
                window.lock(Exclusive, 2, Assert::NONE).unwrap();
                window.put(&[1_u64], 2, 0).unwrap();
                endpoint.send(&[1_u8], 1, 0).unwrap();
                // Rank 1 has acquired its lock while this rank holds its own.
                endpoint.recv(&mut [0_u8], 1, 0).unwrap();
                window.put(&[7_u64], 2, 0).unwrap();
                window.unlock(2).unwrap();
            }
            1 => {
                endpoint.recv(&mut [0_u8], 0, 0).unwrap();
                window.lock(Exclusive, 2, Assert::NONE).unwrap();
                endpoint.send(&[1_u8], 0, 0).unwrap();
                let mut found = [0_u64];
                window.get(&mut found, 2, 0).unwrap();
                assert_eq!(found, [7]);
                window.unlock(2).unwrap();
            }
            _ => {}
        }
        endpoint.barrier().unwrap();
    });
}

#[test]
fn unlock_waits_for_a_lock_that_was_not_used() {
    each_design(|world, window| {
        for _ in 0..10 {
            window.lock(Exclusive, 0, Assert::NONE).unwrap();
            window.unlock(0).unwrap();
            window.lock(Shared, 1, Assert::NO_CHECK).unwrap();
            window.unlock(1).unwrap();
        }
        world.endpoint().barrier().unwrap();
    });
}

#[test]
fn calls_out_of_turn_are_refused() {
    each_design(|_, window| {
        let refused = |done: Result<(), Error>| match done {
            Err(Error::Window(error)) => error,
            other => panic!("{other:?}"),
        };
        let no_epoch = |call| WindowError::NoEpoch { call };
        let open = |call| WindowError::EpochOpen { call };
        assert_eq!(refused(window.unlock(0)), no_epoch("unlock"));
        assert_eq!(refused(window.unlock_all()), no_epoch("unlock_all"));
        let beyond = WindowError::Target { target: 3, members: 3 };
        assert_eq!(refused(window.lock(Shared, 3, Assert::NONE)), beyond);
        assert_eq!(refused(window.unlock(3)), beyond);
        window.lock(Shared, 0, Assert::NONE).unwrap();
        assert_eq!(refused(window.lock(Exclusive, 0, Assert::NONE)), open("lock"));
        assert_eq!(refused(window.lock_all(Assert::NONE)), open("lock_all"));
        window.unlock(0).unwrap();
        window.lock_all(Assert::NONE).unwrap();
        assert_eq!(refused(window.lock(Exclusive, 0, Assert::NONE)), open("lock"));
        window.unlock_all().unwrap();
    });
}

#[test]
fn members_that_disagree_have_no_window() {
    threads_on(SegmentConfig::new(2), &Nodes::one(2), |world| {
        let design = [LockDesign::Mcs, LockDesign::Hybrid][world.rank() as usize];
        let made = Window::builder(&all(&world)).unit(8).options(design).allocate(64);
        let refused = WindowError::LockDesign { rank: 1 };
        assert!(matches!(made, Err(Error::Window(error)) if error == refused), "{made:?}");
        drop(made);
        world.finalize().unwrap();
    });
}

fn hybrid(world: &World, policy: LockPolicy) -> Window<'_> {
    let (lock, policy) = (Some(LockDesign::Hybrid), Some(policy));
    let options = WindowOptions { lock, policy, ..Default::default() };
    Window::builder(&all(world)).unit(8).options(options).allocate(64).unwrap()
}

/// Ranks 0 and 1 are on one node, 2 and 3 on another. The visitors lock rank 0 one after the other.
fn visits(world: &World, window: &Window<'_>, visitors: &[u32]) {
    for visitor in visitors {
        if world.rank() == *visitor {
            window.lock(Exclusive, 0, Assert::NONE).unwrap();
            let mut number = [0_u64];
            window.get(&mut number, 0, 0).unwrap();
            window.put(&[number[0] + 1], 0, 0).unwrap();
            window.unlock(0).unwrap();
        }
        world.endpoint().barrier().unwrap();
    }
}

#[test]
fn a_hybrid_lock_migrates_as_its_policy_says() {
    // The visitors, and how often the lock moves to the network, and back.
    let follow = (LockPolicy::Follow, vec![2, 3, 2, 1, 1, 0, 3], 2, 1, LockMode::Network);
    let slow = (LockPolicy::Hysteresis(2), vec![2, 3, 2, 1, 1, 1, 3], 1, 1, LockMode::Cpu);
    let cpu = (LockPolicy::Pinned(LockMode::Cpu), vec![2, 3, 1, 2], 0, 0, LockMode::Cpu);
    let network =
        (LockPolicy::Pinned(LockMode::Network), vec![2, 1, 0, 3], 0, 0, LockMode::Network);
    let history = LockPolicy::History { least: 2, of: 3 };
    let history = (history, vec![2, 3, 2, 1, 0, 1], 1, 1, LockMode::Cpu);
    // Each request in the wrong mode loses 30 of the 60 that a migration costs.
    let cost = LockPolicy::Cost(LockCosts { suiting: 10, other: 40, migration: 70 });
    let cost = (cost, vec![2, 3, 2, 1, 1, 1, 3], 1, 1, LockMode::Cpu);
    for (policy, visitors, to_network, to_cpu, mode) in [follow, slow, cpu, network, history, cost]
    {
        threads_on(SegmentConfig::new(4), &Nodes::blocks(4, 2).unwrap(), move |world| {
            let window = hybrid(&world, policy);
            visits(&world, &window, &visitors);
            let counters = window.lock_counters();
            if world.rank() == 0 {
                assert_eq!(counters.to_network, to_network, "{policy:?}");
                assert_eq!(counters.mode, mode, "{policy:?}");
                let sum: u64 = window.local().load(0).unwrap();
                assert_eq!(sum, visitors.len() as u64);
            }
            let mut moved = [counters.to_cpu];
            world.endpoint().allreduce(&mut moved, strait::Op::Sum).unwrap();
            assert_eq!(moved, [to_cpu], "{policy:?}");
            window.free().unwrap();
            world.finalize().unwrap();
        });
    }
}

/// Returns the group of the survivors.
fn survivors(world: &World) -> Group<'_> {
    let survivors: Vec<_> = (0..world.size() - 1).collect();
    world.endpoint().group(&survivors).unwrap()
}

/// Rank 3 dies with the lock of rank 0, which the others then request. Returns the result of each.
fn inherit(world: &World, window: &Window<'_>, held: LockType) -> Result<(), Error> {
    let endpoint = world.endpoint();
    if world.rank() == 3 {
        window.lock(held, 0, Assert::NONE).unwrap();
        window.get(&mut [0_u64], 0, 0).unwrap();
        (0..3).for_each(|rank| endpoint.send(&[1_u8], rank, 0).unwrap());
        endpoint.recv(&mut [0_u8], 0, 0).unwrap();
        die();
    }
    endpoint.recv(&mut [0_u8], 3, 0).unwrap();
    survivors(world).barrier().unwrap();
    window.lock(Exclusive, 0, Assert::NONE)?;
    let mut number = [0_u64];
    window.get(&mut number, 0, 0)?;
    window.put(&[number[0] + 1], 0, 0)?;
    window.unlock(0)
}

/// Returns whether the result is the documented one.
fn is_as_documented(design: LockDesign, held: LockType, became: &Result<(), Error>) -> bool {
    match (design, held) {
        (LockDesign::Mcs | LockDesign::TestAndSet | LockDesign::Hybrid, Shared) => {
            matches!(became, Err(Error::Fault(Fault::PeerFailed { rank: 3, .. })))
        }
        _ => became.is_ok(),
    }
}

fn rank_3_dies_with_a_lock(world: World) {
    let held = match std::env::var("TEST_HELD").as_deref() {
        Ok("shared") => Shared,
        _ => Exclusive,
    };
    let window = window_of_environment(&world);
    let design = window.lock_design();
    if world.rank() == 0 {
        world.endpoint().recv(&mut [0_u8], 3, 0).unwrap();
        survivors(&world).barrier().unwrap();
        world.endpoint().send(&[1_u8], 3, 0).unwrap();
    } else {
        let became = inherit(&world, &window, held);
        assert!(is_as_documented(design, held, &became), "{design}: {became:?}");
    }
    survivors(&world).barrier().unwrap();
    if world.rank() == 0 && is_as_documented(design, held, &Ok(())) {
        assert_eq!(window.local().load::<u64>(0), Ok(2));
    }
    report("knows");
    drop(window);
}

#[test]
fn the_lock_of_the_dead_is_revoked() {
    let name = "the_lock_of_the_dead_is_revoked";
    for (nodes, held) in [(1, "alone"), (1, "shared"), (2, "alone"), (2, "shared")] {
        for design in LockDesign::ALL {
            let job = Ranks::new(4, name).on_nodes(nodes).with_deaths(&[3]);
            let job = job.with("STRAIT_WINDOW_LOCK", design).with("TEST_HELD", held);
            job.run(rank_3_dies_with_a_lock);
        }
    }
}

/// Rank 1 holds the lock of rank 0. Rank 3 waits for it and dies; rank 2 waits behind rank 3.
#[test]
fn a_lock_survives_the_death_of_a_rank_that_waits_for_it() {
    let name = "a_lock_survives_the_death_of_a_rank_that_waits_for_it";
    for nodes in [1, 2, 4] {
        for design in LockDesign::ALL {
            let job = Ranks::new(4, name).on_nodes(nodes).with_deaths(&[3]);
            job.with("STRAIT_WINDOW_LOCK", design).run(|world| {
                let (endpoint, window) = (world.endpoint(), window_of_environment(&world));
                let take = || window.lock(Exclusive, 0, Assert::NONE).unwrap();
                let add = || {
                    let mut number = [0_u64];
                    window.get(&mut number, 0, 0).unwrap();
                    window.put(&[number[0] + 1], 0, 0).unwrap();
                    window.unlock(0).unwrap();
                };
                let tell = |rank| endpoint.send(&[1_u8], rank, 0).unwrap();
                let await_word = |rank| endpoint.recv(&mut [0_u8], rank, 0).map(drop).unwrap();
                match world.rank() {
                    0 => tell(1),
                    1 => {
                        // While a window is made, the death of a member is an error for the rest.
                        [0, 2].into_iter().for_each(await_word);
                        take();
                        window.flush(0).unwrap();
                        tell(3);
                        await_word(2);
                        add();
                    }
                    2 => {
                        tell(1);
                        await_word(3);
                        take();
                        tell(1);
                        add();
                    }
                    3 => {
                        await_word(1);
                        take();
                        // The call has not waited: this rank is behind rank 1.
                        tell(2);
                        die();
                    }
                    _ => {}
                }
                survivors(&world).barrier().unwrap();
                // The lock goes on: each survivor takes it twice more.
                for _ in 0..2 {
                    take();
                    add();
                }
                survivors(&world).barrier().unwrap();
                if world.rank() == 0 {
                    assert_eq!(window.local().load::<u64>(0), Ok(8), "{}", window.lock_design());
                }
                report("knows");
                drop(window);
            });
        }
    }
}

/// The manager learns of the death from its link.
#[test]
fn a_manager_revokes_the_lock_of_the_dead_although_no_launcher_tells_of_it() {
    let name = "a_manager_revokes_the_lock_of_the_dead_although_no_launcher_tells_of_it";
    for (design, held) in [(LockDesign::TwoSided, "alone"), (LockDesign::TwoSided, "shared")] {
        let job = Ranks::new(4, name).on_nodes(2).with_deaths(&[3]).by_pmi();
        let job = job.with("STRAIT_WINDOW_LOCK", design).with("TEST_HELD", held);
        job.run(rank_3_dies_with_a_lock);
    }
}

#[test]
fn a_lock_of_a_dead_target_fails() {
    let name = "a_lock_of_a_dead_target_fails";
    for nodes in [1, 2] {
        for design in LockDesign::ALL {
            let job = Ranks::new(4, name).on_nodes(nodes).with_deaths(&[3]);
            job.with("STRAIT_WINDOW_LOCK", design).run(|world| {
                let (endpoint, window) = (world.endpoint(), window_of_environment(&world));
                if world.rank() == 3 {
                    // The lock is exclusive, so a rank waits for the lock of the dead rank.
                    window.lock(Exclusive, 3, Assert::NONE).unwrap();
                    (0..3).for_each(|rank| endpoint.send(&[1_u8], rank, 0).unwrap());
                    (0..3).for_each(|rank| endpoint.recv(&mut [0_u8], rank, 0).map(drop).unwrap());
                    die();
                }
                endpoint.recv(&mut [0_u8], 3, 0).unwrap();
                window.lock(Shared, 3, Assert::NONE).unwrap();
                endpoint.send(&[1_u8], 3, 0).unwrap();
                let told = window.get(&mut [0_u64], 3, 0).unwrap_err();
                let is_told = matches!(told, Error::Fault(Fault::PeerFailed { rank: 3, .. }));
                assert!(is_told, "{told:?}");
                assert!(window.unlock(3).is_err(), "the epoch has ended");
                // The locks of the others are unchanged.
                survivors(&world).barrier().unwrap();
                window.lock(Exclusive, 1, Assert::NONE).unwrap();
                window.put(&[7_u64], 1, 0).unwrap();
                window.unlock(1).unwrap();
                survivors(&world).barrier().unwrap();
                report("knows");
                drop(window);
            });
        }
    }
}

fn window_of_environment(world: &World) -> Window<'_> {
    Window::builder(world.endpoint()).unit(8).allocate(64).unwrap()
}
