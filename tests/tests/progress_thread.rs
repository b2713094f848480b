//! Jobs in which each rank has a progress thread.

use core::time::Duration;
use std::{fs, thread};

use strait::boot::SegmentConfig;
use strait::{Error, Fault, World};
use strait_tests::{Ranks, die, one_sided, payload, shape, traffic};

/// The rank that dies.
const VICTIM: u32 = 3;

const LARGE: usize = 8 << 20;

fn job(name: &'static str, config: SegmentConfig) -> Ranks {
    Ranks::new(config.ranks, name).shaped(config).with("STRAIT_PROGRESS", "thread")
}

/// Returns the number of threads of this process that make progress.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "strait-progress").count()
}

fn play_and_leave(world: World) {
    traffic::seeds(1, 3).for_each(|seed| traffic::run(&world, seed, 4, 1 << 20));
    assert_eq!(threads(), 1);
    world.finalize().unwrap();
    assert_eq!(threads(), 0, "it has ended");
}

#[test]
fn traffic_on_a_node() {
    job("traffic_on_a_node", SegmentConfig::new(4)).run(play_and_leave);
}

#[test]
fn traffic_with_next_to_no_room() {
    job("traffic_with_next_to_no_room", shape::tiny(4, 1)).run(|world| {
        traffic::seeds(1, 3).for_each(|seed| traffic::run(&world, seed, 4, 20_000));
        world.finalize().unwrap();
    });
}

#[test]
fn traffic_between_nodes() {
    job("traffic_between_nodes", SegmentConfig::new(4)).on_nodes(2).run(play_and_leave);
}

#[test]
fn traffic_between_nodes_and_a_device_with_a_thread() {
    let name = "traffic_between_nodes_and_a_device_with_a_thread";
    job(name, SegmentConfig::new(4))
        .on_nodes(2)
        .with("STRAIT_HCA", "soft-engine")
        .run(play_and_leave);
}

#[test]
fn the_thread_of_a_rank_that_just_ends_ends() {
    job("the_thread_of_a_rank_that_just_ends_ends", SegmentConfig::new(2)).run(|world| {
        world.endpoint().barrier().unwrap();
        drop(world);
        assert_eq!(threads(), 0);
    });
}

/// A rank dies while threads move large messages to and from it.
fn a_rank_dies(job: Ranks) {
    job.with_deaths(&[VICTIM]).within(Duration::from_secs(60)).run(|world| {
        let (endpoint, me) = (world.endpoint(), world.rank());
        let data = payload::of(me.into(), LARGE);
        let mut room = vec![0; LARGE];
        if me == VICTIM {
            endpoint.scope(|scope| {
                let _requests: Vec<_> =
                    (0..VICTIM).map(|other| scope.isend(&data, other, 1).unwrap()).collect();
                let _receive = scope.irecv(&mut room, 0, 1).unwrap();
                for other in 0..VICTIM {
                    endpoint.recv(&mut [0_u8], other, 2).unwrap();
                }
                die();
            });
        }
        endpoint.scope(|scope| {
            let receive = scope.irecv(&mut room, VICTIM, 1).unwrap();
            let send = (me == 0).then(|| scope.isend(&data, VICTIM, 1).unwrap());
            endpoint.send(&[0_u8], VICTIM, 2).unwrap();
            // The threads work, and learn of the death.
            thread::sleep(Duration::from_millis(100));
            // Either operation may have been complete when the rank died.
            for outcome in [receive].into_iter().chain(send).map(strait::Request::wait) {
                if let Err(error) = outcome {
                    assert!(
                        matches!(error, Error::Fault(Fault::PeerFailed { rank: VICTIM, .. })),
                        "{error}"
                    );
                }
            }
        });
        let left: Vec<u32> = (0..VICTIM).collect();
        endpoint.group(&left).unwrap().barrier().unwrap();
        world.finalize().unwrap();
        assert_eq!(threads(), 0);
    });
}

#[test]
fn a_rank_dies_on_a_node() {
    a_rank_dies(job("a_rank_dies_on_a_node", SegmentConfig::new(4)));
}

#[test]
fn a_rank_dies_on_another_node() {
    a_rank_dies(job("a_rank_dies_on_another_node", SegmentConfig::new(4)).on_nodes(2));
}

/// Uses windows while the thread makes progress alternately with their calls, on a node and between
/// nodes.
#[test]
fn windows_beside_the_thread() {
    for (nodes, device) in [(1, "soft-inline"), (2, "soft-inline"), (2, "soft-engine")] {
        let limit = Duration::from_secs(60) * traffic::times();
        let job =
            job("windows_beside_the_thread", SegmentConfig::new(4)).within(limit).on_nodes(nodes);
        job.with("STRAIT_HCA", device).run(move |world| {
            for seed in traffic::seeds(200_000, 4) {
                one_sided::run(&world, seed % 3 == 0, seed, 6, 20_000);
            }
            world.finalize().unwrap();
        });
    }
}
