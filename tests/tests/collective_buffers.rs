//! Collective operations through collective buffers: the same results as by messages, members that
//! run ahead of others, members that die.

use core::time::Duration;

use fastrand::Rng;
use strait::boot::SegmentConfig;
use strait::{CollectiveError, Error, FailureCause, Fault, Group, InPlace, Nodes, Op, World};
use strait_core::layout::BARRIER_SLOTS;
use strait_core::shm::BarrierAlgorithm;
use strait_tests::collectives::{Twins, VECTOR_OPERATIONS};
use strait_tests::{Ranks, die, report, threads, threads_on};

/// More operations than a group has before it takes collective buffers.
const ENOUGH: usize = 20;

/// Lengths in numbers of 8 bytes, around the bounds between the rings of a buffer and between
/// buffers and messages.
const LENGTHS: [usize; 18] =
    [0, 1, 2, 7, 8, 16, 50, 127, 128, 129, 500, 2047, 2048, 2049, 5000, 8191, 8192, 8193];

fn has_buffers(group: &Group<'_>) -> bool {
    format!("{group:?}").contains("buffers: Ready")
}

/// Makes a group of all ranks that has collective buffers.
fn with_buffers(world: &World, context: u32) -> Group<'_> {
    let group = world.endpoint().with_context(context).everyone();
    for _ in 0..ENOUGH {
        group.allreduce(&mut [1_u64; 20], Op::Sum).unwrap();
    }
    assert!(has_buffers(&group), "{group:?}");
    group
}

/// Gathers vectors at the root, and returns what the root has.
fn gather(group: &Group<'_>, own: &[u64], root: u32) -> Vec<u64> {
    if group.place() != root {
        group.gather(own, &mut [], root).unwrap();
        return Vec::new();
    }
    let mut all = vec![0; own.len() * group.ranks().len()];
    group.gather(own, &mut all, root).unwrap();
    all
}

/// Gathers vectors at all members.
fn allgather(group: &Group<'_>, own: &[u64], in_place: bool) -> Vec<u64> {
    let mut all = vec![0; own.len() * group.ranks().len()];
    if in_place {
        all[group.place() as usize * own.len()..][..own.len()].copy_from_slice(own);
        group.allgather(InPlace, &mut all).unwrap();
    } else {
        group.allgather(own, &mut all).unwrap();
    }
    all
}

/// Performs random operations in two groups of the same members, of which one has no buffers, and
/// compares.
fn agree(world: &World, seed: u64, count: usize) {
    let mut twins = Twins::new(world, seed);
    for number in 0..count {
        let choose = |_: &mut Rng| number % (VECTOR_OPERATIONS + 3);
        twins.compare(&LENGTHS, choose, |group, operation, data, root| {
            *data = match operation - VECTOR_OPERATIONS {
                0 => gather(group, data, root),
                kind => allgather(group, data, kind == 2),
            };
        });
        if number % 30 == 29 {
            twins.tested.barrier().unwrap();
        }
    }
}

