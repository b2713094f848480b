//! Synchronisation of windows: epochs, targets that never poll, and deaths.

use core::time::Duration;

use strait::boot::SegmentConfig;
use strait::{Accumulates, Assert, Error, Fault, Nodes, Op, RmaOperation, Window, World};
#[cfg(debug_assertions)]
use strait_core::sync::Step;
#[cfg(debug_assertions)]
use strait_tests::die_at;
use strait_tests::{Ranks, one_dies, report, threads_on};

/// Creates a window in the segment, or over private memory.
fn window(world: &World, private: bool, bytes: usize) -> Window<'_> {
    match private {
        true => Window::builder(world.endpoint()).over(vec![0_u8; bytes]).unwrap(),
        false => Window::builder(world.endpoint()).allocate(bytes).unwrap(),
    }
}

/// Every rank is an origin and a target of every other rank, for `rounds` rounds.
fn all_to_all(world: &World, window: &Window<'_>, rounds: u64) {
    let (me, all) = (world.rank(), (0..world.size()).collect::<Vec<_>>());
    for round in 1..=rounds {
        window.post(&all, Assert::NONE).unwrap();
        window.start(&all, Assert::NONE).unwrap();
        for &target in &all {
            window.put(&[round << 8 | u64::from(me)], target, 8 * me as usize).unwrap();
        }
        window.complete().unwrap();
        if round % 2 == 0 {
            while !window.test().unwrap() {}
        } else {
            window.wait().unwrap();
        }
        for &origin in &all {
            let found: u64 = window.local().load(8 * origin as usize).unwrap();
            assert_eq!(found, round << 8 | u64::from(origin));
        }
    }
}

#[test]
fn an_epoch_ends_when_all_of_its_operations_have() {
    for (ranks, nodes) in [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2)] {
        let job = Ranks::new(ranks, "an_epoch_ends_when_all_of_its_operations_have");
        job.on_nodes(nodes).run(|world| {
            for private in [false, true] {
                let window = window(&world, private, 64);
                all_to_all(&world, &window, 200);
                window.free().unwrap();
            }
            world.finalize().unwrap();
        });
    }
}

/// In a window that spans nodes the device accumulates on the node, too, while the processor
/// signals the end of the epoch.
#[test]
fn on_a_node_the_end_of_an_epoch_does_not_overtake_the_device() {
    let name = "on_a_node_the_end_of_an_epoch_does_not_overtake_the_device";
    Ranks::new(3, name).on_nodes(2).with("STRAIT_HCA", "soft-engine").run(|world| {
        let all = world.endpoint().group(&[0, 1, 2]).unwrap();
        for promise in [Accumulates::Any, Accumulates::Single] {
            let window = Window::builder(&all).unit(8).options(promise).allocate(64).unwrap();
            for round in 1..=100_u64 {
                match world.rank() {
                    0 => {
                        window.start(&[1], Assert::NONE).unwrap();
                        window.accumulate(&[1_u64, 2, 3], 1, 0, Op::Sum).unwrap();
                        window.complete().unwrap();
                    }
                    1 => {
                        window.post(&[0], Assert::NONE).unwrap();
                        while !window.test().unwrap() {}
                        let found: [u64; 3] = [0, 8, 16].map(|at| window.local().load(at).unwrap());
                        assert_eq!(found, [1, 2, 3].map(|each| each * round));
                    }
                    _ => {}
                }
            }
            window.free().unwrap();
        }
        drop(all);
        world.finalize().unwrap();
    });
}

#[test]
fn an_origin_waits_for_the_post_and_not_before_it_has_to() {
    for nodes in [1, 2] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, nodes).unwrap(), late_posts);
    }
}

