//! Several nodes on one machine: the placement of ranks, what ranks of one node do together, and
//! what ranks of different nodes share.

use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;
use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{Error, Fault, Nodes, Op, World};
use strait_tests::{Ranks, die, payload, threads_on};

/// A length, in bytes, above that of messages that are copied at once.
const LARGE: usize = 300_000;

/// Asserts that an operation did not begin because `rank` is on another node.
#[track_caller]
fn assert_unreachable<T: core::fmt::Debug>(outcome: Result<T, Error>, rank: u32) {
    let told =
        matches!(outcome, Err(Error::Fault(Fault::Unreachable { rank: found })) if found == rank);
    assert!(told, "{outcome:?}");
    assert!(outcome.unwrap_err().to_string().contains("STRAIT_HCA says that there is no network"));
}

/// Ranks of this node communicate among themselves.
fn talk_on_the_node(world: &World) {
    talk(world, &world.nodes().ranks_on(world.node()).collect::<Vec<_>>());
}

/// Ranks in a ring exchange short, long and wildcard messages, and do collectives.
fn talk(world: &World, here: &[u32]) {
    let group = world.endpoint().group(here).unwrap();
    let (place, count) = (group.place() as usize, here.len());
    let (next, previous) = (here[(place + 1) % count], here[(place + count - 1) % count]);
    for (tag, length) in (0..).zip([0, 8, 1000, 20_000, LARGE]) {
        let (data, mut room) = (payload::of(u64::from(world.rank()), length), vec![0; length]);
        let source = if tag % 2 == 0 { previous } else { ANY_SOURCE };
        let status = world.endpoint().sendrecv(&data, next, tag, &mut room, source, tag).unwrap();
        assert_eq!((status.source, status.bytes), (previous, length));
        assert_eq!(payload::first_difference(u64::from(previous), &room), None);
        group.barrier().unwrap();
    }
    let mut sum = [world.rank()];
    group.allreduce(&mut sum, Op::Sum).unwrap();
    assert_eq!(sum[0], here.iter().sum());
}

/// Without a network no message goes to another node, and no operation hangs because of it.
fn fail_beyond_it(world: &World) {
    let endpoint = world.endpoint();
    let other = (0..world.size()).find(|rank| world.node_of(*rank) != Some(world.node())).unwrap();
    for length in [0, 8, 5000, LARGE] {
        assert_unreachable(endpoint.send(&vec![0_u8; length], other, 1), other);
        assert_unreachable(endpoint.recv(&mut vec![0_u8; length], other, 1), other);
    }
    assert_unreachable(endpoint.probe(other, 1), other);
    let mut room = [0_u8];
    endpoint.scope(|scope| {
        assert_unreachable(scope.isend(&[1_u8], other, 1).map(drop), other);
        assert_unreachable(scope.irecv(&mut room, other, 1).map(drop), other);
    });
    let barrier_error = endpoint.barrier().unwrap_err();
    assert!(matches!(barrier_error, Error::Fault(Fault::Unreachable { .. })), "{barrier_error}");
    let send_error = endpoint.send(&[0_u8], world.size(), 1).unwrap_err();
    assert!(matches!(send_error, Error::Start(_)), "{send_error}");
}

#[test]
fn ranks_know_their_nodes() {
    Ranks::new(5, "ranks_know_their_nodes").on_nodes(2).run(|world| {
        let (rank, node) = (world.rank(), u32::from(world.rank() >= 3));
        assert_eq!((world.size(), world.nodes().count(), world.node()), (5, 2, node));
        let nodes: Vec<_> = (0..6).map(|rank| world.node_of(rank)).collect();
        assert_eq!(nodes, [Some(0), Some(0), Some(0), Some(1), Some(1), None]);
        assert_eq!(world.is_leader(), rank == 0 || rank == 3);
        assert_eq!((world.nodes().leader(0), world.nodes().leader(1)), (Some(0), Some(3)));
        world.finalize().unwrap();
    });
}

#[test]
fn the_ranks_of_a_node_talk_and_no_others() {
    let job = Ranks::new(4, "the_ranks_of_a_node_talk_and_no_others").on_nodes(2);
    job.with("STRAIT_HCA", "none").run(|world| {
        talk_on_the_node(&world);
        fail_beyond_it(&world);
        talk_on_the_node(&world);
        world.finalize().unwrap();
    });
}

/// Assigns nodes in turn, so that rank numbers and places on the node are unrelated.
#[test]
fn any_pattern_of_nodes_will_do() {
    let nodes = Nodes::named([4, 2, 4, 2, 2, 4, 9]);
    threads_on(SegmentConfig::new(7), &nodes, |world| {
        assert_eq!(world.nodes().to_string(), "7 ranks on 3 nodes: 0+2+5, 1+3-4, 6");
        talk_on_the_node(&world);
        talk(&world, &(0..7).collect::<Vec<_>>());
    });
}

#[test]
fn all_ranks_share_one_descriptor_whatever_their_nodes() {
    Ranks::new(4, "all_ranks_share_one_descriptor_whatever_their_nodes").on_nodes(3).run(|world| {
        let memory = || Ok(rustix::fs::memfd_create("device", MemfdFlags::CLOEXEC)?);
        let file: OwnedFd = world.share("device", memory).unwrap();
        let rank = world.rank() as u8;
        rustix::io::pwrite(&file, &[rank + 1], u64::from(rank)).unwrap();
        // A second name, with the fence that belongs to it: now all ranks have written.
        world.share("ready", memory).unwrap();
        let mut all = [0; 5];
        assert_eq!(rustix::io::pread(&file, &mut all, 0), Ok(4));
        assert_eq!(all, [1, 2, 3, 4, 0]);
        world.finalize().unwrap();
    });
}

#[test]
fn a_death_is_known_on_its_node() {
    Ranks::new(4, "a_death_is_known_on_its_node").on_nodes(2).with_deaths(&[3]).run(|world| {
        match world.rank() {
            3 => die(),
            2 => {
                let error = world.endpoint().recv(&mut [0_u8], 3, 0).unwrap_err();
                assert!(
                    matches!(error, Error::Fault(Fault::PeerFailed { rank: 3, .. })),
                    "{error}"
                );
            }
            _ => talk_on_the_node(&world),
        }
        world.finalize().unwrap();
    });
}
