//! Random collective operations of random groups, judged by what one process would compute; also
//! while a member dies.

use core::time::Duration;

use fastrand::Rng;
use strait::boot::SegmentConfig;
use strait::{Group, Nodes, World};
use strait_tests::collectives::{Kind, Operation};
use strait_tests::{Ranks, die, report, shape, threads_on, traffic};

/// The groups of a rank: all ranks, random ones in random places, and what they split into.
fn groups<'w>(world: &'w World, random: &mut Rng) -> Vec<Option<Group<'w>>> {
    let everyone = world.endpoint().with_context(40).everyone();
    let split = everyone.split(Some(world.rank() % 2), random.i64(..)).expect("all ranks live");
    let copy = everyone.duplicate().expect("all ranks live");
    let mut groups = vec![Some(everyone), Some(copy), split];
    for context in 0..3 {
        let mut members: Vec<_> = (0..world.size()).collect();
        random.shuffle(&mut members);
        members.truncate(random.usize(1..=members.len()));
        groups.push(world.endpoint().with_context(context).group(&members).ok());
    }
    groups
}

/// Plays `count` operations, each with a phase of this rank's own before it. `die_at` is the
/// operation before which this rank dies, and `victim` the rank that dies so.
fn play(world: &World, seed: u64, count: u64, longest: usize, victim: Option<(u32, u64)>) {
    report(format_args!("seed {seed}"));
    let mut random = Rng::with_seed(seed);
    let mut phase = Rng::with_seed(seed ^ u64::from(world.rank()));
    let groups = groups(world, &mut random);
    let mut is_broken = vec![false; groups.len()];
    for number in 0..count {
        if victim == Some((world.rank(), number)) {
            report("dying");
            die();
        }
        let which = random.usize(..groups.len());
        // The odd and the even ranks draw the same for their two groups.
        let seed = random.u64(..);
        let Some(group) = &groups[which] else { continue };
        let members = group.ranks().len() as u32;
        let operation = Operation::draw(&mut Rng::with_seed(seed), members, longest);
        if victim.is_some() && operation.kind == Kind::Split {
            // A member that has its new group may wait there for one that gave up the split.
            continue;
        }
        for _ in 0..phase.u32(..4) {
            std::thread::yield_now();
        }
        match operation.perform(group) {
            Ok(()) => assert!(!is_broken[which], "{operation:?} after a death"),
            Err(error) => {
                report(format_args!("{operation:?}: {error}"));
                let dead = victim.map(|(rank, _)| rank);
                assert_eq!(error.gone_peer(), dead, "{operation:?}: {error}");
                assert!(dead.is_some_and(|dead| group.ranks().contains(&dead)), "{error}");
                is_broken[which] = true;
            }
        }
    }
}

#[test]
fn random_operations_of_threads() {
    for (ranks, nodes) in [(1, 1), (2, 1), (3, 1), (5, 1), (9, 1), (2, 2), (5, 2), (6, 3)] {
        threads_on(
            SegmentConfig::new(ranks),
            &Nodes::blocks(ranks, nodes).unwrap(),
            move |world| {
                traffic::seeds(1, 1).for_each(|seed| play(&world, seed, 50, 20_000, None));
                world.finalize().unwrap();
            },
        );
    }
}

/// So many members that short blocks take a tree.
#[test]
fn many_members_gather_and_scatter() {
    const RANKS: u32 = 66;
    let config = SegmentConfig { cells_per_rank: 4, parcels: 0, ..SegmentConfig::new(RANKS) };
    threads_on(config, &Nodes::one(RANKS), |world| {
        let group = world.endpoint().everyone();
        let mut random = Rng::with_seed(700);
        for kind in [Kind::Gather, Kind::Scatter, Kind::Gather, Kind::Scatter] {
            let drawn = Operation::draw(&mut random, RANKS, RANKS as usize * 20);
            Operation { kind, length: 2, ..drawn }.perform(&group).unwrap();
        }
        drop(group);
        world.finalize().unwrap();
    });
}

/// A member that passes a block on has received another one over it. Programs that measure an
/// allgather let their blocks overlap.
#[test]
fn an_element_of_several_blocks_is_that_of_one_of_them() {
    for (ranks, unit) in [(2, 1), (3, 1), (4, 1), (5, 1), (3, 40_000), (4, 40_000), (5, 40_000)] {
        threads_on(SegmentConfig::new(ranks), &Nodes::one(ranks), move |world| {
            let group = world.endpoint().everyone();
            let blocks = [0..4 * unit, unit..3 * unit, 2 * unit..5 * unit, unit..unit, 0..unit];
            let blocks = &blocks[..ranks as usize];
            let own = vec![world.rank(); blocks[world.rank() as usize].len()];
            let mut all = vec![u32::MAX; 5 * unit];
            group.allgatherv(&own, &mut all, blocks).unwrap();
            for (at, &element) in all.iter().enumerate() {
                let written = blocks.iter().any(|block| block.contains(&at));
                let of_one = blocks.get(element as usize).is_some_and(|block| block.contains(&at));
                assert!(if written { of_one } else { element == u32::MAX }, "{at}: {element}");
            }
            drop(group);
            world.finalize().unwrap();
        });
    }
}

/// The members of a node are not neighbours in the group.
#[test]
fn random_operations_of_threads_on_scattered_nodes() {
    threads_on(SegmentConfig::new(5), &Nodes::named([0, 1, 0, 1, 0]), |world| {
        traffic::seeds(100, 1).for_each(|seed| play(&world, seed, 60, 20_000, None));
        world.finalize().unwrap();
    });
}

#[test]
fn random_operations_with_next_to_no_room() {
    threads_on(shape::tiny(4, 1), &Nodes::one(4), |world| {
        traffic::seeds(200, 1).for_each(|seed| play(&world, seed, 60, 5_000, None));
        world.finalize().unwrap();
    });
}

#[test]
fn random_operations_of_processes() {
    Ranks::new(4, "random_operations_of_processes").run(|world| {
        traffic::seeds(300, 2).for_each(|seed| play(&world, seed, 60, 400_000, None));
        world.finalize().unwrap();
    });
}

#[test]
fn random_operations_of_processes_on_two_nodes() {
    Ranks::new(4, "random_operations_of_processes_on_two_nodes").on_nodes(2).run(|world| {
        traffic::seeds(400, 2).for_each(|seed| play(&world, seed, 40, 200_000, None));
        world.finalize().unwrap();
    });
}

/// One of the ranks dies in the middle. The others' operations with it fail, and those without it
/// go on.
fn one_dies(name: &'static str, nodes: u32, seed: u64) {
    const VICTIM: u32 = 2;
    let job = Ranks::new(4, name).on_nodes(nodes).with_deaths(&[VICTIM]);
    job.within(Duration::from_secs(40)).run(|world| {
        let at = Rng::with_seed(seed).u64(5..40);
        play(&world, seed, 60, 40_000, Some((VICTIM, at)));
        world.finalize().unwrap();
    });
}

#[test]
fn one_dies_among_random_operations() {
    one_dies("one_dies_among_random_operations", 1, 500);
}

#[test]
fn one_dies_among_random_operations_on_two_nodes() {
    one_dies("one_dies_among_random_operations_on_two_nodes", 2, 600);
}
