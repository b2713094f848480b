//! Random programs of one-sided operations against the window model: with processes and threads,
//! and parts of either kind.

use core::time::Duration;

use strait::Nodes;
use strait::boot::SegmentConfig;
use strait_tests::{Ranks, one_sided, threads, threads_on, traffic};

fn processes(name: &'static str, ranks: u32, private: bool, (first, count): (u64, u64)) {
    let limit = Duration::from_secs(60) * traffic::times();
    Ranks::new(ranks, name).within(limit).run(|world| {
        for seed in traffic::seeds(first, count) {
            one_sided::run(&world, private, seed, 12, 100_000);
        }
        world.finalize().unwrap();
    });
}

#[test]
fn two_processes_in_the_segment() {
    processes("two_processes_in_the_segment", 2, false, (110_000, 12));
}

#[test]
fn four_processes_in_the_segment() {
    processes("four_processes_in_the_segment", 4, false, (120_000, 8));
}

#[test]
fn two_processes_by_the_kernel() {
    processes("two_processes_by_the_kernel", 2, true, (130_000, 12));
}

#[test]
fn four_processes_by_the_kernel() {
    processes("four_processes_by_the_kernel", 4, true, (140_000, 8));
}

#[test]
fn threads_of_one_process() {
    threads(SegmentConfig::new(3), |world| {
        for seed in traffic::seeds(150_000, 10) {
            one_sided::run(&world, seed % 2 == 0, seed, 8, 20_000);
        }
    });
}

/// Places ranks alternately on two nodes, so that each has members on its own node and elsewhere.
fn between_nodes(name: &'static str, private: bool, device: &'static str, seeds: (u64, u64)) {
    let limit = Duration::from_secs(60) * traffic::times();
    let job = Ranks::new(4, name).within(limit).on_nodes(2).with("STRAIT_HCA", device);
    job.run(move |world| {
        for seed in traffic::seeds(seeds.0, seeds.1) {
            one_sided::run(&world, private, seed, 8, 20_000);
        }
        world.finalize().unwrap();
    });
}

#[test]
fn between_nodes_by_the_poster() {
    between_nodes("between_nodes_by_the_poster", false, "soft-inline", (160_000, 4));
}

#[test]
fn between_nodes_in_private_memory() {
    between_nodes("between_nodes_in_private_memory", true, "soft-inline", (170_000, 4));
}

/// Only handlers accumulate.
#[test]
fn between_nodes_without_atomics() {
    between_nodes("between_nodes_without_atomics", false, "soft-iwarp", (200_000, 4));
}

#[test]
fn between_nodes_without_atomics_in_private_memory() {
    let name = "between_nodes_without_atomics_in_private_memory";
    between_nodes(name, true, "soft-iwarp", (210_000, 4));
}

#[test]
fn between_nodes_by_a_thread() {
    between_nodes("between_nodes_by_a_thread", false, "soft-engine", (180_000, 2));
}

/// Blocks go packed. The last are so long that their data go separately.
#[test]
fn between_nodes_with_blocks_packed() {
    let name = "between_nodes_with_blocks_packed";
    let limit = Duration::from_secs(60) * traffic::times();
    let job = Ranks::new(4, name).within(limit).on_nodes(2).with("STRAIT_PACK_MAX", usize::MAX);
    job.run(|world| {
        for seed in traffic::seeds(220_000, 4) {
            one_sided::run(&world, false, seed, 8, 100_000);
        }
        world.finalize().unwrap();
    });
}

#[test]
fn between_threads_as_if_on_nodes() {
    threads_on(SegmentConfig::new(3), &Nodes::named([0, 1, 0]), |world| {
        for seed in traffic::seeds(190_000, 4) {
            one_sided::run(&world, seed % 4 < 2, seed, 8, 20_000);
        }
        world.finalize().unwrap();
    });
}

/// Windows by messages, the paper's baseline.
fn by_messages(name: &'static str, ranks: u32, nodes: u32, private: bool, seeds: (u64, u64)) {
    let limit = Duration::from_secs(60) * traffic::times();
    play_by_messages(Ranks::new(ranks, name).within(limit).on_nodes(nodes), private, seeds);
}

fn play_by_messages(job: Ranks, private: bool, seeds: (u64, u64)) {
    job.with("STRAIT_WINDOW", "send_recv").run(move |world| {
        for seed in traffic::seeds(seeds.0, seeds.1) {
            one_sided::run(&world, private, seed, 8, 100_000);
        }
        world.finalize().unwrap();
    });
}

#[test]
fn by_messages_on_a_node() {
    by_messages("by_messages_on_a_node", 3, 1, false, (200_000, 6));
}

#[test]
fn by_messages_between_nodes() {
    by_messages("by_messages_between_nodes", 4, 2, true, (210_000, 4));
}

/// Nearly all messages are offered and called for, or sent on request.
#[test]
fn by_messages_with_little_room() {
    let limit = Duration::from_secs(60) * traffic::times();
    let job = Ranks::new(3, "by_messages_with_little_room").within(limit);
    let job = job.with("STRAIT_UNEXPECTED_MAX", 4096).with("STRAIT_FASTBOX_MAX", 0);
    play_by_messages(job.with("STRAIT_RENDEZVOUS", "adaptive"), false, (250_000, 6));
}

/// Ranks do the same to each other, and one is ahead of the other, so that their operation numbers
/// coincide.
fn mirrored(name: &'static str, ranks: u32, nodes: u32, variable: (&'static str, &str)) {
    let limit = Duration::from_secs(60) * traffic::times();
    let job = Ranks::new(ranks, name).within(limit).on_nodes(nodes).with(variable.0, variable.1);
    job.run(move |world| {
        for seed in traffic::seeds(300_000, 4) {
            one_sided::run_mirrored(&world, seed % 2 == 0, seed, 5, 600_000);
        }
        world.finalize().unwrap();
    });
}

const SEND_RECV: (&str, &str) = ("STRAIT_WINDOW", "send_recv");
const PACKED: (&str, &str) = ("STRAIT_PACK_MAX", "1000000000");

#[test]
fn mirrored_by_messages() {
    mirrored("mirrored_by_messages", 2, 1, SEND_RECV);
}

#[test]
fn mirrored_by_messages_between_nodes() {
    mirrored("mirrored_by_messages_between_nodes", 2, 2, SEND_RECV);
}

#[test]
fn mirrored_by_messages_of_three() {
    mirrored("mirrored_by_messages_of_three", 3, 2, SEND_RECV);
}

#[test]
fn mirrored_with_blocks_packed() {
    mirrored("mirrored_with_blocks_packed", 2, 2, PACKED);
}

#[test]
fn mirrored_on_a_node() {
    mirrored("mirrored_on_a_node", 3, 1, ("STRAIT_WINDOW", "rdma"));
}
