//! Accumulates that the target's handler carries out, between nodes.

use core::time::Duration;

use strait::{Accumulates, Assert, Error, Fault, Op, World};
use strait_tests::{Ranks, die, report};

/// More than one stripe, and not a whole number of them.
const COUNT: usize = 5000;

/// All ranks add to all at once, by handlers and by themselves.
fn all_add_to_all(world: &World, rounds: usize) {
    let (ranks, me) = (world.size(), world.rank());
    let window = world.endpoint().allocate_window(8 * (COUNT + 3), 8).unwrap();
    let operands: Vec<u64> = (0..COUNT as u64).map(|at| at + u64::from(me)).collect();
    window.fence(Assert::NO_PRECEDE).unwrap();
    for round in 0..rounds {
        // By the round: all of it handed over, or what does not end at a stripe's end, or nothing.
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
    for (ranks, device) in [(2, "soft-inline"), (4, "soft-inline"), (3, "soft-engine")] {
        let job = Ranks::new(ranks, "what_all_add_is_there_once").on_nodes(ranks.min(2));
        job.with("STRAIT_HCA", device).run(|world| {
            all_add_to_all(&world, 20);
            world.finalize().unwrap();
        });
    }
}

/// Each call sees what the ones before it left, whoever carried them out, and gets it in its place.
#[test]
fn operations_of_one_origin_are_in_order_and_give_what_was_there() {
    let name = "operations_of_one_origin_are_in_order_and_give_what_was_there";
    Ranks::new(2, name).on_nodes(2).run(|world| {
        let window = world.endpoint().create_window(vec![1_i32; 6000], 4).unwrap();
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

/// The target computes, and its progress thread is its handler.
#[test]
fn a_progress_thread_carries_out_what_is_handed_over() {
    let name = "a_progress_thread_carries_out_what_is_handed_over";
    Ranks::new(2, name).on_nodes(2).with("STRAIT_PROGRESS", "thread").run(|world| {
        let window = world.endpoint().allocate_window(1 << 16, 8).unwrap();
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

/// Windows come and go, more than there are receives for, and those that promise single numbers hand nothing over.
#[test]
fn windows_come_and_go() {
    Ranks::new(2, "windows_come_and_go").on_nodes(2).run(|world| {
        let all = world.endpoint().group(&[0, 1]).unwrap();
        for round in 0..200_usize {
            let promise = [Accumulates::Any, Accumulates::Single][round % 2];
            let window = all.allocate_window_for(64, 8, promise).unwrap();
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

/// Whoever waits for the handler of a rank that has died is told, and handlers go on for the others.
#[test]
fn who_waits_for_a_dead_handler_is_told() {
    let name = "who_waits_for_a_dead_handler_is_told";
    Ranks::new(3, name).on_nodes(3).with_deaths(&[1]).within(Duration::from_secs(60)).run(
        |world| {
            let window = world.endpoint().allocate_window(1 << 16, 8).unwrap();
            window.hand_over_above(0);
            window.fence(Assert::NONE).unwrap();
            if world.rank() == 1 {
                die();
            }
            report("after its death");
            let failed = loop {
                let added = window.accumulate(&[1_u64; 4096], 1, 0, Op::Sum);
                if let Err(error) = added.and_then(|()| window.flush(1)) {
                    break error;
                }
            };
            assert!(matches!(failed, Error::Fault(Fault::PeerFailed { rank: 1 })), "{failed:?}");
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
