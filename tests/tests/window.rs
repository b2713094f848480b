//! Windows: the behaviour of each kind of part and each operation, and the calls that are refused.

use std::io::{IoSlice, IoSliceMut};

use strait::boot::SegmentConfig;
use strait::{
    Accumulates, Assert, AtomicityDomain, ByteRun, Error, Group, Nodes, Op, RmaOperation, Shape,
    Window, WindowError, World,
};
use strait_tests::{Ranks, in_one_thread, payload, threads, threads_on};

/// The ways to make a window with a part of `bytes` bytes for each rank.
const KINDS: [fn(&World, usize) -> Window<'_>; 4] = [
    |world, bytes| Window::builder(world.endpoint()).allocate(bytes).unwrap(),
    |world, bytes| Window::builder(world.endpoint()).allocate_shared(bytes).unwrap(),
    |world, bytes| Window::builder(world.endpoint()).over(vec![0_u64; bytes / 8]).unwrap(),
    |world, bytes| {
        let memory = world.alloc::<u64>(bytes / 8).unwrap();
        // One part lies in the segment, the others are private.
        match world.rank() {
            0 => Window::builder(world.endpoint()).over(memory).unwrap(),
            _ => Window::builder(world.endpoint())
                .over(vec![0_u8; bytes].into_boxed_slice())
                .unwrap(),
        }
    },
];

/// The ways that also work between nodes, without and with a promise.
const BETWEEN_NODES: [fn(&World, usize) -> Window<'_>; 4] = [
    KINDS[0],
    KINDS[3],
    |world, bytes| {
        Window::builder(&all(world)).options(Accumulates::Single).allocate(bytes).unwrap()
    },
    |world, bytes| {
        Window::builder(&all(world))
            .options(Accumulates::Single)
            .over(vec![0_u64; bytes / 8])
            .unwrap()
    },
];

fn all(world: &World) -> Group<'_> {
    world.endpoint().group(&(0..world.size()).collect::<Vec<_>>()).unwrap()
}

/// Returns the kinds of windows that reach all ranks of this job.
fn kinds(world: &World) -> &'static [fn(&World, usize) -> Window<'_>] {
    if world.nodes().count() > 1 { &BETWEEN_NODES } else { &KINDS }
}

/// Every rank writes to and reads from every part, at places of its own.
fn put_and_get(world: &World, window: &Window<'_>) {
    const ROOM: usize = 100_000;
    let (me, ranks) = (world.rank() as usize, world.size() as usize);
    for length in [0, 1, 2, 4, 7, 8, 33, 1000, 4096, 70_001] {
        let id = |from: usize, to: usize| ((length * 10 + from) * 10 + to) as u64;
        for target in 0..ranks {
            let data = payload::of(id(me, target), length);
            window.put(&data, target as u32, me * ROOM + length % 8).unwrap();
        }
        window.fence(Assert::NONE).unwrap();
        let mut found = vec![0_u8; length];
        for origin in 0..ranks {
            let place = origin * ROOM + length % 8;
            window.local().read(place, &mut found).unwrap();
            assert_eq!(payload::first_difference(id(origin, me), &found), None);
            for target in 0..ranks {
                window.get(&mut found, target as u32, place).unwrap();
                assert_eq!(payload::first_difference(id(origin, target), &found), None);
            }
        }
        window.fence(Assert::NONE).unwrap();
    }
}

#[test]
fn every_rank_reaches_every_part_of_every_kind() {
    let devices = [(1, "soft-inline"), (2, "soft-inline"), (3, "soft-engine"), (2, "soft-iwarp")];
    for (nodes, device) in devices {
        let job = Ranks::new(3, "every_rank_reaches_every_part_of_every_kind").on_nodes(nodes);
        job.with("STRAIT_HCA", device).run(|world| {
            for make in kinds(&world) {
                let window = make(&world, 304_000);
                put_and_get(&world, &window);
                window.free().unwrap();
            }
            world.finalize().unwrap();
        });
    }
}

