//! Messages without a posted receive: the memory for them is bounded, and the sender keeps the rest
//! until the receiver calls for it.

use std::thread;

use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{ANY_TAG, Endpoint, Error, Fault, Request, wait_all};
use strait_core::layout::Life;
use strait_core::shm::PARCEL;
use strait_tests::{Ranks, die, payload, report, segment, shape};

/// Limit on the unexpected messages of each peer, in bytes.
const BUDGET: usize = 16 * 1024;

/// Bytes that the accounting adds for each message besides its payload.
const ENTRIES: usize = 256;

const TAG: u32 = 5;

/// The tag of the message that reports that all others were begun.
const END: u32 = 6;

/// Returns a shape with cells for two messages of each size, so that the messages in flight do not
/// exceed the budget.
const fn shallow(ranks: u32) -> SegmentConfig {
    SegmentConfig {
        cells_per_rank: 2,
        cell_payload: 2048,
        fastbox_lines: 16,
        ..SegmentConfig::new(ranks)
    }
}

/// Returns a job of this shape with the budget of these tests.
fn job(config: SegmentConfig, name: &'static str) -> Ranks {
    Ranks::new(config.ranks, name).shaped(config).with("STRAIT_UNEXPECTED_MAX", BUDGET)
}

/// Returns the most bytes that `sources` ranks with messages of up to `length` bytes can make a
/// rank hold. For each source this is its share, the message that exceeds it, and all its messages
/// in flight.
fn most_held(config: SegmentConfig, sources: usize, length: usize) -> usize {
    let SegmentConfig { cells_per_rank, cell_payload, fastbox_lines, parcels, .. } = config;
    let in_cells = cells_per_rank as usize * (cell_payload as usize + ENTRIES);
    // Each message takes at least one line, and the baton may hold one message of at most 2 KiB.
    let in_lines = fastbox_lines as usize * (64 + ENTRIES) + 2048 + ENTRIES;
    let in_parcels = parcels as usize * (PARCEL + ENTRIES);
    sources * (BUDGET + length + ENTRIES + in_cells + in_lines + in_parcels)
}

fn id(from: u32, number: u64) -> u64 {
    u64::from(from) << 32 | number
}

/// Receives `count` messages from `source` and checks them and their order.
fn receive_in_order(endpoint: Endpoint<'_>, source: u32, length: usize, count: u64) {
    let mut bytes = vec![0; length + 1];
    for number in 0..count {
        let status = endpoint.recv(&mut bytes, source, TAG).unwrap();
        assert_eq!(status.bytes, length, "message {number} of rank {source}");
        let wrong = payload::first_difference(id(source, number), &bytes[..length]);
        assert_eq!(wrong, None, "message {number} of rank {source}");
    }
}

/// The most messages of a sender. The receiver calls for each that the sender kept. On a machine
/// with twenty busy processes that takes 10 ms, since both need their turn on a processor.
const MESSAGES_MOST: usize = 1500;

/// Each sender begins messages of a hundred times the budget, or [`MESSAGES_MOST`], all at once.
/// The receiver posts nothing until all have begun.
fn flood(name: &'static str, senders: u32, length: usize) {
    // Without copy rings large messages take the way of short ones. Announced messages would not
    // load the queues.
    let config = SegmentConfig { ring_granules: 0, ..shallow(senders + 1) };
    let count = MESSAGES_MOST.min(100 * BUDGET / (length + ENTRIES)) as u64;
    job(config, name).run(|world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        if rank == 0 {
            for source in 1..=senders {
                endpoint.recv(&mut [0_u8], source, END).unwrap();
            }
            let held = world.held();
            report(format_args!("{held:?}"));
            let most = most_held(config, senders as usize, length);
            let some = held.bytes > 0 || length > BUDGET;
            assert!(some && held.peak <= most, "{held:?} of at most {most} bytes");
            (1..=senders).for_each(|source| receive_in_order(endpoint, source, length, count));
            let held = world.held();
            assert!(held.bytes == 0 && held.peak <= most, "{held:?} of at most {most} bytes");
        } else {
            let data: Vec<_> = (0..count).map(|n| payload::of(id(rank, n), length)).collect();
            endpoint.scope(|scope| {
                let sends = data.iter().map(|data| scope.isend(data, 0, TAG).unwrap());
                let mut sends: Vec<_> = sends.collect();
                endpoint.send(&[0_u8], 0, END).unwrap();
                wait_all(&mut sends).unwrap();
            });
        }
        world.finalize().unwrap();
    });
}

#[test]
fn a_flood_of_empty_messages_is_bounded() {
    flood("a_flood_of_empty_messages_is_bounded", 1, 0);
}