fn late_posts(world: World) {
    let (endpoint, window) = (world.endpoint(), window(&world, false, 8));
    if world.rank() == 0 {
        for _ in 0..3 {
            // No post has arrived yet, so no operation is done.
            window.start(&[1], Assert::NONE).unwrap();
            window.complete().unwrap();
        }
        endpoint.send(&[1_u8], 1, 0).unwrap();
        window.start(&[1], Assert::NONE).unwrap();
        assert_eq!(window.fetch_and_op(1_u64, 1, 0, Op::Sum).unwrap(), 41, "too early");
        window.complete().unwrap();
    } else {
        endpoint.recv(&mut [0_u8], 0, 0).unwrap();
        for round in 0..3 {
            window.post(&[0], Assert::NONE).unwrap();
            window.wait().unwrap();
            assert_eq!(window.local().load::<u64>(0), Ok(0), "round {round}");
        }
        std::thread::sleep(Duration::from_millis(20));
        window.local().store(0, 41_u64).unwrap();
        window.post(&[0], Assert::NONE).unwrap();
        window.wait().unwrap();
        assert_eq!(window.local().load::<u64>(0), Ok(42));
    }
    window.free().unwrap();
}

#[test]
fn a_promise_makes_waits_unnecessary() {
    for nodes in [1, 2] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, nodes).unwrap(), promises);
    }
}

fn promises(world: World) {
    let (endpoint, window) = (world.endpoint(), window(&world, false, 8));
    for round in 1..=3_u64 {
        // A checked epoch follows an unchecked one.
        for promise in [Assert::NO_CHECK, Assert::NONE | Assert::NO_PUT] {
            if world.rank() == 1 {
                window.post(&[0], promise).unwrap();
            }
            endpoint.barrier().unwrap();
            if world.rank() == 0 {
                window.start(&[1], promise).unwrap();
                window.accumulate(&[1_u64], 1, 0, Op::Sum).unwrap();
                window.complete().unwrap();
            } else {
                window.wait().unwrap();
            }
        }
        if world.rank() == 1 {
            assert_eq!(window.local().load(0), Ok(2 * round));
        }
    }
    // A fence that ends no operations does not synchronise: only one rank calls it.
    if world.rank() == 0 {
        window.fence(Assert::NO_PRECEDE | Assert::NO_SUCCEED).unwrap();
    }
    window.free().unwrap();
}

#[test]
fn sleepers_are_woken_by_posts_and_completions() {
    for nodes in [1, 2] {
        let job = Ranks::new(4, "sleepers_are_woken_by_posts_and_completions");
        job.on_nodes(nodes).with("STRAIT_CPUS", 1).run(|world| {
            let window = window(&world, false, 64);
            let (me, ranks) = (world.rank(), world.size());
            let (next, previous) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
            for round in 0..50_u64 {
                if me == round as u32 % ranks {
                    std::thread::sleep(Duration::from_millis(3));
                }
                window.post(&[previous], Assert::NONE).unwrap();
                window.start(&[next], Assert::NONE).unwrap();
                window.put(&[round], next, 0).unwrap();
                window.complete().unwrap();
                window.wait().unwrap();
                assert_eq!(window.local().load(0), Ok(round));
            }
            window.free().unwrap();
            world.finalize().unwrap();
        });
    }
}

/// The accesses of an origin to a target that makes no call: all operations that are documented to
/// need no call of the target.
fn reach_a_target_that_never_polls(window: &Window<'_>) {
    let data = vec![5_u8; 900_000];
    window.put(&data, 1, 64).unwrap();
    window.flush(1).unwrap();
    let mut found = vec![0_u8; 900_000];
    window.get(&mut found, 1, 64).unwrap();
    assert_eq!(found, data);
    assert!(![RmaOperation::Put, RmaOperation::Get].into_iter().any(|it| window.needs_target(it)));
    if window.needs_target(RmaOperation::FetchAndOp) {
        window.put(&[105_u64, 1, 1], 1, 8).unwrap();
    } else {
        assert_eq!(window.fetch_and_op(5_u64, 1, 8, Op::Sum).unwrap(), 0);
        assert_eq!(window.compare_and_swap(5_u64, 6, 1, 8).unwrap(), 5);
        window.accumulate(&[99_u64], 1, 8, Op::Sum).unwrap();
        assert_eq!(window.compare_and_swap(0_u64, 9, 1, 8).unwrap(), 105);
        // The origin itself accumulates so few bytes.
        window.accumulate(&[1_u64, 1], 1, 16, Op::Sum).unwrap();
    }
    // A get is not ordered behind accumulates without a synchronisation (MPI-4.1 §12.7.2).
    window.flush(1).unwrap();
    let mut found = [0_u64; 3];
    window.get(&mut found, 1, 8).unwrap();
    assert_eq!(found, [105, 1, 1]);
    window.flush_local(1).unwrap();
    window.flush_all().unwrap();
    window.put(&[7_u64], 1, 0).unwrap();
    window.flush(1).unwrap();
}

