//! Dynamic windows: attached and detached memory of either kind, on a node and between nodes.

use core::ptr::NonNull;
use std::io::IoSlice;

use fastrand::Rng;
use strait::boot::SegmentConfig;
use strait::raw::RawWindow as _;
use strait::{Assert, Attached, Error, Nodes, Op, Shape, Window, WindowError, World};
use strait_core::rma::ATTACHMENTS;
use strait_tests::{Ranks, threads_on};

fn window(world: &World) -> Window<'_> {
    let all: Vec<_> = (0..world.size()).collect();
    Window::builder(&world.endpoint().group(&all).unwrap()).dynamic().unwrap()
}

/// Attaches memory in the segment, or private memory.
fn attach(world: &World, window: &Window<'_>, private: bool, words: usize) -> Attached {
    match private {
        true => window.attach(vec![0_u64; words]).unwrap(),
        false => window.attach(world.alloc::<u64>(words).unwrap()).unwrap(),
    }
}

/// Exchanges a number between all ranks and returns the numbers by rank.
fn tell(world: &World, own: usize) -> Vec<usize> {
    let mut all = vec![0_u64; world.size() as usize];
    all[world.rank() as usize] = own as u64;
    world.endpoint().allreduce(&mut all, Op::Sum).unwrap();
    all.into_iter().map(|said| said as usize).collect()
}

#[track_caller]
fn assert_stale<T: core::fmt::Debug>(done: Result<T, Error>, of: u32) {
    let stale = matches!(
        done,
        Err(Error::Window(WindowError::Detached { target, .. })) if target == of
    );
    assert!(stale, "{done:?}");
}

/// All ranks access the memory that all have attached, in rounds of new memory.
fn come_and_go(world: &World, private: bool) {
    let (window, me, ranks) = (window(world), world.rank(), world.size());
    for round in 0..5_u64 {
        let attached = attach(world, &window, private, 2000);
        let spots = tell(world, attached.displacement());
        let addresses = tell(world, attached.address());
        for target in 0..ranks {
            let (spot, address) = (spots[target as usize], addresses[target as usize]);
            window.put(&[round, u64::from(me)], target, spot + 16 * me as usize).unwrap();
            // An address alone is enough.
            window.accumulate(&[1_u64; 500], target, address + 8000, Op::Sum).unwrap();
            window.fetch_and_op(1_u64, target, spot + 8000, Op::Sum).unwrap();
            let each = Shape::Strided { count: 2, block: 8, stride: 4008 };
            window.accumulate_vectored(&[&[1_u64, 1]], target, spot + 7992, each, Op::Max).unwrap();
        }
        window.fence(Assert::NONE).unwrap();
        let local = window.attached(&attached).unwrap();
        assert_eq!(local.len(), 16_000);
        for origin in 0..ranks {
            let mut found = [0_u64; 2];
            local.read(16 * origin as usize, &mut found).unwrap();
            assert_eq!(found, [round, u64::from(origin)]);
        }
        assert_eq!(local.load(7992), Ok(1_u64));
        assert_eq!(local.load(8000), Ok(2 * u64::from(ranks)));
        assert_eq!(local.load(8008), Ok(u64::from(ranks)));
        let next = (me + 1) % ranks;
        let mut found = [0_u64; 2];
        window.get(&mut found, next, spots[next as usize] + 16 * me as usize).unwrap();
        assert_eq!(found, [round, u64::from(me)]);
        let beyond = spots[next as usize] + 15_996;
        assert_stale(window.get(&mut [0_u64], next, beyond), next);
        world.endpoint().barrier().unwrap();
        window.detach(attached).unwrap();
        assert_stale(window.detach(attached), me);
        assert!(window.attached(&attached).is_err());
        world.endpoint().barrier().unwrap();
        for target in 0..ranks {
            assert_stale(window.put(&[1_u8], target, spots[target as usize]), target);
            assert_stale(
                window.fetch_and_op(1_u64, target, spots[target as usize], Op::Sum),
                target,
            );
        }
        // An operation that was refused leaves the window usable.
        world.endpoint().barrier().unwrap();
    }
    window.free().unwrap();
}

#[test]
fn processes_reach_what_is_attached_and_nothing_else() {
    for (ranks, nodes) in [(3, 1), (2, 2), (4, 2)] {
        let job = Ranks::new(ranks, "processes_reach_what_is_attached_and_nothing_else");
        job.on_nodes(nodes).run(|world| {
            come_and_go(&world, false);
            come_and_go(&world, true);
            world.finalize().unwrap();
        });
    }
}

