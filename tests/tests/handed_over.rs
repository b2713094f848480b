//! Accumulates between nodes that the target's active-message handler carries out.

use core::time::Duration;

use strait::{Accumulates, Assert, Error, Fault, Op, Window, World};
use strait_tests::{Ranks, one_dies, report};

/// Number of elements: more than one stripe, and not a whole number of stripes.
const COUNT: usize = 5000;

/// All ranks add to all at once, by handlers and by their own accesses.
fn all_add_to_all(world: &World, rounds: usize) {
    let (ranks, me) = (world.size(), world.rank());
    let window = Window::builder(world.endpoint()).unit(8).allocate(8 * (COUNT + 3)).unwrap();
    let operands: Vec<u64> = (0..COUNT as u64).map(|at| at + u64::from(me)).collect();
    window.fence(Assert::NO_PRECEDE).unwrap();
    for round in 0..rounds {
        // By the round, handlers carry out the long accumulate (of 40,000 bytes), or origins do.
        window.hand_over_above([0, 2000, usize::MAX][(round + me as usize) % 3]);
        for target in 0..ranks {
            window.accumulate(&operands, target, 3, Op::Sum).unwrap();
            window.fetch_and_op(1_u64, target, 1, Op::Sum).unwrap();
        }
    }
    window.fence(Assert::NONE).unwrap();
    let (rounds, origins) = (rounds as u64, u64::from(ranks));
    let mut found = vec![0_u64; COUNT + 3];
    window.local().read(0, &mut found).unwrap();
    assert_eq!(found[..3], [0, rounds * origins, 0]);
    let expected = |at: u64| rounds * (at * origins + origins * (origins - 1) / 2);
    assert!(found[3..].iter().zip(0..).all(|(sum, at)| *sum == expected(at)));
    window.free().unwrap();
}

#[test]
fn what_all_add_is_there_once() {
    let jobs = [(2, "soft-inline"), (4, "soft-inline"), (3, "soft-engine"), (4, "soft-iwarp")];
    for (ranks, device) in jobs {
        let job = Ranks::new(ranks, "what_all_add_is_there_once").on_nodes(ranks.min(2));
        job.with("STRAIT_HCA", device).run(|world| {
            all_add_to_all(&world, 20);
            world.finalize().unwrap();
        });
    }
}

/// Accumulates by ranks on the part's node, by its owner and by ranks on other nodes are atomic
/// towards each other. `cargo xtask vm` runs this test over RDMA devices, too; over iWARP only
/// handlers accumulate.
#[test]
fn all_atomics_go_over_the_device_of_the_job() {
    let name = "all_atomics_go_over_the_device_of_the_job";
    Ranks::new(4, name).on_nodes(2).within(Duration::from_secs(120)).run(|world| {
        all_add_to_all(&world, 4);
        all_swap(&world, 30);
        world.finalize().unwrap();
    });
}

/// All ranks count by compare-and-swap, and by sums that return the previous value: no two ranks
/// get the same number.
fn all_swap(world: &World, rounds: u64) {
    let (ranks, me) = (u64::from(world.size()), world.rank());
    let window = Window::builder(world.endpoint()).unit(8).over(vec![0_u64; 4]).unwrap();
    window.fence(Assert::NO_PRECEDE).unwrap();
    let mut last = None;
    for _ in 0..rounds {
        let mut seen = 0_u32;
        while let found = window.compare_and_swap(seen, seen + 1, 0, 1).unwrap()
            && found != seen
        {
            seen = found;
        }
        let ticket = window.fetch_and_op(1_i16, 1, 3, Op::Sum).unwrap();
        assert!(last.replace(ticket) < Some(ticket), "{last:?} and then {ticket}");
        window.accumulate(&[1.5_f64], 0, 2, Op::Sum).unwrap();
    }
    window.fence(Assert::NONE).unwrap();
    let part = window.local();
    match me {
        0 => assert_eq!(
            (part.load(8), part.load(16)),
            (Ok((rounds * ranks) as u32), Ok(1.5 * (rounds * ranks) as f64))
        ),
        1 => assert_eq!(part.load(24), Ok((rounds * ranks) as i16)),
        _ => {}
    }
    window.free().unwrap();
}