#[test]
fn results_are_those_of_messages() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    for ranks in [2, 3, 4, 5, 8, 9] {
        threads(SegmentConfig::new(ranks), move |world| {
            agree(&world, seed, 150);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn results_are_those_of_messages_on_several_nodes() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    for nodes in [&[0, 0, 1][..], &[0, 1, 0, 1, 0, 1], &[1, 0, 0, 0]] {
        let config = SegmentConfig::new(nodes.len() as u32);
        threads_on(config, &Nodes::named(nodes.iter().copied()), move |world| {
            agree(&world, seed, 80);
            world.finalize().unwrap();
        });
    }
}

/// The members of each node have buffers, and meet in barriers, too.
#[test]
fn members_of_a_node_have_buffers_beside_a_network() {
    threads_on(SegmentConfig::new(7), &Nodes::named([0, 1, 0, 1, 0, 1, 2]), |world| {
        let group = world.endpoint().with_context(1).everyone();
        for round in 0..2 * ENOUGH as u64 {
            let mut sum = [u64::from(group.place()) + round; 20];
            group.allreduce(&mut sum, Op::Sum).unwrap();
            assert_eq!(sum, [21 + 7 * round; 20]);
            if round % 9 == 0 {
                group.barrier().unwrap();
            }
        }
        assert_eq!(has_buffers(&group), world.node() != 2, "{group:?}");
        drop(group);
        world.finalize().unwrap();
    });
}

#[test]
fn results_of_processes_are_those_of_messages() {
    Ranks::new(4, "results_of_processes_are_those_of_messages").run(|world| {
        agree(&world, 5, 200);
        world.finalize().unwrap();
    });
}

/// A root that only shows vectors runs ahead of the other members until its buffer is full. They
/// read each vector before it is overwritten.
#[test]
fn a_root_that_is_ahead_overwrites_nothing() {
    for length in [1_usize, 100, 1500, 8000] {
        threads(SegmentConfig::new(3), move |world| {
            let group = with_buffers(&world, 1);
            for round in 0..100 {
                let mut data = vec![if group.place() == 0 { round } else { u64::MAX }; length];
                group.broadcast(&mut data, 0).unwrap();
                assert_eq!(data, vec![round; length]);
                if group.place() != 0 && round % 40 == u64::from(group.place()) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let mut data = vec![round + u64::from(group.place()); length];
                group.reduce(&mut data, Op::Max, 2).unwrap();
                if group.place() == 2 {
                    assert_eq!(data, vec![round + 2; length]);
                }
            }
            drop(group);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn lengths_that_differ_are_named_and_the_group_goes_on() {
    threads(SegmentConfig::new(3), |world| {
        let group = with_buffers(&world, 1);
        for round in 0..40 {
            // Place 2 expects a vector of another ring.
            let mut data = vec![round as u64; if group.place() == 2 { 300 } else { 10 }];
            let outcome = group.broadcast(&mut data, 0);
            if group.place() == 2 {
                let expected = CollectiveError::Length { rank: 0, found: 80, expected: 2400 };
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::Collective(found) if found == expected), "{error}");
            } else {
                outcome.unwrap();
            }
            let mut sum = [group.place()];
            group.allreduce(&mut sum, Op::Sum).unwrap();
            assert_eq!(sum, [3]);
        }
        let error = group.broadcast(&mut [0_u8], 3).unwrap_err();
        let expected = CollectiveError::Root { root: 3, members: 3 };
        assert!(matches!(error, Error::Collective(found) if found == expected), "{error}");
        drop(group);
        world.finalize().unwrap();
    });
}

/// A function that combines vectors may call operations of the group.
#[test]
fn a_function_may_use_the_group() {
    threads(SegmentConfig::new(4), |world| {
        let group = with_buffers(&world, 1);
        let mut sum = [1_u32];
        let add = |left: u32, right: u32| {
            group.barrier().unwrap();
            let mut ranks = [0_u64; 30];
            group.allreduce(&mut ranks, Op::Sum).unwrap();
            left + right
        };
        group.allreduce(&mut sum, add).unwrap();
        assert_eq!(sum, [4]);
        drop(group);
        world.finalize().unwrap();
    });
}

/// Each group takes the slot and the buffers of the group before.
#[test]
fn buffers_serve_one_group_after_the_other() {
    threads(SegmentConfig::new(3), |world| {
        for round in 0..3 * BARRIER_SLOTS {
            let members = [[0, 1, 2], [2, 0, 1]][round as usize % 2];
            let group = world.endpoint().with_context(round).group(&members).unwrap();
            for number in 0..2 * ENOUGH as u64 {
                let mut data = [u64::from(group.place()) + number; 10];
                group.broadcast(&mut data, round % 3).unwrap();
                assert_eq!(data, [u64::from(round % 3) + number; 10]);
            }
            assert!(has_buffers(&group), "round {round}");
        }
        world.finalize().unwrap();
    });
}

#[test]
fn groups_without_memory_for_buffers_use_messages() {
    threads(SegmentConfig { heap_bytes: 0, ..SegmentConfig::new(3) }, |world| {
        let group = world.endpoint().everyone();
        for number in 0..50 {
            let mut data = [u64::from(group.place()) + number; 10];
            group.allreduce(&mut data, Op::Max).unwrap();
            assert_eq!(data, [number + 2; 10]);
        }
        assert!(!has_buffers(&group));
        drop(group);
        world.finalize().unwrap();
    });
}

/// The flags of such a group count its barriers.
#[test]
fn groups_with_barriers_by_flags_use_messages() {
    threads(SegmentConfig::new(3), |world| {
        let group = world.endpoint().everyone();
        for number in 0..50 {
            group.barrier_by(BarrierAlgorithm::Flags).unwrap();
            let mut data = [u64::from(group.place()) + number; 10];
            group.allreduce(&mut data, Op::Max).unwrap();
            assert_eq!(data, [number + 2; 10]);
        }
        assert!(!has_buffers(&group));
        drop(group);
        world.finalize().unwrap();
    });
}

/// Repeats an operation while the last rank dies before one of them. The survivors learn of it, and
/// later operations fail, too.
fn survive(name: &'static str, again: impl Fn(&Group<'_>, u64) -> Result<(), Error>) {
    const RANKS: u32 = 4;
    const VICTIM: u32 = RANKS - 1;
    const LAST: u64 = 150;
    let job = Ranks::new(RANKS, name).with_deaths(&[VICTIM]).within(Duration::from_secs(30));
    job.run(|world| {
        let group = with_buffers(&world, 1);
        for round in 0.. {
            if world.rank() == VICTIM && round == LAST {
                report("dying");
                die();
            }
            let Err(error) = again(&group, round) else { continue };
            report(&error);
            let expected = Fault::PeerFailed { rank: VICTIM, sign: FailureCause::Ended };
            assert!(matches!(error, Error::Fault(fault) if fault == expected), "{error:?}");
            break;
        }
        for _ in 0..3 {
            assert_eq!(again(&group, 0).unwrap_err().gone_peer(), Some(VICTIM));
            assert_eq!(group.barrier().unwrap_err().gone_peer(), Some(VICTIM));
        }
        drop(group);
        world.finalize().unwrap();
    });
}

#[test]
fn a_death_ends_a_broadcast_of_a_living_root() {
    survive("a_death_ends_a_broadcast_of_a_living_root", |group, _| {
        group.broadcast(&mut [1_u64; 100], 0)
    });
}

#[test]
fn a_death_ends_a_broadcast_of_each_root() {
    survive("a_death_ends_a_broadcast_of_each_root", |group, round| {
        group.broadcast(&mut [1_u64; 3000], round as u32 % 4)
    });
}

#[test]
fn a_death_ends_a_reduce_to_a_living_root() {
    survive("a_death_ends_a_reduce_to_a_living_root", |group, _| {
        group.reduce(&mut [1_u64; 20], Op::Sum, 1)
    });
}

#[test]
fn a_death_ends_a_reduce_to_each_root() {
    survive("a_death_ends_a_reduce_to_each_root", |group, round| {
        group.reduce(&mut [1_u64; 20], Op::Sum, round as u32 % 4)
    });
}

#[test]
fn a_death_ends_an_allreduce() {
    survive("a_death_ends_an_allreduce", |group, _| group.allreduce(&mut [1_u64; 50], Op::Sum));
}

#[test]
fn a_death_ends_a_gather_at_a_living_root() {
    survive("a_death_ends_a_gather_at_a_living_root", |group, _| {
        let mut all = [0_u64; 80];
        let all = if group.place() == 1 { &mut all[..] } else { &mut [] };
        group.gather(&[1_u64; 20], all, 1)
    });
}

#[test]
fn a_death_ends_an_allgather() {
    survive("a_death_ends_an_allgather", |group, _| {
        group.allgather(&[1_u64; 20], &mut [0_u64; 80])
    });
}

/// The dead rank is on another node than the root.
#[test]
fn a_death_ends_operations_on_several_nodes() {
    const VICTIM: u32 = 5;
    let job = Ranks::new(6, "a_death_ends_operations_on_several_nodes").on_nodes(2);
    job.with_deaths(&[VICTIM]).within(Duration::from_secs(30)).run(|world| {
        let group = with_buffers(&world, 1);
        let again = |round: u64| match round % 3 {
            0 => group.broadcast(&mut [1_u64; 100], 0),
            1 => group.reduce(&mut [1_u64; 20], Op::Sum, 1),
            _ => group.allreduce(&mut [1_u64; 20], Op::Sum),
        };
        for round in 0.. {
            if world.rank() == VICTIM && round == 61 {
                report("dying");
                die();
            }
            let Err(error) = again(round) else { continue };
            report(&error);
            assert_eq!(error.gone_peer(), Some(VICTIM), "{error:?}");
            break;
        }
        for round in 0..3 {
            assert_eq!(again(round).unwrap_err().gone_peer(), Some(VICTIM));
        }
        // A rank that waits for one that has left would report that instead.
        let survivors = world.endpoint().with_context(2).group(&[0, 1, 2, 3, 4]);
        survivors.into_iter().for_each(|survivors| survivors.barrier().unwrap());
        drop(group);
        world.finalize().unwrap();
    });
}