/// The new attachment has the address of the old one. The old displacement is an error
/// nevertheless.
#[test]
fn an_old_displacement_is_not_taken_for_a_new_one() {
    for nodes in [1, 2] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, nodes).unwrap(), |world| {
            let window = window(&world);
            let mut memory = vec![0_u64; 8];
            let base = core::ptr::NonNull::from(&mut memory[..]).cast();
            // SAFETY: the memory is detached before it is used by its name again, and no rank
            // accesses it then.
            let attach = || unsafe { window.attach_over(base, 64) }.unwrap();
            let old = attach();
            window.detach(old).unwrap();
            let new = attach();
            assert_eq!(old.address(), new.address());
            let (old_spots, spots) =
                (tell(&world, old.displacement()), tell(&world, new.displacement()));
            let other = 1 - world.rank();
            assert_stale(window.put(&[9_u64], other, old_spots[other as usize]), other);
            window.put(&[5_u64], other, spots[other as usize] + 8).unwrap();
            window.put(&[6_u64], other, tell(&world, new.address())[other as usize] + 16).unwrap();
            window.fence(Assert::NONE).unwrap();
            assert_eq!(window.attached(&new).unwrap().load(8), Ok(5_u64));
            window.detach(new).unwrap();
            window.free().unwrap();
            assert_eq!(memory, [0, 5, 6, 0, 0, 0, 0, 0]);
        });
    }
}

/// Number of pieces of the buffer that each rank attaches, and numbers in each piece.
const PIECES: usize = 300;
const WORDS: usize = 16;

/// Attaches most pieces of a buffer, in random order and equally at all ranks. Returns for each
/// piece whether it is a gap.
fn attach_pieces(window: &Window<'_>, rng: &mut Rng, base: NonNull<u8>) -> Vec<bool> {
    let gaps: Vec<_> = (0..PIECES).map(|_| rng.u8(..8) == 0).collect();
    let mut order: Vec<_> = (0..PIECES).filter(|piece| !gaps[*piece]).collect();
    rng.shuffle(&mut order);
    for piece in order {
        // SAFETY: the piece lies in the buffer, which outlives the window.
        unsafe { window.attach_over(base.add(piece * WORDS * 8), WORDS * 8) }.unwrap();
    }
    gaps
}

/// Each rank attaches the pieces of one buffer, between them some gaps. An access reaches over
/// neighbouring pieces, but over no gap.
#[test]
fn accesses_span_neighbouring_attachments_but_no_gap() {
    for nodes in [1, 2] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, nodes).unwrap(), |world| {
            let window = window(&world);
            let mut rng = Rng::with_seed(0x5eed);
            let mut memory: Vec<u64> = (0..PIECES * WORDS).map(|at| at as u64).collect();
            let base = NonNull::from(&mut memory[..]).cast::<u8>();
            let gaps = attach_pieces(&window, &mut rng, base);
            let other = 1 - world.rank();
            let start = tell(&world, base.addr().get())[other as usize];
            for _ in 0..400 {
                let from = rng.usize(..PIECES * WORDS);
                let longest = PIECES * WORDS - from;
                let length = rng.usize(1..=3 * WORDS).min(longest);
                let mut found = vec![u64::MAX; length];
                let got = window.get(&mut found, other, start + from * 8);
                let mut pieces = from / WORDS..=(from + length - 1) / WORDS;
                if pieces.any(|piece| gaps[piece]) {
                    assert_stale(got, other);
                } else {
                    got.unwrap();
                    assert!(found.iter().copied().eq((from as u64..).take(length)));
                }
            }
            window.free().unwrap();
        });
    }
}

/// Random operations of all kinds over pieces without gaps have the effect that they have on one
/// attachment.
#[test]
fn all_operations_span_attachments() {
    for (nodes, seed) in [(1, 1), (2, 2), (2, 3)] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, nodes).unwrap(), move |world| {
            let window = window(&world);
            let mut rng = Rng::with_seed(seed);
            let mut memory = vec![0_u64; PIECES * WORDS];
            let base = NonNull::from(&mut memory[..]).cast::<u8>();
            let mut model = vec![0_u64; PIECES * WORDS];
            let gaps = attach_pieces(&window, &mut rng, base);
            let other = 1 - world.rank();
            let start = tell(&world, base.addr().get())[other as usize];
            for step in 0..600_u64 {
                let from = rng.usize(..PIECES * WORDS);
                let length = rng.usize(1..=5 * WORDS).min(PIECES * WORDS - from);
                if (from / WORDS..=(from + length - 1) / WORDS).any(|piece| gaps[piece]) {
                    continue;
                }
                let (at, before) = (start + from * 8, model[from..from + length].to_vec());
                let data: Vec<u64> = (0..length as u64).map(|word| step << 32 | word).collect();
                match rng.u8(..6) {
                    0 => window.put(&data, other, at).unwrap(),
                    1 => world.endpoint().scope(|scope| {
                        scope.rput(&window, &data, other, at).unwrap().wait().unwrap();
                    }),
                    2 => {
                        let bytes: Vec<_> =
                            data.iter().flat_map(|word| word.to_ne_bytes()).collect();
                        let parts = bytes.split_at(length / 2 * 8 + 4);
                        let parts = [IoSlice::new(parts.0), IoSlice::new(parts.1)];
                        let shape = Shape::Contiguous { length: length * 8 };
                        window.put_vectored(&parts, other, at, shape).unwrap();
                    }
                    3 => window.accumulate(&data, other, at, Op::Replace).unwrap(),
                    4 => {
                        let mut found = vec![0; length];
                        let replace = Op::Replace;
                        window.get_accumulate(&data, &mut found, other, at, replace).unwrap();
                        assert_eq!(found, before);
                    }
                    _ => {
                        let mut found = vec![0; length];
                        window.flush(other).unwrap();
                        world.endpoint().scope(|scope| {
                            scope.rget(&window, &mut found, other, at).unwrap().wait().unwrap();
                        });
                        assert_eq!(found, before);
                        continue;
                    }
                }
                model[from..from + length].copy_from_slice(&data);
                window.flush(other).unwrap();
            }
            window.fence(Assert::NONE).unwrap();
            window.free().unwrap();
            // Both ranks made the same changes.
            assert_eq!(memory, model);
        });
    }
}