/// `cargo xtask vm` runs this test over RDMA devices, too.
#[test]
fn other_nodes_are_reached_through_the_device_of_the_job() {
    let name = "other_nodes_are_reached_through_the_device_of_the_job";
    Ranks::new(4, name).on_nodes(2).run(|world| {
        let window = Window::builder(world.endpoint()).allocate(404_000).unwrap();
        put_and_get(&world, &window);
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn domains_are_the_same_for_all_and_only_what_is_handed_over_needs_the_target() {
    threads(SegmentConfig::new(3), |world| {
        for (make, domain) in KINDS.iter().zip([true, true, false, false]) {
            let window = make(&world, 64);
            let processor = window.atomicity() == AtomicityDomain::Processor;
            assert_eq!(processor, domain);
            let all = [
                RmaOperation::Put,
                RmaOperation::Get,
                RmaOperation::Accumulate,
                RmaOperation::FetchAndOp,
            ];
            assert!(!all.into_iter().any(|operation| window.needs_target(operation)));
            window.free().unwrap();
        }
    });
    threads_on(SegmentConfig::new(3), &Nodes::named([0, 1, 0]), |world| {
        let domains = [AtomicityDomain::Locks, AtomicityDomain::Device];
        for (make, domain) in BETWEEN_NODES.iter().zip(domains.iter().flat_map(|each| [each; 2])) {
            let window = make(&world, 64);
            assert_eq!(window.atomicity(), *domain);
            // The target carries out long accumulates, unless the window uses no handler.
            let needs = [true, false].map(|hands_over| {
                window.hand_over_above(if hands_over { 64 } else { usize::MAX });
                window.needs_target(RmaOperation::Accumulate)
            });
            assert_eq!(needs, [*domain == AtomicityDomain::Locks, false]);
            assert!(!window.needs_target(RmaOperation::FetchAndOp));
            assert_eq!(window.mapped(1).is_some(), world.rank() == 1);
            window.free().unwrap();
        }
        // One member that does not promise is enough.
        let promise = [Accumulates::Single, Accumulates::Any][usize::from(world.rank() == 1)];
        let window = Window::builder(&all(&world)).options(promise).allocate(64).unwrap();
        assert_eq!(window.atomicity(), AtomicityDomain::Locks);
        window.free().unwrap();
        let error = Window::builder(world.endpoint()).allocate_shared(64).unwrap_err();
        assert!(matches!(error, Error::Window(WindowError::OtherNode { .. })), "{error}");
        world.finalize().unwrap();
    });
}

/// Where a device has no atomics, handlers carry out all atomic operations, whatever was promised
/// and however short they are.
#[test]
fn without_atomics_of_the_device_all_that_is_atomic_needs_the_target() {
    let name = "without_atomics_of_the_device_all_that_is_atomic_needs_the_target";
    Ranks::new(3, name).on_nodes(2).with("STRAIT_HCA", "soft-iwarp").run(|world| {
        for make in BETWEEN_NODES {
            let window = make(&world, 64);
            assert_eq!(window.atomicity(), AtomicityDomain::Locks);
            for most in [0, usize::MAX] {
                window.hand_over_above(most);
                let needs = [
                    RmaOperation::Put,
                    RmaOperation::Get,
                    RmaOperation::Accumulate,
                    RmaOperation::FetchAndOp,
                ]
                .map(|operation| window.needs_target(operation));
                assert_eq!(needs, [false, false, true, true]);
            }
            window.free().unwrap();
        }
        // On one node no device is used.
        let node = world.nodes().node_of(world.rank()).unwrap();
        let near: Vec<_> =
            (0..3).filter(|rank| world.nodes().node_of(*rank) == Some(node)).collect();
        let window = Window::builder(&world.endpoint().group(&near).unwrap()).allocate(64).unwrap();
        assert_eq!(window.atomicity(), AtomicityDomain::Processor);
        assert!(!window.needs_target(RmaOperation::FetchAndOp));
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn parts_of_a_shared_window_follow_each_other() {
    Ranks::new(3, "parts_of_a_shared_window_follow_each_other").run(|world| {
        let bytes = [24, 0, 1000][world.rank() as usize];
        let window = Window::builder(world.endpoint()).allocate_shared(bytes).unwrap();
        let parts = [0, 1, 2].map(|place| window.mapped(place).unwrap());
        assert_eq!(parts.map(|part| part.len()), [24, 0, 1000]);
        assert!(parts[1].is_empty());
        assert_eq!(parts[2].as_ptr().addr() - parts[0].as_ptr().addr(), 24);
        let stored = window.local().store(0, world.rank());
        let is_refused = matches!(stored, Err(WindowError::Bounds { .. }));
        assert_eq!(is_refused, world.rank() == 1, "{stored:?}");
        window.fence(Assert::NONE).unwrap();
        assert_eq!(parts[2].load::<u32>(0), Ok(2));
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn runs_of_any_shape_meet_buffers_of_any_parts() {
    for nodes in [1, 2] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, nodes).unwrap(), |world| {
            for make in kinds(&world) {
                let window = make(&world, 4096);
                let target = 1 - world.rank();
                let data: Vec<u8> = (0..240).map(|byte| byte as u8 + 1).collect();
                let cuts = [&data[..7], &[], &data[7..100], &data[100..]];
                let runs: Vec<_> =
                    (0..80).map(|run| ByteRun { offset: 4 * run, length: 3 }).collect();
                let shapes =
                    [Shape::Strided { count: 80, block: 3, stride: 4 }, Shape::Runs(&runs)];
                for (number, shape) in shapes.into_iter().enumerate() {
                    let displacement = 1024 * (number + 1);
                    window
                        .put_vectored(&cuts.map(IoSlice::new), target, displacement, shape)
                        .unwrap();
                    window.fence(Assert::NONE).unwrap();
                    let mut expected = vec![0_u8; 320];
                    for (at, byte) in data.iter().enumerate() {
                        expected[at / 3 * 4 + at % 3] = *byte;
                    }
                    let mut found = vec![0_u8; 320];
                    window.local().read(displacement, &mut found).unwrap();
                    assert_eq!(found, expected);
                    let mut back = vec![0_u8; 240];
                    let (first, second) = back.split_at_mut(101);
                    let mut parts = [IoSliceMut::new(first), IoSliceMut::new(second)];
                    window.get_vectored(&mut parts, target, displacement, shape).unwrap();
                    assert_eq!(back, data);
                    window.fence(Assert::NONE).unwrap();
                    let sums = [&[1_u8; 100][..], &[1; 140]];
                    window
                        .accumulate_vectored(&sums, target, displacement, shape, Op::Sum)
                        .unwrap();
                    window.fence(Assert::NONE).unwrap();
                    let mut parts = [IoSliceMut::new(&mut back)];
                    window.get_vectored(&mut parts, target, displacement, shape).unwrap();
                    assert!(
                        back.iter().zip(&data).all(|(now, before)| *now == before.wrapping_add(1))
                    );
                    window.fence(Assert::NONE).unwrap();
                }
                window.free().unwrap();
            }
            world.finalize().unwrap();
        });
    }
}

#[test]
fn accumulates_of_many_origins_add_up() {
    for (nodes, device) in [(1, "soft-inline"), (2, "soft-inline"), (2, "soft-iwarp")] {
        let job = Ranks::new(4, "accumulates_of_many_origins_add_up").on_nodes(nodes);
        job.with("STRAIT_HCA", device).run(|world| {
            for make in kinds(&world) {
                let window = make(&world, 1 << 16);
                // A handler takes more time.
                let rounds = if window.needs_target(RmaOperation::FetchAndOp) { 50 } else { 500 };
                // Far enough from the start to cross the border of two locks.
                let border = 16 * 1024 - 3 * 8;
                for round in 0..rounds {
                    window.accumulate(&[1_i64, 2, 3, 4, 5, 6], 0, border, Op::Sum).unwrap();
                    window.fetch_and_op(0.5_f64, 1, 8, Op::Sum).unwrap();
                    let mut seen = 0_u8;
                    loop {
                        let found =
                            window.compare_and_swap(seen, seen.wrapping_add(1), 2, 5).unwrap();
                        if found == seen {
                            break;
                        }
                        seen = found;
                    }
                    let mut before = [0_u16; 2];
                    window.get_accumulate(&[1_u16, 1], &mut before, 3, 2, Op::Sum).unwrap();
                    assert!(u32::from(before[1]) >= round, "{before:?}");
                }
                window.fence(Assert::NONE).unwrap();
                let all = i64::from(4 * rounds);
                let mut sums = [0_i64; 6];
                window.get(&mut sums, 0, border).unwrap();
                assert_eq!(sums, [1, 2, 3, 4, 5, 6].map(|each| each * all));
                assert_eq!(window.fetch_and_op(0.0, 1, 8, Op::NoOp).unwrap(), all as f64 / 2.0);
                assert_eq!(window.fetch_and_op(0_u8, 2, 5, Op::NoOp).unwrap(), all as u8);
                assert_eq!(window.fetch_and_op(0_u16, 3, 4, Op::NoOp).unwrap(), all as u16);
                window.free().unwrap();
            }
            world.finalize().unwrap();
        });
    }
}

/// Compares every operation on every type, in one part of each kind, with plain arithmetic.
fn all_operations<T: strait::Number + PartialEq + core::fmt::Debug>(
    window: &Window<'_>,
    start: [T; 3],
    operand: T,
) {
    for op in Op::ALL {
        window.put(&start, 0, 64).unwrap();
        let mut before = start.map(|_| operand);
        let combined =
            T::function(op).map(|function| start.map(|number| function(number, operand)));
        let result = window.get_accumulate(&[operand; 3], &mut before, 0, 64, op);
        let Some(combined) = combined else {
            let is_refused = matches!(result, Err(Error::Window(WindowError::Operation { .. })));
            assert!(is_refused, "{result:?}");
            assert!(window.accumulate(&[operand], 0, 64, op).is_err());
            continue;
        };
        assert_eq!((result.is_ok(), before), (true, start), "{op:?} of {}", T::NAME);
        let mut found = before;
        window.get(&mut found, 0, 64).unwrap();
        assert_eq!(found, combined, "{op:?} of {}", T::NAME);
        let twice = T::function(op).map(|function| function(combined[0], operand));
        assert_eq!(window.fetch_and_op(operand, 0, 64, op).unwrap(), combined[0]);
        assert_eq!(Some(window.fetch_and_op(operand, 0, 64, Op::NoOp).unwrap()), twice);
    }
}

#[test]
fn every_operation_works_on_every_type() {
    threads(SegmentConfig::new(1), |world| {
        let private = Window::builder(world.endpoint()).over(vec![0_u64; 32]).unwrap();
        for window in [KINDS[0](&world, 256), private] {
            every_type(&window);
            window.free().unwrap();
        }
    });
    threads_on(SegmentConfig::new(2), &Nodes::blocks(2, 2).unwrap(), |world| {
        for make in BETWEEN_NODES {
            let window = make(&world, 256);
            // Once from another rank, once by the target itself.
            for origin in 0..2 {
                if world.rank() == origin {
                    every_type(&window);
                }
                window.fence(Assert::NONE).unwrap();
            }
            window.free().unwrap();
        }
        world.finalize().unwrap();
    });
}

fn every_type(window: &Window<'_>) {
    all_operations(window, [-5_i8, 0, 127], 3);
    all_operations(window, [-5_i16, 0, i16::MAX], 3);
    all_operations(window, [-5_i32, 0, i32::MAX], -3);
    all_operations(window, [-5_i64, 0, i64::MIN], -3);
    all_operations(window, [5_u8, 0, 255], 3);
    all_operations(window, [5_u16, 0, 65_535], 3);
    all_operations(window, [5_u32, 0, u32::MAX], 3);
    all_operations(window, [5_u64, 0, u64::MAX], 3);
    all_operations(window, [1.5_f32, 0.0, -2.0], 0.25);
    all_operations(window, [1.5_f64, 0.0, -2.0], 0.25);
}

#[test]
fn displacements_count_in_units_of_the_target() {
    threads(SegmentConfig::new(2), |world| {
        let unit = [4, 16][world.rank() as usize];
        let window = Window::builder(world.endpoint()).unit(unit).allocate(160).unwrap();
        assert_eq!(window.shape_of(1), Ok((160, 16)));
        let target = 1 - world.rank();
        window.put(&[world.rank() + 1], target, 3).unwrap();
        window.fence(Assert::NONE).unwrap();
        assert_eq!(window.local().load::<u32>(3 * unit), Ok(2 - world.rank()));
        let refused = [
            window.put(&[0_u8; 4], 1, 10).unwrap_err(),
            window.put(&[0_u8; 33], 1, 8).unwrap_err(),
            window.get(&mut [0_u8], 1, usize::MAX).unwrap_err(),
            window.get(&mut [0_u8], 1, usize::MAX / 16).unwrap_err(),
            window.fetch_and_op(1_u8, 1, 10, Op::Sum).unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, Error::Window(WindowError::Bounds { .. })), "{error}");
            assert!(error.to_string().contains("target 1, which has 160 bytes"), "{error}");
        }
        let far = Shape::Strided { count: 2, block: 1, stride: usize::MAX };
        let error = window.put_vectored(&[IoSlice::new(&[1, 2])], 1, 0, far).unwrap_err();
        assert!(matches!(error, Error::Window(WindowError::Bounds { .. })), "{error}");
        window.free().unwrap();
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    in_one_thread(SegmentConfig::new(1), |worlds| {
        let window = Window::builder(worlds[0].endpoint()).allocate(64).unwrap();
        let error = |result: Result<(), Error>| match result {
            Err(Error::Window(error)) => error,
            other => panic!("{other:?}"),
        };
        let refused = [
            (error(window.put(&[1_u8], 1, 0)), "target 1 has no place in a window of 1"),
            (error(window.flush(7)), "target 7 has no place"),
            (
                error(window.accumulate(&[1_u32], 0, 2, Op::Sum)),
                "atomic u32 does not lie at byte 2",
            ),
            (error(window.accumulate(&[1_u32, 2], 0, 2, Op::Sum)), "byte 2"),
            (
                error(window.accumulate(&[1.0_f32], 0, 0, Op::BitAnd)),
                "BitAnd is not defined for f32",
            ),
            (error(window.accumulate(&[1.0_f32; 2], 0, 0, Op::Xor)), "Xor is not defined for f32"),
            (error(window.get_accumulate(&[1; 2], &mut [0; 1], 0, 0, Op::Sum)), "8 bytes for 4"),
            (
                error(window.put_vectored(
                    &[IoSlice::new(&[1; 5])],
                    0,
                    0,
                    Shape::Contiguous { length: 4 },
                )),
                "5 bytes for 4",
            ),
            (error(window.wait()), "wait without an epoch"),
            (error(window.test().map(drop)), "without an epoch"),
            (error(window.complete()), "complete without an epoch"),
            (error(window.post(&[1], Assert::NONE)), "target 1 has no place"),
        ];
        for (error, text) in refused {
            assert!(error.to_string().contains(text), "{error}");
        }
        window.start(&[0], Assert::NONE).unwrap();
        assert_eq!(
            error(window.start(&[0], Assert::NONE)),
            WindowError::EpochOpen { call: "start" }
        );
        window.post(&[0], Assert::NONE).unwrap();
        assert_eq!(error(window.post(&[0], Assert::NONE)), WindowError::EpochOpen { call: "post" });
        window.put(&[1_u8], 0, 63).unwrap();
        assert!(!window.test().unwrap());
        window.complete().unwrap();
        assert!(window.test().unwrap());
        let mut all = [0_u8; 64];
        window.local().read(0, &mut all).unwrap();
        assert_eq!((&all[..63], all[63]), (&[0; 63][..], 1));
        window.free().unwrap();
    });
}

#[test]
fn a_window_that_one_member_cannot_make_fails_for_all() {
    for nodes in [1, 2] {
        let config = SegmentConfig { heap_bytes: 1 << 20, ..SegmentConfig::new(3) };
        threads_on(config, &Nodes::blocks(3, nodes).unwrap(), |world| {
            for victim in 0..3 {
                let bytes = if world.rank() == victim { 2 << 20 } else { 64 };
                let error = Window::builder(world.endpoint()).allocate(bytes).unwrap_err();
                let is_own = matches!(error, Error::Segment(_));
                let is_theirs =
                    matches!(error, Error::Window(WindowError::Member { rank }) if rank == victim);
                assert!(if world.rank() == victim { is_own } else { is_theirs }, "{error}");
                let unit = usize::from(world.rank() != victim);
                let error =
                    Window::builder(world.endpoint()).unit(unit).over(vec![0_u8; 9]).unwrap_err();
                assert_eq!(error.to_string().contains("at least 1 byte"), unit == 0, "{error}");
            }
            // The failed call kept no memory.
            assert_eq!(world.alloc::<u8>(1 << 20).unwrap().len(), 1 << 20);
            let window = Window::builder(world.endpoint()).allocate(64).unwrap();
            window.fence(Assert::NONE).unwrap();
            window.free().unwrap();
            world.finalize().unwrap();
        });
    }
}

#[test]
fn windows_of_groups_and_several_at_once() {
    for nodes in [Nodes::one(4), Nodes::named([0, 0, 1, 1]), Nodes::named([0, 1, 1, 1])] {
        threads_on(SegmentConfig::new(4), &nodes, |world| {
            let (even, place) = (world.rank() % 2, world.rank() / 2);
            let group = world.endpoint().group(&[even, even + 2]).unwrap();
            let first = Window::builder(&group).allocate(8).unwrap();
            let second = Window::builder(&group).allocate(8).unwrap();
            first.put(&[u64::from(world.rank()) + 1], 1 - place, 0).unwrap();
            second.put(&[u64::from(world.rank()) + 11], 1 - place, 0).unwrap();
            first.fence(Assert::NONE).unwrap();
            second.fence(Assert::NONE).unwrap();
            let other = u64::from(group.ranks()[1 - place as usize]);
            assert_eq!(first.local().load(0), Ok(other + 1));
            assert_eq!(second.local().load(0), Ok(other + 11));
            second.free().unwrap();
            first.free().unwrap();
            drop(group);
            world.finalize().unwrap();
        });
    }
}
