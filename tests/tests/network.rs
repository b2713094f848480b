//! Several nodes on one machine: messages between them, and their fate when a rank dies. Where a
//! test names no device, it is that of `STRAIT_HCA`: `cargo xtask vm` runs these tests over RDMA
//! devices, too.

use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{Error, FailureCause, Fault, Nodes, RemoteTransfer, RemoteTransfers, World, wait_all};
use strait_tests::{Ranks, die, payload, shape, threads_on, traffic};

/// The designs of the RDMA channel, by the names that `STRAIT_RING` takes.
const DESIGNS: [&str; 5] = ["basic", "piggyback", "pipeline", "zero_copy", "rendezvous_write"];

/// The device on which a thread moves the data.
const ENGINE: Option<&str> = Some("soft-engine");

/// A length, in bytes, above that of eager messages and of messages through the ring.
const LARGE: usize = 300_000;

#[test]
fn a_word_goes_to_another_node_and_back() {
    threads_on(SegmentConfig::new(2), &Nodes::blocks(2, 2).unwrap(), |world| {
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
        threads_on(SegmentConfig::new(ranks), &Nodes::blocks(ranks, nodes).unwrap(), |world| {
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

/// Returns a job of 4 ranks on 2 nodes with one design of the channel, and a software device if one
/// is named.
fn job(name: &'static str, design: &'static str, device: Option<&'static str>) -> Ranks {
    assert!(DESIGNS.contains(&design));
    let job = Ranks::new(4, name).on_nodes(2).with("STRAIT_RING", design);
    match device {
        Some(device) => job.with("STRAIT_HCA", device),
        None => job,
    }
}

/// Plays traffic between processes.
fn play(job: Ranks) {
    job.run(|world| {
        traffic::seeds(100, 2).for_each(|seed| traffic::run(&world, seed, 4, 1 << 20));
        world.finalize().unwrap();
    });
}

macro_rules! traffic {
    ($($name:ident: $design:literal, $device:expr;)*) => {$(
        #[test]
        fn $name() {
            play(job(stringify!($name), $design, $device));
        }
    )*};
}

traffic! {
    traffic_by_basic: "basic", None;
    traffic_by_piggyback: "piggyback", None;
    traffic_by_pipeline: "pipeline", None;
    traffic_by_zero_copy: "zero_copy", None;
    traffic_by_rendezvous_write: "rendezvous_write", None;
    traffic_by_basic_and_a_thread: "basic", ENGINE;
    traffic_by_piggyback_and_a_thread: "piggyback", ENGINE;
    traffic_by_pipeline_and_a_thread: "pipeline", ENGINE;
    traffic_by_zero_copy_and_a_thread: "zero_copy", ENGINE;
    traffic_by_rendezvous_write_and_a_thread: "rendezvous_write", ENGINE;
}

#[test]
fn traffic_with_announced_messages_written() {
    let job = job("traffic_with_announced_messages_written", "zero_copy", None);
    play(job.with("STRAIT_NET_LMT", "write").with("STRAIT_RENDEZVOUS", "plain"));
}

/// Every rank sends large messages to every other at once, before any rank receives. Those from the
/// other node are read, or written by their senders.
#[test]
fn large_messages_cross() {
    for way in ["read", "write"] {
        cross(Ranks::new(4, "large_messages_cross").with("STRAIT_NET_LMT", way));
    }
}

fn cross(job: Ranks) {
    job.on_nodes(2).run(|world| {
        let (endpoint, rank, ranks) = (world.endpoint(), world.rank(), world.size());
        let id = |from: u32, to: u32| u64::from(from << 8 | to);
        let data: Vec<_> = (0..ranks).map(|to| payload::of(id(rank, to), LARGE)).collect();
        let mut rooms = vec![vec![0; LARGE]; ranks as usize];
        endpoint.scope(|scope| {
            let others = || (0..ranks).filter(|other| *other != rank);
            let sends = others().map(|to| scope.isend(&data[to as usize], to, 1).unwrap());
            let mut requests: Vec<_> = sends.collect();
            let rooms = (0..).zip(&mut rooms).filter(|(from, _)| *from != rank);
            requests.extend(rooms.map(|(from, room)| scope.irecv(room, from, 1).unwrap()));
            wait_all(&mut requests).unwrap();
        });
        for from in (0..ranks).filter(|from| *from != rank) {
            let wrong = payload::first_difference(id(from, rank), &rooms[from as usize]);
            assert_eq!(wrong, None, "from rank {from}");
        }
        let RemoteTransfers { read, written, .. } = world.remote_transfers();
        let writes = world.tuning().remote_transfer == RemoteTransfer::Write;
        assert_eq!([read, written], if writes { [0, 2] } else { [2, 0] });
        world.finalize().unwrap();
    });
}

/// The limits of a node and of the streams between nodes differ, for senders and for receivers that
/// send RTRs.
#[test]
fn the_streams_have_a_limit_of_their_own() {
    const LENGTH: usize = 20_000;
    for (eager_max, stream_max) in [(1000, 40_000), (40_000, 1000)] {
        let job = Ranks::new(4, "the_streams_have_a_limit_of_their_own").on_nodes(2);
        let job = job.with("STRAIT_EAGER_MAX", eager_max).with("STRAIT_STREAM_MAX", stream_max);
        // Messages in parcels are not announced.
        let job = job.with("STRAIT_RENDEZVOUS", "speculative").with("STRAIT_PARCEL_MAX", 0);
        job.run(|world| {
            let (endpoint, rank) = (world.endpoint(), world.rank());
            let (on_node, away) = (rank ^ 1, rank ^ 2);
            let (out, mut room) = (payload::of(1, LENGTH), vec![0; LENGTH]);
            // The memory of links is registered, too, so this comes before any count.
            endpoint.barrier().unwrap();
            endpoint.sendrecv(&[0_u8], away, 2, &mut [0_u8], away, 2).unwrap();
            for (peer, unasked_max) in
                [(on_node, world.tuning().eager_max), (away, world.tuning().stream_max)]
            {
                let asked = || world.rtrs().sent;
                let (before, beside) = (asked(), world.registrations().misses);
                // No receiver requests the first message.
                for _ in 0..2 {
                    endpoint.scope(|scope| {
                        let receive = scope.irecv(&mut room, peer, 1).unwrap();
                        endpoint.barrier().unwrap();
                        scope.isend(&out, peer, 1).unwrap().wait().unwrap();
                        receive.wait().unwrap();
                    });
                    assert_eq!(payload::first_difference(1, &room), None);
                }
                let announced = LENGTH > unasked_max;
                assert_eq!(asked() > before, announced, "asked rank {peer}");
                let registered = world.registrations().misses > beside;
                assert_eq!(registered, announced && peer == away, "to rank {peer}");
            }
            world.finalize().unwrap();
        });
    }
}

/// A receive from any source takes messages of this node and of others.
#[test]
fn any_source_is_on_any_node() {
    const COUNT: u64 = 200;
    Ranks::new(4, "any_source_is_on_any_node").on_nodes(2).run(|world| {
        let endpoint = world.endpoint();
        if world.rank() == 0 {
            let mut next = [0; 4];
            for _ in 0..3 * COUNT {
                let mut word = [0_u64];
                let source = endpoint.recv(&mut word, ANY_SOURCE, 1).unwrap().source as usize;
                assert_eq!(word, [next[source]], "from rank {source}");
                next[source] += 1;
            }
            assert_eq!(next, [0, COUNT, COUNT, COUNT]);
        } else {
            (0..COUNT).for_each(|number| endpoint.send(&[number], 0, 1).unwrap());
        }
        world.finalize().unwrap();
    });
}

/// A message longer than its receive fills it, and the rest is discarded, on every path.
#[test]
fn what_does_not_fit_is_let_go() {
    threads_on(SegmentConfig::new(2), &Nodes::blocks(2, 2).unwrap(), |world| {
        let (endpoint, lengths) = (world.endpoint(), [100, 10_000, LARGE]);
        for (tag, length) in (0..).zip(lengths) {
            if world.rank() == 0 {
                endpoint.send(&payload::of(7, length), 1, tag).unwrap();
                continue;
            }
            let mut room = vec![0; length / 2];
            let error = endpoint.recv(&mut room, 0, tag).unwrap_err();
            let Error::Fault(Fault::Truncated { message, .. }) = error else { panic!("{error}") };
            assert_eq!(message, length);
            assert_eq!(payload::first_difference(7, &room[..length / 2 / 8 * 8]), None);
        }
        world.finalize().unwrap();
    });
}

/// Limit on the unexpected messages of one source, in bytes.
const BUDGET: usize = 16 * 1024;

/// Three ranks of another node send a hundred times the budget, before the receiver receives
/// anything.
#[test]
fn incast_takes_bounded_memory() {
    const LENGTH: usize = 2000;
    const COUNT: u64 = 100 * (BUDGET / LENGTH) as u64;
    let job = Ranks::new(6, "incast_takes_bounded_memory").on_nodes(2);
    job.with("STRAIT_UNEXPECTED_MAX", BUDGET).run(|world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        let id = |from: u32, number: u64| u64::from(from) << 32 | number;
        match rank {
            0 => {
                for from in 3..6 {
                    endpoint.recv(&mut [0_u8], from, 2).unwrap();
                }
                // Messages that were in the ring when the limit was reached come on top of the
                // share.
                let ring = 16 * (16 * 1024 + 256);
                let (held, most) = (world.held(), 3 * (BUDGET + LENGTH + ring));
                assert!(held.bytes > 0 && held.peak <= most, "{held:?} of at most {most}");
                let mut room = [0; LENGTH];
                for (from, number) in (3..6).flat_map(|from| (0..COUNT).map(move |n| (from, n))) {
                    endpoint.recv(&mut room, from, 1).unwrap();
                    assert_eq!(payload::first_difference(id(from, number), &room), None);
                }
                assert_eq!(world.held().bytes, 0);
            }
            3..6 => {
                let data: Vec<_> = (0..COUNT).map(|n| payload::of(id(rank, n), LENGTH)).collect();
                endpoint.scope(|scope| {
                    let sends = data.iter().map(|data| scope.isend(data, 0, 1).unwrap());
                    let mut sends: Vec<_> = sends.collect();
                    endpoint.send(&[0_u8], 0, 2).unwrap();
                    wait_all(&mut sends).unwrap();
                });
            }
            _ => {}
        }
        world.finalize().unwrap();
    });
}

/// Asserts that an operation ended because `rank` died.
#[track_caller]
fn assert_failed<T: core::fmt::Debug>(outcome: Result<T, Error>, rank: u32) {
    let is_expected = |found: u32| found == rank;
    let failed = matches!(
        outcome,
        Err(Error::Fault(Fault::PeerFailed { rank, .. })) if is_expected(rank)
    );
    assert!(failed, "{outcome:?}");
}

/// Returns whether the error reports that rank 3 is gone, with the device's failure as the cause.
fn shows_device(error: &Error) -> bool {
    let Error::Fault(Fault::PeerFailed { rank: 3, sign }) = error else { return false };
    match sign {
        FailureCause::Request(why) => error.to_string().contains(&why.to_string()),
        FailureCause::Device(why) => error.to_string().contains(&why.to_string()),
        _ => false,
    }
}

/// The others go on, on the node and across nodes.
fn go_on(world: &World, ranks: &[u32]) {
    let group = world.endpoint().group(ranks).unwrap();
    let mut sum = vec![u64::from(world.rank()); 5000];
    group.allreduce(&mut sum, strait::Op::Sum).unwrap();
    assert_eq!(sum[4999], ranks.iter().map(|rank| u64::from(*rank)).sum());
}

/// A rank dies after its messages were delivered to the device: they arrive, and then all
/// operations on it fail.
#[test]
fn what_a_dead_rank_sent_arrives() {
    let job = Ranks::new(4, "what_a_dead_rank_sent_arrives").on_nodes(2).with_deaths(&[3]);
    job.run(|world| {
        let endpoint = world.endpoint();
        match world.rank() {
            3 => {
                (0..50_u64).for_each(|number| endpoint.send(&[number], 0, 1).unwrap());
                die();
            }
            0 => {
                let mut word = [0_u64];
                for number in 0..50 {
                    endpoint.recv(&mut word, 3, 1).unwrap();
                    assert_eq!(word, [number]);
                }
                assert_failed(endpoint.recv(&mut word, 3, 1), 3);
                assert_failed(endpoint.send(&[0_u8], 3, 1), 3);
            }
            _ => {}
        }
        go_on(&world, &[0, 1, 2]);
        world.finalize().unwrap();
    });
}

/// A rank dies while large messages to it and from it are under way.
fn die_in_transfer(job: Ranks) {
    const MANY: usize = 8 << 20;
    job.with_deaths(&[3]).run(|world| {
        let endpoint = world.endpoint();
        let (data, mut room) = (vec![1_u8; MANY], vec![0_u8; MANY]);
        if let other @ (0 | 3) = 3 - world.rank() {
            // From now on receives that are posted first send RTRs.
            endpoint.sendrecv(&data, other, 1, &mut room, other, 1).unwrap();
        }
        match world.rank() {
            3 => endpoint.scope(|scope| {
                let _receive = scope.irecv(&mut room, 0, 1).unwrap();
                let _send = scope.isend(&data, 0, 1).unwrap();
                endpoint.recv(&mut [0_u8], 0, 2).unwrap();
                (0..3).for_each(|_| endpoint.progress().unwrap());
                die();
            }),
            0 => endpoint.scope(|scope| {
                let receive = scope.irecv(&mut room, 3, 1).unwrap();
                let send = scope.isend(&data, 3, 1).unwrap();
                endpoint.send(&[0_u8], 3, 2).unwrap();
                // Either operation may have been complete when the rank died.
                for outcome in [receive.wait(), send.wait()] {
                    if outcome.is_err() {
                        assert_failed(outcome, 3);
                    }
                }
                assert_failed(endpoint.recv(&mut [0_u8], 3, 3), 3);
            }),
            _ => {}
        }
        go_on(&world, &[0, 1, 2]);
        world.finalize().unwrap();
    });
}

macro_rules! deaths {
    ($($name:ident: $design:literal, $device:expr;)*) => {$(
        #[test]
        fn $name() {
            die_in_transfer(job(stringify!($name), $design, $device));
        }
    )*};
}

deaths! {
    a_rank_dies_in_transfer_by_zero_copy: "zero_copy", None;
    a_rank_dies_in_transfer_by_rendezvous_write: "rendezvous_write", None;
    a_rank_dies_in_transfer_by_zero_copy_and_a_thread: "zero_copy", ENGINE;
    a_rank_dies_in_transfer_by_pipeline_and_a_thread: "pipeline", ENGINE;
}

#[test]
fn a_rank_dies_while_announced_messages_are_written() {
    let job = job("a_rank_dies_while_announced_messages_are_written", "zero_copy", ENGINE);
    die_in_transfer(job.with("STRAIT_NET_LMT", "write").with("STRAIT_RENDEZVOUS", "plain"));
}

/// No launcher reports the death of a rank on another node: its device stops answering. Ranks that
/// wait for it and ranks that send to it learn of the death and of the device's error. So do the
/// ranks on its node.
#[test]
fn a_death_is_heard_of_without_a_launcher() {
    let name = "a_death_is_heard_of_without_a_launcher";
    Ranks::new(4, name).on_nodes(2).by_pmi().with_deaths(&[3]).run(|world| {
        let endpoint = world.endpoint();
        (0..3).for_each(|_| endpoint.barrier().unwrap());
        match world.rank() {
            3 => die(),
            1 => {
                while endpoint.send(&[0_u8; 1000], 3, 1).is_ok() {}
                let error = endpoint.send(&[0_u8], 3, 1).unwrap_err();
                assert!(shows_device(&error), "{error}");
            }
            0 => {
                let error = endpoint.recv(&mut [0_u8], 3, 1).unwrap_err();
                assert!(shows_device(&error), "{error}");
            }
            _ => assert_failed(endpoint.recv(&mut [0_u8], 3, 1), 3),
        }
        go_on(&world, &[0, 1, 2]);
        world.finalize().unwrap();
    });
}

/// Collectives with an assignment of ranks to nodes that follows no pattern, and numbers that are
/// not powers of two.
#[test]
fn collectives_span_nodes() {
    for nodes in [Nodes::named([4, 2, 4, 2, 2, 4, 9]), Nodes::blocks(5, 2).unwrap()] {
        threads_on(SegmentConfig::new(nodes.ranks()), &nodes, |world| {
            let (endpoint, rank, ranks) = (world.endpoint(), world.rank(), world.size());
            for round in 0..20 {
                endpoint.barrier().unwrap();
                let root = round % ranks;
                let mut data = vec![if rank == root { u64::from(round) } else { 0 }; 3000];
                endpoint.broadcast(&mut data, root).unwrap();
                assert!(data.iter().all(|word| *word == u64::from(round)));
                let mut sum = [rank, 1];
                endpoint.allreduce(&mut sum, strait::Op::Sum).unwrap();
                assert_eq!(sum, [ranks * (ranks - 1) / 2, ranks]);
                let mut most = [rank];
                endpoint.reduce(&mut most, strait::Op::Max, root).unwrap();
                assert!(rank != root || most == [ranks - 1]);
            }
            world.finalize().unwrap();
        });
    }
}

/// A member of a group on two nodes dies: every operation of the group ends on both, and other
/// groups go on.
#[test]
fn a_death_ends_the_collectives_of_all_nodes() {
    let name = "a_death_ends_the_collectives_of_all_nodes";
    Ranks::new(5, name).on_nodes(2).with_deaths(&[4]).run(|world| {
        let endpoint = world.endpoint();
        (0..10).for_each(|_| endpoint.barrier().unwrap());
        if world.rank() == 4 {
            die();
        }
        assert_failed(endpoint.barrier(), 4);
        assert_failed(endpoint.broadcast(&mut [0_u8], 4), 4);
        assert_failed(endpoint.allreduce(&mut [1_u32], strait::Op::Sum), 4);
        go_on(&world, &[0, 1, 2, 3]);
        world.finalize().unwrap();
    });
}

/// A request that is dropped while its message is under way has no claim on its buffer any more.
#[test]
fn dropped_requests_leave_their_buffers_alone() {
    for (design, way) in
        [("zero_copy", "read"), ("zero_copy", "write"), ("rendezvous_write", "auto")]
    {
        let name = "dropped_requests_leave_their_buffers_alone";
        let job = Ranks::new(2, name).on_nodes(2).with("STRAIT_RING", design);
        job.with("STRAIT_NET_LMT", way).run(|world| {
            let endpoint = world.endpoint();
            for round in 0..20_u32 {
                if world.rank() == 0 {
                    let mut data = payload::of(round.into(), LARGE);
                    endpoint.scope(|scope| drop(scope.isend(&data, 1, 1).unwrap()));
                    data.fill(0xdd);
                } else {
                    let mut room = vec![0_u8; LARGE];
                    endpoint.recv(&mut room, 0, 1).unwrap();
                    assert_eq!(payload::first_difference(round.into(), &room), None);
                }
                // Drops a receive before its message is complete.
                if world.rank() == 1 {
                    endpoint.send(&[0_u8], 0, 2).unwrap();
                    let mut room = vec![0_u8; LARGE];
                    endpoint.scope(|scope| {
                        let _receive = scope.irecv(&mut room, 0, 3).unwrap();
                        (0..round).for_each(|_| endpoint.progress().unwrap());
                    });
                    let before = room.clone();
                    endpoint.barrier().unwrap();
                    assert_eq!(room, before, "round {round}: written after the scope");
                } else {
                    let data = vec![0xaa_u8; LARGE];
                    endpoint.recv(&mut [0_u8], 1, 2).unwrap();
                    endpoint.scope(|scope| drop(scope.isend(&data, 1, 3).unwrap()));
                    endpoint.barrier().unwrap();
                }
            }
            world.finalize().unwrap();
        });
    }
}