/// An accumulate over two attachments and one on the second of them exclude each other.
#[test]
fn accumulates_over_attachments_take_the_locks_of_each() {
    const PIECE: usize = 3 * 16 * 1024;
    const TIMES: u64 = 60_000;
    for nodes in [1, 2] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, nodes).unwrap(), move |world| {
            let window = window(&world);
            let mut memory = vec![0_u64; 2 * PIECE / 8];
            let base = NonNull::from(&mut memory[..]).cast::<u8>();
            for piece in [0, PIECE] {
                // SAFETY: the piece lies in the memory, which outlives the window.
                unsafe { window.attach_over(base.add(piece), PIECE) }.unwrap();
            }
            let second = tell(&world, base.addr().get() + PIECE)[0];
            let times = if nodes == 1 { TIMES } else { TIMES / 200 };
            for _ in 0..times {
                let (numbers, at) = if world.rank() == 0 { (2, second - 8) } else { (1, second) };
                window.accumulate(&[1_u64; 2][..numbers], 0, at, Op::Sum).unwrap();
            }
            // A number that lies in two attachments would be under two locks.
            let mut cut = [0_u64; 3];
            let base = NonNull::from(&mut cut[..]).cast::<u8>();
            for piece in [0, 12] {
                // SAFETY: the piece lies in the memory, which outlives the window.
                unsafe { window.attach_over(base.add(piece), 12) }.unwrap();
            }
            let middle = tell(&world, base.addr().get() + 8)[0];
            let refused = [
                window.fetch_and_op(1_u64, 0, middle, Op::Sum).map(drop),
                window.accumulate(&[1_u64; 2], 0, middle, Op::Sum),
            ];
            for refused in refused {
                let is_refused =
                    matches!(refused, Err(Error::Window(WindowError::Alignment { .. })));
                assert!(is_refused, "{refused:?}");
            }
            window.put(&[7_u64], 0, middle).unwrap();
            window.fence(Assert::NONE).unwrap();
            window.free().unwrap();
            if world.rank() == 0 {
                assert_eq!(memory[PIECE / 8 - 1..][..2], [times, 2 * times]);
                assert_eq!(cut, [0, 7, 0]);
            }
        });
    }
}

#[test]
fn so_much_is_attached_at_a_time_and_to_dynamic_windows_alone() {
    for nodes in [1, 2] {
        threads_on(SegmentConfig::new(2), &Nodes::blocks(2, nodes).unwrap(), |world| {
            let window = window(&world);
            let full = |window: &Window<'_>| {
                let refused = window.attach(vec![0_u8; 8]);
                assert!(matches!(refused, Err(Error::Window(WindowError::Attachments))));
            };
            // Empty memory is not registered with the device, which has room for fewer regions.
            let attach = |at| window.attach(vec![0_u8; if at < 300 { at } else { 0 }]).unwrap();
            let all: Vec<_> = (0..ATTACHMENTS).map(attach).collect();
            full(&window);
            window.detach(all[5]).unwrap();
            let last = window.attach(vec![1_u8; 100]).unwrap();
            full(&window);
            assert_eq!(window.attached(&last).unwrap().load(99), Ok(1_u8));
            let spots = tell(&world, last.displacement());
            for target in [0, 1] {
                let mut found = [0_u8; 100];
                window.get(&mut found, target, spots[target as usize]).unwrap();
                assert_eq!(found, [1; 100]);
            }
            assert!(window.local().is_empty() && window.mapped(0).is_none());
            world.endpoint().barrier().unwrap();
            window.free().unwrap();
            let other = Window::builder(world.endpoint()).allocate(8).unwrap();
            full(&other);
            assert!(other.detach(last).is_err());
            other.free().unwrap();
        });
    }
}
