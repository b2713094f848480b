//! Windows by messages (the send/receive based design): the behaviour that only this design has.

use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{
    ANY_TAG, Assert, AtomicityDomain, Error, LockDesign, LockType, Nodes, Op, RmaOperation, Shape,
    Window, WindowDesign, WindowError, World, wait_all,
};
use strait_tests::{payload, threads, threads_on};

const SEND_RECV: WindowDesign = WindowDesign::SendRecv;

fn window(world: &World, bytes: usize) -> Window<'_> {
    let all: Vec<_> = (0..world.size()).collect();
    let group = world.endpoint().group(&all).unwrap();
    Window::builder(&group).options(SEND_RECV).allocate(bytes).unwrap()
}

/// Runs `check` on one node, and on as many nodes as there are ranks.
fn run(ranks: u32, check: impl Fn(World) + Copy + Send + Sync + 'static) {
    threads(SegmentConfig::new(ranks), check);
    threads_on(SegmentConfig::new(ranks), &Nodes::named(0..ranks), check);
}

#[test]
fn nothing_begins_before_the_synchronisation() {
    run(2, |world| {
        let (window, endpoint) = (window(&world, 64 << 10), world.endpoint());
        // One put is longer than the data that a message carries along, the other operations are
        // shorter.
        let data = vec![7_u8; 40 << 10];
        if world.rank() == 0 {
            window.start(&[1], Assert::NONE).unwrap();
            window.put(&data, 1, 0).unwrap();
            window.put(&[9_u8], 1, 50_000).unwrap();
            window.accumulate(&[3_u64, 4], 1, 50_008, Op::Sum).unwrap();
            endpoint.send(&[1_u8], 1, 0).unwrap();
            endpoint.recv(&mut [0_u8], 1, 0).unwrap();
            window.complete().unwrap();
        } else {
            window.post(&[0], Assert::NONE).unwrap();
            endpoint.recv(&mut [0_u8], 0, 0).unwrap();
            let part = window.local();
            for _ in 0..100 {
                assert!(!window.test().unwrap());
                assert_eq!((part.load(0), part.load(50_000)), (Ok(0_u8), Ok(0_u8)));
            }
            endpoint.send(&[1_u8], 0, 0).unwrap();
            window.wait().unwrap();
            assert_eq!((part.load(0), part.load((40 << 10) - 1)), (Ok(7_u8), Ok(7_u8)));
            assert_eq!((part.load(50_000), part.load(50_016)), (Ok(9_u8), Ok(4_u64)));
        }
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn what_gives_something_back_does_so_when_its_call_returns() {
    run(3, |world| {
        let window = window(&world, 200_000);
        let (me, next) = (world.rank(), (world.rank() + 1) % 3);
        window.fence(Assert::NONE).unwrap();
        // All ranks ask the next rank and are asked, at the same time.
        let data = payload::of(me.into(), 100_000);
        window.put(&data, next, 8).unwrap();
        let mut found = vec![0_u8; 100_000];
        window.get(&mut found, next, 8).unwrap();
        assert_eq!(found, data);
        assert_eq!(window.fetch_and_op(5_i16, next, 2, Op::Max).unwrap(), 0);
        assert_eq!(window.fetch_and_op(0.5_f32, next, 4, Op::Sum).unwrap(), 0.0);
        assert_eq!(window.compare_and_swap(5_i16, -6, next, 2).unwrap(), 5);
        assert_eq!(window.compare_and_swap(5_i16, -7, next, 2).unwrap(), -6);
        // Operands that a message does not carry along, and the previous contents.
        let operands: Vec<u32> = (0..20_000).collect();
        let mut before = vec![1_u32; 20_000];
        window.accumulate(&operands, next, 100_008, Op::Replace).unwrap();
        window.get_accumulate(&operands, &mut before, next, 100_008, Op::Sum).unwrap();
        assert_eq!(before, operands);
        let every_other = Shape::Strided { count: 50, block: 4, stride: 8 };
        let mut blocks = vec![0_u8; 200];
        let mut into = [std::io::IoSliceMut::new(&mut blocks)];
        window.get_vectored(&mut into, next, 100_008, every_other).unwrap();
        let expected = (0..50_u32).flat_map(|number| (4 * number).to_le_bytes());
        assert!(blocks.iter().copied().eq(expected));
        window.fence(Assert::NONE).unwrap();
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

/// A request is complete when its wait returns, without a synchronisation.
#[test]
fn a_request_is_complete_when_its_wait_returns() {
    run(2, |world| {
        let (window, endpoint) = (window(&world, 400_000), world.endpoint());
        let (id, other) = (world.rank().into(), 1 - world.rank());
        let data = payload::of(id, 300_000);
        let (mut long, mut short) = (vec![0_u8; 300_000], [0_u8; 10]);
        endpoint.scope(|scope| {
            let put = scope.rput(&window, &data, other, 0).unwrap();
            let long = scope.rget(&window, &mut long, other, 0).unwrap();
            let short = scope.rget(&window, &mut short, other, 3).unwrap();
            wait_all(&mut [short, long, put]).unwrap();
        });
        assert_eq!((&long, &short[..]), (&data, &data[3..13]));
        window.fence(Assert::NONE).unwrap();
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

/// Sends more operations than can be under way at a time, to a rank that polls late.
#[test]
fn too_much_for_one_message_goes_in_several() {
    run(2, |world| {
        let window = window(&world, 4 << 20);
        window.fence(Assert::NONE).unwrap();
        if world.rank() == 0 {
            for at in 0..1 << 10 {
                window.put(&[at as u32; 1 << 10], 1, at << 12).unwrap();
            }
            window.flush(1).unwrap();
        }
        window.fence(Assert::NONE).unwrap();
        if world.rank() == 1 {
            let part = window.local();
            assert!((0..1 << 20).all(|at| part.load(4 * at) == Ok((at >> 10) as u32)));
        }
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn locks_are_those_of_managers() {
    run(3, |world| {
        let window = window(&world, 64);
        assert_eq!(window.lock_design(), LockDesign::TwoSided);
        for round in 0..50_u64 {
            let target = (round % 3) as u32;
            let lock = if round % 2 == 0 { LockType::Exclusive } else { LockType::Shared };
            window.lock(lock, target, Assert::NONE).unwrap();
            let mut found = [0_u64];
            if lock == LockType::Exclusive {
                // The read is not atomic, but no other rank is in the part.
                window.get(&mut found, target, 0).unwrap();
                window.put(&[found[0] + 1], target, 0).unwrap();
            } else {
                window.accumulate(&[2_u64], target, 8, Op::Sum).unwrap();
                window.flush(target).unwrap();
                window.get(&mut found, target, 8).unwrap();
                assert!(found[0] > 0);
            }
            window.unlock(target).unwrap();
        }
        world.endpoint().barrier().unwrap();
        let of = |parity| (0..50).filter(|at| at % 2 == parity && at % 3 == world.rank()).count();
        let part = window.local();
        assert_eq!(part.load(0), Ok(3 * of(0) as u64));
        assert_eq!(part.load(8), Ok(6 * of(1) as u64));
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn a_window_says_what_it_is() {
    run(2, |world| {
        let by_messages = window(&world, 64);
        assert_eq!(by_messages.design(), SEND_RECV);
        assert_eq!(by_messages.atomicity(), AtomicityDomain::Processor);
        assert!(by_messages.needs_target(RmaOperation::Put));
        assert!(by_messages.mapped(1 - world.rank()).is_none());
        let plain = Window::builder(world.endpoint()).allocate(64).unwrap();
        assert_eq!(plain.design(), WindowDesign::Rdma);
        assert!(!plain.needs_target(RmaOperation::Put));
        let beyond = by_messages.put(&[0_u8; 65], 1 - world.rank(), 0).unwrap_err();
        assert!(matches!(beyond, Error::Window(WindowError::Bounds { .. })), "{beyond}");
        let odd = by_messages.accumulate(&[1_u32; 2], 1 - world.rank(), 2, Op::Sum).unwrap_err();
        assert!(matches!(odd, Error::Window(WindowError::Alignment { .. })), "{odd}");
        plain.free().unwrap();
        by_messages.free().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn members_that_disagree_have_no_window() {
    run(2, |world| {
        let group = world.endpoint().group(&[0, 1]).unwrap();
        let design = WindowDesign::ALL[world.rank() as usize];
        let refused = Window::builder(&group).options(design).allocate(64).unwrap_err();
        assert!(matches!(refused, Error::Window(WindowError::Design { rank: 1 })), "{refused}");
        Window::builder(&group).options(SEND_RECV).allocate(64).unwrap().free().unwrap();
        drop(group);
        world.finalize().unwrap();
    });
}

/// Creates and frees windows while messages for all of them are under way.
#[test]
fn windows_do_not_mix() {
    run(2, |world| {
        let other = 1 - world.rank();
        for round in 0..20_u64 {
            let windows = [window(&world, 64), window(&world, 64), window(&world, 64)];
            for (at, window) in (0_u64..).zip(&windows) {
                window.fence(Assert::NONE).unwrap();
                window.put(&[100 * round + at], other, 8).unwrap();
            }
            for window in windows.iter().rev() {
                window.fence(Assert::NONE).unwrap();
            }
            for (at, window) in (0_u64..).zip(windows) {
                assert_eq!(window.local().load(8), Ok(100 * round + at));
                window.free().unwrap();
            }
        }
        world.finalize().unwrap();
    });
}

/// Blocks between nodes that go packed in a window of the other design: with every synchronisation,
/// and beside operations of the device.
#[test]
fn packed_blocks_are_there_after_each_synchronisation() {
    const BLOCKS: usize = 300;
    threads_on(SegmentConfig::new(2), &Nodes::named(0..2), |world| {
        let window = Window::builder(world.endpoint()).allocate(16 * BLOCKS).unwrap();
        let (me, other) = (world.rank(), 1 - world.rank());
        let shape = Shape::Strided { count: BLOCKS, block: 5, stride: 16 };
        window.pack_up_to(5);
        assert!(
            window.needs_target(RmaOperation::Blocks) && !window.needs_target(RmaOperation::Put)
        );
        window.fence(Assert::NO_PRECEDE).unwrap();
        for round in 0..12_usize {
            let data: Vec<u8> = (0..5 * BLOCKS).map(|at| (at + round) as u8 ^ me as u8).collect();
            let put = || {
                let parts =
                    [std::io::IoSlice::new(&data[..77]), std::io::IoSlice::new(&data[77..])];
                window.put_vectored(&parts, other, 0, shape).unwrap();
                window.put(&[round as u8], other, 8).unwrap();
            };
            if round % 3 == 0 {
                put();
                window.fence(Assert::NONE).unwrap();
            } else if round % 3 == 1 {
                window.post(&[other], Assert::NONE).unwrap();
                window.start(&[other], Assert::NONE).unwrap();
                put();
                window.complete().unwrap();
                window.wait().unwrap();
            } else {
                window.lock(LockType::Shared, other, Assert::NONE).unwrap();
                put();
                window.unlock(other).unwrap();
                world.endpoint().barrier().unwrap();
            }
            let part = window.local();
            for at in 0..5 * BLOCKS {
                let expected = (at + round) as u8 ^ other as u8;
                assert_eq!(part.load(at / 5 * 16 + at % 5), Ok(expected), "round {round}");
            }
            assert_eq!(part.load(8), Ok(round as u8));
            let mut found = vec![0_u8; 5 * BLOCKS];
            let mut into = [std::io::IoSliceMut::new(&mut found)];
            window.get_vectored(&mut into, other, 0, shape).unwrap();
            assert_eq!(found, data);
            window.fence(Assert::NONE).unwrap();
        }
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

/// Sends a byte to the other of two ranks, and receives its byte.
fn meet(world: &World) {
    let (endpoint, other) = (world.endpoint(), 1 - world.rank());
    endpoint.send(&[1_u8], other, 0).unwrap();
    endpoint.recv(&mut [0_u8], other, 0).unwrap();
}

/// Does puts and an accumulate, longer and shorter than the data that a message carries along.
fn operate(window: &Window<'_>, target: u32) {
    window.put(&vec![1_u8; 300_000], target, 0).unwrap();
    window.put(&[2_u8; 8], target, 0).unwrap();
    window.accumulate(&vec![3_u8; 100_000], target, 300_000, Op::Sum).unwrap();
}

/// The actions of rank 1 on a window that rank 0 drops with operations under way.
const ENDS: [fn(&World, Window<'_>); 4] = [
    |world, _window| meet(world),
    |world, window| {
        operate(&window, 0);
        meet(world);
    },
    // Rank 0 leaves only when this rank has carried out its operations.
    |world, window| {
        meet(world);
        while !window.local().load::<u8>(399_999).is_ok_and(|found| found == 3) {
            world.endpoint().iprobe(ANY_SOURCE, ANY_TAG).unwrap();
        }
    },
    // Rank 0 never frees the window, so this rank cannot free it either.
    |world, window| {
        meet(world);
        assert_eq!(window.free().unwrap_err().gone_peer(), Some(0));
    },
];

/// A program that drops a window is incorrect, but must end: leaving sends the records that name
/// the long data.
#[test]
fn a_rank_leaves_with_operations_that_it_has_not_flushed() {
    for end in ENDS {
        run(2, move |world| {
            let window = window(&world, 400_000);
            if world.rank() == 0 {
                operate(&window, 1);
                meet(&world);
                drop(window);
            } else {
                end(&world, window);
            }
            world.finalize().unwrap();
        });
    }
}
