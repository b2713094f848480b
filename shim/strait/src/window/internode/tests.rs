//! Tests of the memory that a window between nodes takes.

use strait_platform::Nodes;

use crate::network::resources::JobNetwork;
use crate::{Assert, Op, Window, World};

/// Returns how many lanes have slots, and for how many members there are images.
fn taken(world: &World, window: &Window<'_>) -> (usize, usize) {
    let lanes = world.with_network(JobNetwork::lanes_with_slots).unwrap();
    (lanes, window.own.beyond.as_ref().unwrap().images.borrow().len())
}

#[test]
fn a_window_takes_memory_for_the_members_that_are_accessed() {
    const RANKS: u32 = 6;
    let nodes = Nodes::blocks(RANKS, RANKS).unwrap();
    let worlds = World::builder().nodes(nodes).in_process(RANKS).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            worlds.into_iter().map(|world| scope.spawn(move || play(world))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

fn play(world: World) {
    let window = Window::builder(world.endpoint()).allocate(1 << 16).unwrap();
    assert_eq!(taken(&world, &window), (0, 0), "after the creation");
    window.flush_all().unwrap();
    world.endpoint().barrier().unwrap();
    if world.rank() == 0 {
        window.put(&[7_u64], 1, 0).unwrap();
        window.put(&[8_u64], 2, 8).unwrap();
        assert_eq!(taken(&world, &window), (2, 0), "after two puts");
        window.hand_over_above(0);
        window.accumulate(&[1_u64; 100], 1, 8, Op::Sum).unwrap();
    }
    window.fence(Assert::NONE).unwrap();
    let expected = [(1, [7, 1]), (2, [0, 8])].into_iter().find(|(rank, _)| *rank == world.rank());
    if let Some((_, expected)) = expected {
        let found = [0, 8].map(|at| window.local().load::<u64>(at).unwrap());
        assert_eq!(found, expected);
    }
    if world.rank() == 0 {
        assert_eq!(taken(&world, &window).1, 1, "after an active message");
    }
    window.free().unwrap();
    assert_eq!(world.with_network(JobNetwork::lanes_with_slots), Some(0));
    world.finalize().unwrap();
}