/// The target computes and makes no call, until it finds in its own part that the origin is done.
#[test]
fn a_target_that_never_enters_the_library_is_reached_all_the_same() {
    let name = "a_target_that_never_enters_the_library_is_reached_all_the_same";
    let jobs = [(1, "soft-inline"), (2, "soft-inline"), (2, "soft-engine"), (2, "soft-iwarp")];
    for (nodes, device) in jobs {
        Ranks::new(2, name).on_nodes(nodes).with("STRAIT_HCA", device).run(|world| {
            for (private, promise) in [false, true]
                .into_iter()
                .flat_map(|private| [Accumulates::Any, Accumulates::Single].map(|it| (private, it)))
            {
                let all = world.endpoint().group(&[0, 1]).unwrap();
                let window = match private {
                    true => {
                        Window::builder(&all).options(promise).over(vec![0_u8; 1 << 20]).unwrap()
                    }
                    false => Window::builder(&all).options(promise).allocate(1 << 20).unwrap(),
                };
                window.fence(Assert::NONE).unwrap();
                if world.rank() == 1 {
                    let part = window.local();
                    while part.load::<u64>(0).unwrap() != 7 {
                        core::hint::spin_loop();
                    }
                    window.sync();
                    assert_eq!(part.load::<u64>(8), Ok(105));
                } else {
                    reach_a_target_that_never_polls(&window);
                }
                window.fence(Assert::NONE).unwrap();
                window.free().unwrap();
            }
            world.finalize().unwrap();
        });
    }
}

#[track_caller]
fn assert_failed<T: core::fmt::Debug>(result: Result<T, Error>, rank: u32) {
    let failed =
        matches!(result, Err(Error::Fault(Fault::PeerFailed { rank: dead, .. })) if dead == rank);
    assert!(failed, "{result:?}");
}

/// The survivors' windows remain usable.
fn survivors_go_on(world: &World, private: bool) {
    let others: Vec<_> = (0..world.size()).filter(|rank| *rank != 1).collect();
    let group = world.endpoint().group(&others).unwrap();
    let window = match private {
        true => Window::builder(&group).unit(8).over(vec![0_u64; 8]).unwrap(),
        false => Window::builder(&group).unit(8).allocate(64).unwrap(),
    };
    let next = (group.place() + 1) % others.len() as u32;
    window.fence(Assert::NONE).unwrap();
    window.accumulate(&[u64::from(world.rank())], next, 3, Op::Sum).unwrap();
    window.fence(Assert::NONE).unwrap();
    let previous = others[(group.place() as usize + others.len() - 1) % others.len()];
    assert_eq!(window.local().load(24), Ok(u64::from(previous)));
    window.free().unwrap();
}