#[test]
fn a_flood_of_words_is_bounded() {
    flood("a_flood_of_words_is_bounded", 1, 8);
}

#[test]
fn a_flood_of_messages_of_a_cell_is_bounded() {
    flood("a_flood_of_messages_of_a_cell_is_bounded", 1, 2000);
}

#[test]
fn a_flood_of_messages_of_several_cells_is_bounded() {
    flood("a_flood_of_messages_of_several_cells_is_bounded", 1, 12_000);
}

#[test]
fn a_flood_of_messages_beyond_the_budget_is_bounded() {
    flood("a_flood_of_messages_beyond_the_budget_is_bounded", 1, 40_000);
}

#[test]
fn floods_of_eight_are_bounded() {
    flood("floods_of_eight_are_bounded", 8, 700);
}

/// Blocking sends on the short paths, which read only their lines. Senders sleep until the receiver
/// calls for their messages.
#[test]
fn eight_send_to_one_that_wants_the_last_first() {
    const SENDERS: u32 = 8;
    const COUNT: u64 = 1000;
    let config = shallow(SENDERS + 1);
    job(config, "eight_send_to_one_that_wants_the_last_first").run(|world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        if rank == 0 {
            // The other senders go on meanwhile.
            receive_in_order(endpoint, SENDERS, 8, COUNT);
            let mut next = [0; SENDERS as usize];
            for _ in 0..u64::from(SENDERS - 1) * COUNT {
                let mut bytes = [0; 8];
                let source = endpoint.recv(&mut bytes, ANY_SOURCE, ANY_TAG).unwrap().source;
                let expected = id(source, next[source as usize]);
                assert_eq!(payload::first_difference(expected, &bytes), None, "{source}");
                next[source as usize] += 1;
            }
            let (held, most) = (world.held(), most_held(config, SENDERS as usize, 8));
            assert!(held.bytes == 0 && held.peak <= most, "{held:?} of at most {most} bytes");
        } else {
            for number in 0..COUNT {
                endpoint.send(&payload::of(id(rank, number), 8), 0, TAG).unwrap();
            }
        }
        world.finalize().unwrap();
    });
}

/// Two ranks answer each other by the baton, and neither ever receives. The baton goes back and
/// forth, and no other structure is read, until one of the two keeps it.
#[test]
fn answers_without_receives_are_bounded() {
    const COUNT: u64 = 2000;
    let config = shallow(2);
    job(config, "answers_without_receives_are_bounded").run(|world| {
        let endpoint = world.endpoint();
        let (rank, other) = (world.rank(), 1 - world.rank());
        let data: Vec<_> = (0..COUNT).map(|n| payload::of(id(rank, n), 8)).collect();
        endpoint.scope(|scope| {
            let mut offered = Vec::new();
            let answered = |held: usize| {
                while world.held().bytes == held {
                    endpoint.progress().unwrap();
                    std::thread::yield_now();
                }
            };
            for data in &data {
                // While the receiver has room, the send takes the short path, in turns, so that
                // both ranks agree on the room. A send that became an offer would wait for a
                // receive that comes later. Without room the test does not wait for the send.
                let held = world.held().bytes;
                if held >= BUDGET / 2 {
                    offered.push(scope.isend(data, other, TAG).unwrap());
                    endpoint.progress().unwrap();
                } else if rank == 0 {
                    endpoint.send(data, other, TAG).unwrap();
                    answered(held);
                } else {
                    answered(held);
                    endpoint.send(data, other, TAG).unwrap();
                }
            }
            endpoint.sendrecv(&[0_u8], other, END, &mut [0_u8], other, END).unwrap();
            let (held, most) = (world.held(), most_held(config, 1, 8));
            assert!(held.peak <= most, "{held:?} of at most {most} bytes");
            receive_in_order(endpoint, other, 8, COUNT);
            wait_all(&mut offered).unwrap();
        });
        world.finalize().unwrap();
    });
}

/// Lengths of messages by line, by cell, by several cells, and large.
const LENGTHS: [usize; 6] = [0, 8, 900, 5000, 30_000, 200_000];