/// Runs the atomics without those of the device; also in a dynamic window, where the handler knows
/// the attached memory.
#[test]
fn all_atomics_go_by_handlers_alone() {
    let job = Ranks::new(4, "all_atomics_go_by_handlers_alone").on_nodes(2);
    job.with("STRAIT_HCA", "soft-iwarp").run(|world| {
        all_swap(&world, 300);
        let (ranks, me) = (world.size() as usize, world.rank());
        let all: Vec<_> = (0..world.size()).collect();
        let window = Window::builder(&world.endpoint().group(&all).unwrap()).dynamic().unwrap();
        for round in 0..20_i64 {
            let own = window.attach(vec![round; 2 * ranks]).unwrap();
            let mut places = vec![0_u64; ranks];
            places[me as usize] = own.displacement() as u64;
            window.group().allreduce(&mut places, Op::BitOr).unwrap();
            // Of the ranks that swap the last number of a part, exactly one finds its initial
            // value.
            let mut swapped = vec![0_u64; ranks];
            for target in 0..world.size() {
                let place = places[target as usize] as usize;
                window.accumulate(&vec![1_i64; ranks], target, place + 8, Op::Sum).unwrap();
                window.fetch_and_op(1_i64, target, place + 8, Op::Sum).unwrap();
                let last = place + 8 * (2 * ranks - 1);
                let found = window.compare_and_swap(round, -1, target, last).unwrap();
                swapped[target as usize] = u64::from(found == round);
            }
            window.group().allreduce(&mut swapped, Op::Sum).unwrap();
            assert_eq!(swapped, vec![1; ranks]);
            window.fence(Assert::NONE).unwrap();
            let part = window.attached(&own).unwrap();
            let all = ranks as i64;
            assert_eq!((part.load(0), part.load(8)), (Ok(round), Ok(round + 2 * all)));
            assert_eq!(part.load(16), Ok(round + all));
            window.detach(own).unwrap();
            window.fence(Assert::NONE).unwrap();
        }
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

/// Each call sees the results of the calls before it, wherever they were carried out, and returns
/// the value at its place in the order.
#[test]
fn operations_of_one_origin_are_in_order_and_give_what_was_there() {
    for device in ["soft-inline", "soft-iwarp"] {
        in_order(device);
    }
}

fn in_order(device: &str) {
    let name = "operations_of_one_origin_are_in_order_and_give_what_was_there";
    Ranks::new(2, name).on_nodes(2).with("STRAIT_HCA", device).run(|world| {
        let window = Window::builder(world.endpoint()).unit(4).over(vec![1_i32; 6000]).unwrap();
        window.fence(Assert::NONE).unwrap();
        if world.rank() == 0 {
            let operands: Vec<i32> = (0..6000).collect();
            let mut found = vec![0_i32; 6000];
            let mut expected = vec![1_i32; 6000];
            for round in 0..12 {
                window.hand_over_above(if round % 3 == 2 { usize::MAX } else { 16 });
                let op = [Op::Sum, Op::Max, Op::BitXor, Op::Replace, Op::NoOp][round % 5];
                window.get_accumulate(&operands, &mut found, 1, 0, op).unwrap();
                assert_eq!(found, expected, "round {round}");
                for (number, operand) in expected.iter_mut().zip(&operands) {
                    match op {
                        Op::Sum => *number += operand,
                        Op::Max => *number = (*number).max(*operand),
                        Op::BitXor => *number ^= operand,
                        Op::Replace => *number = *operand,
                        _ => {}
                    }
                }
                window.accumulate(&operands[..9], 1, 7, Op::Sum).unwrap();
                expected[7..16].iter_mut().zip(&operands).for_each(|(to, more)| *to += more);
            }
            window.flush(1).unwrap();
            window.get(&mut found, 1, 0).unwrap();
            assert_eq!(found, expected);
        }
        window.fence(Assert::NONE).unwrap();
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

/// The target computes, and its progress thread runs its handler.
#[test]
fn a_progress_thread_carries_out_what_is_handed_over() {
    let name = "a_progress_thread_carries_out_what_is_handed_over";
    Ranks::new(2, name).on_nodes(2).with("STRAIT_PROGRESS", "thread").run(|world| {
        let window = Window::builder(world.endpoint()).unit(8).allocate(1 << 16).unwrap();
        window.hand_over_above(0);
        window.fence(Assert::NONE).unwrap();
        if world.rank() == 1 {
            let part = window.local();
            while part.load::<u64>(0).unwrap() != 7 {
                core::hint::spin_loop();
            }
            window.sync();
            assert_eq!(part.load(8), Ok(30_u64));
        } else {
            for _ in 0..10 {
                window.accumulate(&[3_u64; 4000], 1, 1, Op::Sum).unwrap();
            }
            window.flush(1).unwrap();
            window.put(&[7_u64], 1, 0).unwrap();
            window.flush(1).unwrap();
        }
        window.fence(Assert::NONE).unwrap();
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

/// Creates and frees more windows than there are receives for. Windows that promise single numbers
/// use no handler.
#[test]
fn windows_come_and_go() {
    Ranks::new(2, "windows_come_and_go").on_nodes(2).run(|world| {
        let all = world.endpoint().group(&[0, 1]).unwrap();
        for round in 0..200_usize {
            let promise = [Accumulates::Any, Accumulates::Single][round % 2];
            let window = Window::builder(&all).unit(8).options(promise).allocate(64).unwrap();
            window.hand_over_above(0);
            window.fence(Assert::NO_PRECEDE).unwrap();
            window.accumulate(&[1_u64, 2, 3], 1 - world.rank(), 2, Op::Sum).unwrap();
            window.fence(Assert::NONE).unwrap();
            assert_eq!(window.local().load(24), Ok(2_u64));
            window.free().unwrap();
        }
        drop(all);
        world.finalize().unwrap();
    });
}

/// A rank that waits for the handler of a dead rank gets an error, and handlers continue for the
/// others.
#[test]
fn waits_for_a_dead_handler_fail() {
    let name = "waits_for_a_dead_handler_fail";
    Ranks::new(3, name).on_nodes(3).with_deaths(&[1]).within(Duration::from_secs(60)).run(
        |world| {
            let window = Window::builder(world.endpoint()).unit(8).allocate(1 << 16).unwrap();
            window.hand_over_above(0);
            window.fence(Assert::NONE).unwrap();
            one_dies(&world, 1);
            report("after its death");
            let failed = loop {
                let added = window.accumulate(&[1_u64; 4096], 1, 0, Op::Sum);
                if let Err(error) = added.and_then(|()| window.flush(1)) {
                    break error;
                }
            };
            assert!(
                matches!(failed, Error::Fault(Fault::PeerFailed { rank: 1, .. })),
                "{failed:?}"
            );
            let other = 2 - world.rank();
            window.accumulate(&[5_u64; 4096], other, 0, Op::Sum).unwrap();
            window.flush(other).unwrap();
            window.flush_all().unwrap();
            world.endpoint().group(&[0, 2]).unwrap().barrier().unwrap();
            assert_eq!(window.local().load(8 * 4095), Ok(5_u64));
            drop(window);
            world.finalize().unwrap();
        },
    );
}