#[test]
fn waits_for_the_dead_fail() {
    for (nodes, design) in [(1, "rdma"), (2, "rdma"), (1, "send_recv"), (2, "send_recv")] {
        let job = Ranks::new(3, "waits_for_the_dead_fail").on_nodes(nodes);
        job.with("STRAIT_WINDOW", design).with_deaths(&[1]).run(|world| {
            for private in [false, true] {
                let window = window(&world, private, 64);
                window.fence(Assert::NONE).unwrap();
                if private {
                    one_dies(&world, 1);
                    report("after its death");
                    window.post(&[1], Assert::NONE).unwrap();
                    assert_failed(window.wait(), 1);
                    window.post(&[1], Assert::NONE).unwrap();
                    let failed = loop {
                        match window.test() {
                            Ok(ended) => assert!(!ended),
                            failed => break failed,
                        }
                    };
                    assert_failed(failed, 1);
                    window.start(&[1], Assert::NONE).unwrap();
                    assert_failed(window.put(&[1_u8], 1, 0), 1);
                    window.complete().unwrap();
                    assert_failed(window.put(&[1_u8], 1, 0), 1);
                    assert_failed(window.fetch_and_op(1_u64, 1, 0, Op::Sum), 1);
                    assert_failed(window.flush(1), 1);
                    assert_failed(window.fence(Assert::NONE), 1);
                    // The parts of the others are unchanged.
                    window.put(&[3_u8], 2 - world.rank(), 5).unwrap();
                    window.flush(2 - world.rank()).unwrap();
                    assert_failed(window.free(), 1);
                } else {
                    window.free().unwrap();
                }
            }
            survivors_go_on(&world, false);
            survivors_go_on(&world, true);
            world.finalize().unwrap();
        });
    }
}

/// A target that waits for one origin is not disturbed by another origin that completed and left.
#[test]
fn an_origin_that_completed_may_leave() {
    Ranks::new(3, "an_origin_that_completed_may_leave").run(|world| {
        let (endpoint, window) = (world.endpoint(), window(&world, false, 8));
        if world.rank() == 0 {
            window.post(&[1, 2], Assert::NONE).unwrap();
            let left = endpoint.recv(&mut [0_u8], 1, 0);
            let told = matches!(left, Err(Error::Fault(Fault::PeerFinished { rank: 1 })));
            assert!(told, "{left:?}");
            assert!(!window.test().unwrap(), "rank 2 has not completed");
            endpoint.send(&[1_u8], 2, 0).unwrap();
            window.wait().unwrap();
        } else {
            if world.rank() == 2 {
                endpoint.recv(&mut [0_u8], 0, 0).unwrap();
            }
            window.start(&[0], Assert::NONE).unwrap();
            window.complete().unwrap();
        }
        drop(window);
        world.finalize().unwrap();
    });
}

#[test]
fn a_window_is_not_made_with_the_dead() {
    for nodes in [1, 2] {
        let job = Ranks::new(3, "a_window_is_not_made_with_the_dead").on_nodes(nodes);
        job.with_deaths(&[1]).run(|world| {
            world.endpoint().barrier().unwrap();
            one_dies(&world, 1);
            assert_failed(Window::builder(world.endpoint()).allocate(64).map(drop), 1);
            assert_failed(Window::builder(world.endpoint()).over(vec![0_u8; 64]).map(drop), 1);
            survivors_go_on(&world, true);
            world.finalize().unwrap();
        });
    }
}

/// Environment variable with the step, as a number in [`STEPS`].
#[cfg(debug_assertions)]
const STEP: &str = "STRAIT_TEST_STEP";

#[cfg(debug_assertions)]
const STEPS: [Step; 10] = Step::OF_WINDOWS;

/// Runs one round of all operations with all ranks as origins of all. Counts its additions to the
/// counter at rank 0 in `counted`.
#[cfg(debug_assertions)]
fn round(window: &Window<'_>, ranks: u32, counted: &mut u64) -> Result<(), Error> {
    let all: Vec<_> = (0..ranks).collect();
    let own = 64 + 8 * window.group().place() as usize;
    window.post(&all, Assert::NONE)?;
    window.start(&all, Assert::NONE)?;
    for target in 0..ranks {
        window.put(&[*counted], target, own)?;
        window.accumulate(&[1_u64; 4], target, 0, Op::Sum)?;
        *counted += u64::from(target == 0);
    }
    for target in 0..ranks {
        window.flush(target)?;
    }
    window.complete()?;
    window.wait()?;
    window.fence(Assert::NONE)
}

/// Number of nodes, the device between them, and the length in bytes above which handlers carry out
/// accumulates.
#[cfg(debug_assertions)]
type Job = (u32, &'static str, &'static str);

