//! Ranks as threads that meet over a store inside the process.

use std::thread;

use strait_core::layout::Life;

use super::*;
use crate::boot::InProcess;

fn meet_all(nodes: &Nodes) -> Vec<SegmentMap> {
    let store = InProcess::new(nodes.ranks());
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..nodes.ranks())
            .map(|rank| {
                let mut store = store.clone();
                scope.spawn(move || meet(&mut store, rank, nodes).unwrap())
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn the_ranks_of_a_node_share_its_segment_and_no_others() {
    let nodes = Nodes::named([5, 9, 5, 9, 9]);
    let maps = meet_all(&nodes);
    for (rank, map) in (0..).zip(&maps) {
        let segment = map.view();
        assert_eq!(segment.ranks(), 5);
        for other in 0..5 {
            let here = nodes.node_of(other) == nodes.node_of(rank);
            let expected = if here { Life::Alive } else { Life::Unborn };
            let block = segment.rank_block(other);
            assert_eq!(block.liveness.state(), expected, "{other} in the segment of {rank}");
        }
    }
    let witness = |rank: usize, of: u32| maps[rank].rank_block(of).liveness.witness();
    maps[0].rank_block(0).liveness.set_witness(77);
    assert_eq!((witness(2, 0), witness(1, 0)), (77, 0));
}

#[test]
fn ranks_that_do_not_come_are_dead_to_the_others() {
    let (nodes, limit) = (Nodes::one(3), Duration::from_millis(300));
    let store = InProcess::new(3);
    let [host, guest, absent] = [0, 1, 2].map(|_| store.clone());
    thread::scope(|scope| {
        let meet = |mut store: InProcess, rank| {
            let nodes = &nodes;
            scope.spawn(move || meet_within(&mut store, rank, nodes, limit))
        };
        let (host, guest) = (meet(host, 0), meet(guest, 1));
        let mut absent = absent;
        introduce(&mut absent, "segment-0", 2).unwrap();
        absent.fence().unwrap();
        let map = guest.join().unwrap().unwrap();
        let refused = host.join().unwrap().unwrap_err();
        assert!(matches!(refused, BootError::Absent { .. }), "{refused}");
        let life = |rank| map.view().rank_block(rank).liveness.state();
        assert_eq!([0, 1, 2].map(life), [Life::Dead, Life::Alive, Life::Dead]);
    });
}

#[test]
fn a_rank_that_dies_before_it_comes_is_dead_and_not_awaited() {
    let nodes = Nodes::one(3);
    let store = InProcess::new(3);
    thread::scope(|scope| {
        let meet = |rank| {
            let (mut store, nodes) = (store.clone(), &nodes);
            scope.spawn(move || super::meet(&mut store, rank, nodes).unwrap())
        };
        let (first, second) = (meet(0), meet(1));
        // Rank 2 passes the fence, and there is no process of its name.
        store.clone().fence().unwrap();
        for map in [first, second].map(|rank| rank.join().unwrap()) {
            let life = |rank| map.view().rank_block(rank).liveness.state();
            assert_eq!([0, 1, 2].map(life), [Life::Alive, Life::Alive, Life::Dead]);
        }
    });
}

#[test]
fn a_rank_alone_on_its_node_waits_only_at_the_fence() {
    let maps = meet_all(&Nodes::one(1));
    assert_eq!(maps[0].rank_block(0).liveness.state(), Life::Alive);
}

#[test]
fn a_segment_has_memory_for_the_ranks_of_its_node_alone() {
    let nodes = Nodes::blocks(4, 2).unwrap();
    let backed = |map: &SegmentMap| rustix::fs::fstat(map.fd()).unwrap().st_blocks as usize * 512;
    let config = SegmentConfig::new(4);
    let map = SegmentMap::create_on(config, 1, &nodes, 1).unwrap();
    let plan = *map.view().plan();
    let own =
        (2..4).flat_map(|rank| plan.own_ranges(rank)).map(|(_, length)| length).sum::<usize>();
    let slack = backed(&map) - (plan.common_bytes() + own);
    assert!(slack < 6 * 4096, "ranges are backed by whole pages: {slack}");
    assert!(backed(&map) < plan.resident_bytes() * 2 / 3);
}