/// All ranks begin messages of all lengths to all. No rank receives before a barrier.
fn all_to_all(name: &'static str, config: SegmentConfig, transfer: &str) {
    job(config, name).with("STRAIT_UNEXPECTED_MAX", 1024).with("STRAIT_LMT", transfer).run(
        |world| {
            const ROUNDS: u64 = 5;
            let (endpoint, rank, ranks) = (world.endpoint(), world.rank(), world.size());
            let others = || (0..ranks).filter(|other| *other != rank);
            let messages = || (0..ROUNDS).flat_map(|_| LENGTHS).zip(0..);
            let data: Vec<_> =
                messages().map(|(length, number)| payload::of(id(rank, number), length)).collect();
            endpoint.scope(|scope| {
                let begin =
                    |to: u32| data.iter().map(move |data| scope.isend(data, to, TAG).unwrap());
                let mut sends: Vec<_> = others().flat_map(begin).collect();
                endpoint.barrier().unwrap();
                report("all have begun");
                let mut sum = [1_u64];
                endpoint.allreduce(&mut sum, strait::Op::Sum).unwrap();
                assert_eq!(sum, [u64::from(ranks)]);
                for source in others() {
                    for (length, number) in messages() {
                        let mut bytes = vec![0; length];
                        // Messages in flight must not hinder the probe.
                        let found = endpoint.probe(source, TAG).unwrap();
                        assert_eq!((found.bytes, found.source), (length, source));
                        endpoint.recv(&mut bytes, source, TAG).unwrap();
                        assert_eq!(payload::first_difference(id(source, number), &bytes), None);
                    }
                }
                wait_all(&mut sends).unwrap();
            });
            world.finalize().unwrap();
        },
    );
}

#[test]
fn all_to_all_with_next_to_no_room() {
    all_to_all("all_to_all_with_next_to_no_room", shape::tiny(4, 1), "cma_shared");
}

#[test]
fn all_to_all_through_cells_with_next_to_no_room() {
    let config = SegmentConfig { ring_granules: 0, ..shape::tiny(4, 1) };
    all_to_all("all_to_all_through_cells_with_next_to_no_room", config, "auto");
}

#[test]
fn all_to_all_through_copy_rings_with_next_to_no_room() {
    let name = "all_to_all_through_copy_rings_with_next_to_no_room";
    all_to_all(name, shape::tiny(4, 1), "copy_ring");
}

/// Rank 2 holds all cells of rank 0 and does not poll. Calls and grants need no cell, so rank 1 is
/// served nevertheless.
#[test]
fn calls_and_grants_need_no_cell() {
    let config = shape::tiny(3, 1);
    job(config, "calls_and_grants_need_no_cell").run(|world| {
        let endpoint = world.endpoint();
        let (flood, count) = (vec![7_u8; 900], 40);
        match world.rank() {
            0 => endpoint.scope(|scope| {
                let sends = (0..10).map(|_| scope.isend(&flood, 2, TAG).unwrap());
                let mut sends: Vec<_> = sends.collect();
                endpoint.recv(&mut [0_u8], 1, END).unwrap();
                receive_in_order(endpoint, 1, 900, count);
                receive_in_order(endpoint, 1, 100_000, 1);
                report("rank 1 is served");
                wait_all(&mut sends).unwrap();
            }),
            1 => {
                let large = payload::of(id(1, 0), 100_000);
                let data: Vec<_> = (0..count).map(|n| payload::of(id(1, n), 900)).collect();
                endpoint.scope(|scope| {
                    let sends = data.iter().map(|data| scope.isend(data, 0, TAG).unwrap());
                    let mut sends: Vec<_> = sends.collect();
                    sends.push(scope.isend(&large, 0, TAG).unwrap());
                    endpoint.send(&[0_u8], 0, END).unwrap();
                    wait_all(&mut sends).unwrap();
                });
            }
            _ => {
                let segment = segment(&world);
                while segment.rank_block(1).liveness.state() != Life::Finished {
                    thread::yield_now();
                }
                for _ in 0..10 {
                    endpoint.recv(&mut [0_u8; 900], 0, TAG).unwrap();
                }
            }
        }
        world.finalize().unwrap();
    });
}

/// The queue of rank 0 is full of messages without a receive, and so is the budget. An RTS, a
/// barrier and an offer still pass.
#[test]
fn announcements_and_barriers_pass_a_full_queue() {
    let name = "announcements_and_barriers_pass_a_full_queue";
    job(shape::tiny(2, 1), name).run(|world| {
        let endpoint = world.endpoint();
        let large = payload::of(9, 600_000);
        let flood = vec![7_u8; 900];
        endpoint.scope(|scope| {
            let mut sends = Vec::new();
            if world.rank() == 1 {
                sends.extend((0..200).map(|_| scope.isend(&flood, 0, TAG).unwrap()));
                sends.push(scope.isend(&large, 0, END).unwrap());
            }
            endpoint.barrier().unwrap();
            if world.rank() == 0 {
                let mut bytes = vec![0; large.len()];
                endpoint.recv(&mut bytes, ANY_SOURCE, END).unwrap();
                assert_eq!(payload::first_difference(9, &bytes), None);
                for _ in 0..200 {
                    endpoint.recv(&mut [0_u8; 900], 1, TAG).unwrap();
                }
            }
            wait_all(&mut sends).unwrap();
        });
        world.finalize().unwrap();
    });
}