/// Returns the jobs in which rank 1 reaches a step.
#[cfg(debug_assertions)]
fn jobs(step: Step) -> &'static [Job] {
    const ONE: Job = (1, "soft-inline", "64");
    const OWN: Job = (2, "soft-inline", "64");
    const HANDLED: [Job; 3] =
        [(2, "soft-inline", "8"), (2, "soft-iwarp", "8"), (3, "soft-iwarp", "8")];
    match step {
        Step::AccumulateLocked | Step::AccumulateWritten => {
            &[ONE, OWN, HANDLED[0], HANDLED[1], HANDLED[2]]
        }
        // Between nodes, with all accumulates carried out by the target.
        Step::AmSent => &HANDLED,
        _ => &[ONE, HANDLED[0], HANDLED[1]],
    }
}

/// Rank 1 is killed at each step of a synchronisation or an accumulate. The others learn of it, and
/// no lock stays with the dead rank. The survivors' additions are complete, with at most a part of
/// the dead rank's last addition.
#[cfg(debug_assertions)]
#[test]
fn killed_at_every_step_of_a_window() {
    let steps = STEPS.iter().enumerate();
    for (step, (nodes, device, most)) in
        steps.flat_map(|(number, step)| jobs(*step).iter().map(move |job| (number, *job)))
    {
        let job = Ranks::new(3, "killed_at_every_step_of_a_window").with_deaths(&[1]);
        let job = job.on_nodes(nodes).with("STRAIT_HCA", device);
        let job = job.with("STRAIT_ACCUMULATE_MAX", most);
        job.with(STEP, step).within(Duration::from_secs(30)).run(rank_1_dies_in_a_round);
    }
}

/// Kills rank 1 at each step in windows by messages, which have neither locks nor active messages.
#[cfg(debug_assertions)]
#[test]
fn killed_at_every_step_of_a_window_by_messages() {
    const NEVER: [Step; 3] = [Step::AccumulateLocked, Step::AccumulateWritten, Step::AmSent];
    let reached = STEPS.iter().enumerate().filter(|(_, step)| !NEVER.contains(step));
    for (step, nodes) in reached.flat_map(|(step, _)| [(step, 1), (step, 3)]) {
        let name = "killed_at_every_step_of_a_window_by_messages";
        let job = Ranks::new(3, name).with_deaths(&[1]).on_nodes(nodes);
        let job = job.with("STRAIT_WINDOW", "send_recv").with(STEP, step);
        job.within(Duration::from_secs(30)).run(rank_1_dies_in_a_round);
    }
}

#[cfg(debug_assertions)]
fn rank_1_dies_in_a_round(world: World) {
    let step: usize = std::env::var(STEP).unwrap().parse().unwrap();
    report(format_args!("{:?}", STEPS[step]));
    let window = window(&world, true, 1 << 10);
    let mut counted = 0;
    (0..3).for_each(|_| round(&window, 3, &mut counted).unwrap());
    window.fence(Assert::NONE).unwrap();
    if world.rank() == 1 {
        die_at(STEPS[step]);
    }
    let told = loop {
        if let Err(error) = round(&window, 3, &mut counted) {
            break error;
        }
    };
    assert_failed::<()>(Err(told), 1);
    // With an epoch open, operations would wait for a post that does not arrive.
    let _ = window.complete();
    // Every lock that the dead rank held can be acquired.
    for target in [0, 2] {
        for _ in 0..100 {
            window.accumulate(&[1_u64; 4], target, 0, Op::Sum).unwrap();
        }
        window.flush(target).unwrap();
    }
    let group = world.endpoint().group(&[0, 2]).unwrap();
    let mut all = [counted + 100];
    group.allreduce(&mut all, Op::Sum).unwrap();
    let mut found = [0_u64; 4];
    window.get(&mut found, 0, 0).unwrap();
    // The dead rank was in its fourth round.
    for sum in found {
        assert!((all[0] + 3..=all[0] + 4).contains(&sum), "{sum} for {}", all[0]);
    }
    group.barrier().unwrap();
    drop(group);
    assert_failed(window.free(), 1);
    survivors_go_on(&world, true);
    world.finalize().unwrap();
}
