//! Random traffic against the matching model: processes and threads, roomy and tiny segments.

use core::time::Duration;

use strait::World;
use strait::boot::SegmentConfig;
use strait_tests::{Ranks, report, shape, threads, traffic};

/// Plays one seed after the other between the ranks of one job.
fn processes(
    name: &'static str,
    config: SegmentConfig,
    (first, count): (u64, u64),
    longest: usize,
) {
    let limit = Duration::from_secs(60) * traffic::times();
    Ranks::new(config.ranks, name).shaped(config).within(limit).run(|world| {
        traffic::seeds(first, count).for_each(|seed| traffic::run(&world, seed, 6, longest));
        world.finalize().unwrap();
    });
}

#[test]
fn two_processes() {
    processes("two_processes", SegmentConfig::new(2), (10_000, 8), 1 << 20);
}

#[test]
fn four_processes() {
    processes("four_processes", SegmentConfig::new(4), (20_000, 4), 1 << 20);
}

#[test]
fn eight_processes() {
    processes("eight_processes", SegmentConfig::new(8), (30_000, 2), 1 << 20);
}

#[test]
fn two_processes_with_next_to_no_room() {
    processes("two_processes_with_next_to_no_room", shape::tiny(2, 1), (40_000, 10), 20_000);
}

#[test]
fn four_processes_with_next_to_no_room() {
    processes("four_processes_with_next_to_no_room", shape::tiny(4, 2), (50_000, 4), 20_000);
}

#[test]
fn eight_processes_with_next_to_no_room() {
    processes("eight_processes_with_next_to_no_room", shape::tiny(8, 1), (60_000, 2), 10_000);
}

#[test]
fn processes_without_fastboxes() {
    Ranks::new(3, "processes_without_fastboxes").with("STRAIT_FASTBOX_MAX", 0).run(|world| {
        traffic::seeds(70_000, 6).for_each(|seed| traffic::run(&world, seed, 6, 100_000));
        world.finalize().unwrap();
    });
}

#[test]
fn processes_that_speculate() {
    let name = "processes_that_speculate";
    for transfer in ["auto", "cma_shared"] {
        let job = Ranks::new(3, name).with("STRAIT_RENDEZVOUS", "speculative");
        // Messages in parcels need no RTR.
        let job = job.with("STRAIT_PARCEL_MAX", 0);
        job.with("STRAIT_LMT", transfer).with("STRAIT_EAGER_MAX", 1000).run(|world| {
            traffic::seeds(110_000, 4).for_each(|seed| traffic::run(&world, seed, 6, 100_000));
            report(format_args!("{:?}", world.rtrs()));
            // The scheduler decides whether a receiver comes first by chance, so some receivers do
            // so for certain.
            (0..2).for_each(|_| receive_first(&world));
            assert!(world.rtrs().sent > 0 && world.rtrs().heard > 0);
            world.finalize().unwrap();
        });
    }
}

/// Sends a large message from each rank to the next, with the receive posted before it.
fn receive_first(world: &World) {
    let endpoint = world.endpoint();
    let [from, to] = [world.size() - 1, 1].map(|step| (world.rank() + step) % world.size());
    let (out, mut room) = (vec![1; 50_000], vec![0; 50_000]);
    endpoint.scope(|scope| {
        let receive = scope.irecv(&mut room, from, 1).unwrap();
        endpoint.barrier().unwrap();
        scope.isend(&out, to, 1).unwrap().wait().unwrap();
        receive.wait().unwrap();
    });
    assert_eq!(room, out);
}

#[test]
fn threads_with_room() {
    threads(SegmentConfig::new(4), |world| {
        traffic::seeds(80_000, 10).for_each(|seed| traffic::run(&world, seed, 6, 100_000));
        world.finalize().unwrap();
    });
}

#[test]
fn threads_with_next_to_no_room() {
    for lines in [1, 2] {
        threads(shape::tiny(3, lines), |world| {
            traffic::seeds(90_000, 4).for_each(|seed| traffic::run(&world, seed, 6, 20_000));
            world.finalize().unwrap();
        });
    }
}

#[test]
fn a_lone_rank_talks_to_itself() {
    threads(SegmentConfig::new(1), |world| {
        traffic::seeds(100_000, 20).for_each(|seed| traffic::run(&world, seed, 6, 100_000));
        world.finalize().unwrap();
    });
}