/// An offered message ends like any other: truncated, dropped by its sender or its receiver, or
/// received.
#[test]
fn an_offered_message_can_be_let_go_on_either_side() {
    let name = "an_offered_message_can_be_let_go_on_either_side";
    Ranks::new(2, name).with("STRAIT_UNEXPECTED_MAX", 0).run(|world| {
        let endpoint = world.endpoint();
        let data: Vec<_> = (0..6).map(|n| payload::of(id(0, n), 5000)).collect();
        if world.rank() == 0 {
            // The requests are dropped, and the engine completes them from copies.
            endpoint.scope(|scope| {
                data.iter().for_each(|data| drop(scope.isend(data, 1, TAG).unwrap()));
            });
            drop(data);
            endpoint.recv(&mut [0_u8], 1, END).unwrap();
        } else {
            let mut bytes = [0_u8; 5000];
            let outcome = endpoint.recv(&mut bytes[..10], 0, TAG);
            let told = matches!(
                outcome,
                Err(Error::Fault(Fault::Truncated { message: 5000, buffer: 10, .. }))
            );
            assert!(told, "{outcome:?}");
            // The receives are called for, or queued for a call, and then dropped.
            let (mut one, mut other) = ([0_u8; 5000], [0_u8; 5000]);
            endpoint.scope(|scope| {
                drop(scope.irecv(&mut one, 0, TAG).unwrap());
                drop(scope.irecv(&mut other, 0, TAG).unwrap());
            });
            for number in 3..6 {
                endpoint.recv(&mut bytes, 0, TAG).unwrap();
                assert_eq!(payload::first_difference(id(0, number), &bytes), None);
            }
            endpoint.send(&[0_u8], 0, END).unwrap();
        }
        world.finalize().unwrap();
    });
}

/// Two ranks leave while each keeps messages for the other that no receive will take.
fn leave_without_a_receive(job: Ranks) {
    job.with("STRAIT_UNEXPECTED_MAX", 0).run(|world| {
        let endpoint = world.endpoint();
        let data: Vec<_> = [8, 5000, 600_000].map(|length| vec![7_u8; length]).into();
        endpoint.scope(|scope| {
            for data in &data {
                drop(scope.isend(data, 1 - world.rank(), TAG).unwrap());
            }
        });
        endpoint.barrier().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn ranks_that_keep_messages_for_each_other_can_leave() {
    leave_without_a_receive(Ranks::new(2, "ranks_that_keep_messages_for_each_other_can_leave"));
}

#[test]
fn ranks_of_two_nodes_that_keep_messages_for_each_other_can_leave() {
    let name = "ranks_of_two_nodes_that_keep_messages_for_each_other_can_leave";
    leave_without_a_receive(Ranks::new(2, name).on_nodes(2));
}

/// The rank at the other end of offers dies: all offers end, whether they were called for or not.
#[test]
fn offers_end_with_their_peer() {
    const VICTIM: u32 = 1;
    fn told(outcome: Result<(), Error>) {
        let died = matches!(outcome, Err(Error::Fault(Fault::PeerFailed { rank: VICTIM, .. })));
        assert!(died, "{outcome:?}");
    }
    let job = Ranks::new(2, "offers_end_with_their_peer").with("STRAIT_UNEXPECTED_MAX", 0);
    job.with_deaths(&[VICTIM]).run(|world| {
        let endpoint = world.endpoint();
        let data = vec![7_u8; 5000];
        let mut rooms = vec![[0_u8; 5000]; 4];
        endpoint.scope(|scope| {
            let other = 1 - world.rank();
            let sends: Vec<_> = (0..8).map(|_| scope.isend(&data, other, TAG).unwrap()).collect();
            if world.rank() == VICTIM {
                // The offers are under way. The rank dies when it has been called, and does not
                // poll itself.
                let segment = segment(&world);
                while segment.flow(VICTIM, other).called().1 == 0 {
                    thread::yield_now();
                }
                die();
            }
            let receives = rooms.iter_mut().map(|room| scope.irecv(room, VICTIM, TAG).unwrap());
            let receives: Vec<_> = receives.collect();
            for request in sends.into_iter().chain(receives) {
                told(Request::wait(request).map(drop));
            }
        });
        told(endpoint.recv(&mut rooms[0], VICTIM, TAG).map(drop));
        told(endpoint.iprobe(VICTIM, TAG).map(drop));
        world.finalize().unwrap();
    });
}
