//! Several nodes on one machine: messages between them, and what becomes of them when a rank dies.

use strait::boot::Config;
use strait::{ANY_SOURCE, Error, Fault, Nodes, World, wait_all};
use strait_tests::{Ranks, die, payload, shape, threads_on, traffic};

/// The designs of the RDMA channel, by the names that `STRAIT_RING` takes.
const DESIGNS: [&str; 5] = ["basic", "piggyback", "pipeline", "zero_copy", "rendezvous_write"];

/// Bytes beyond what is sent unasked, and beyond what goes through the ring.
const LARGE: usize = 300_000;

#[test]
fn a_word_goes_to_another_node_and_back() {
    threads_on(Config::new(2), &Nodes::blocks(2, 2).unwrap(), |world| {
        let (endpoint, other) = (world.endpoint(), 1 - world.rank());
        let mut room = [0_u64];
        for number in 0..100_u64 {
            endpoint.sendrecv(&[number], other, 1, &mut room, other, 1).unwrap();
            assert_eq!(room, [number]);
        }
        world.finalize().unwrap();
    });
}

#[test]
fn traffic_between_threads() {
    for (ranks, nodes) in [(2, 2), (4, 2), (5, 3)] {
        threads_on(Config::new(ranks), &Nodes::blocks(ranks, nodes).unwrap(), |world| {
            traffic::seeds(1, 3).for_each(|seed| traffic::run(&world, seed, 4, 1 << 20));
            world.finalize().unwrap();
        });
    }
}

#[test]
fn traffic_between_threads_with_next_to_no_room() {
    threads_on(shape::tiny(4, 1), &Nodes::named([0, 1, 0, 1]), |world| {
        traffic::seeds(1, 4).for_each(|seed| traffic::run(&world, seed, 4, 20_000));
        world.finalize().unwrap();
    });
}

/// Plays traffic between processes with one design and one kind of device.
fn traffic_between_processes(name: &'static str, design: &'static str, device: &'static str) {
    let job = Ranks::new(4, name).on_nodes(2).with("STRAIT_RING", design);
    job.with("STRAIT_HCA", device).run(|world| {
        traffic::seeds(100, 2).for_each(|seed| traffic::run(&world, seed, 4, 1 << 20));
        world.finalize().unwrap();
    });
}

macro_rules! traffic {
    ($($name:ident: $design:literal, $device:literal;)*) => {$(
        #[test]
        fn $name() {
            assert!(DESIGNS.contains(&$design));
            traffic_between_processes(stringify!($name), $design, $device);
        }
    )*};
}

traffic! {
    traffic_by_basic: "basic", "soft-inline";
    traffic_by_piggyback: "piggyback", "soft-inline";
    traffic_by_pipeline: "pipeline", "soft-inline";
    traffic_by_zero_copy: "zero_copy", "soft-inline";
    traffic_by_rendezvous_write: "rendezvous_write", "soft-inline";
    traffic_by_basic_and_a_thread: "basic", "soft-engine";
    traffic_by_piggyback_and_a_thread: "piggyback", "soft-engine";
    traffic_by_pipeline_and_a_thread: "pipeline", "soft-engine";
    traffic_by_zero_copy_and_a_thread: "zero_copy", "soft-engine";
    traffic_by_rendezvous_write_and_a_thread: "rendezvous_write", "soft-engine";
}
