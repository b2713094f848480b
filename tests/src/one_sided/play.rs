//! One rank's part of a program, and the judgement of the results.

use core::ptr::NonNull;
use std::io::{IoSlice, IoSliceMut};

use strait::raw::{Part, RawWindow as _};
use strait::{Accumulates, Assert, Error, Op, Shape, Window, World};

use super::model::{Did, is_possible};
use super::phase::{Access, Call, Ends, Look, NUMBERS, Phase};
use crate::payload;

/// Count of the numbers of a long accumulate. All but the first are not changed by it.
const LONG: usize = 40;

/// Bytes of a part before the loads: the numbers, and those that long accumulates also reach.
const HEAD: usize = 8 * (NUMBERS + LONG);

/// The context and tag of the messages to the judge.
const CONTEXT: u32 = 900;
const TAG: u32 = 1;

/// Plays `phases` phases of the program of `seed`, with loads of up to `longest` bytes.
///
/// # Panics
///
/// When a result is impossible; the panic names seed, phase and number.
pub fn run(world: &World, private: bool, seed: u64, phases: u32, longest: usize) {
    run_drawn(world, private, seed, (phases, longest), Phase::draw);
}

/// Plays a program in which all ranks do the same to each other, with shifted numbering.
///
/// # Panics
///
/// When a result is impossible; the panic names seed, phase and number.
pub fn run_mirrored(world: &World, private: bool, seed: u64, phases: u32, longest: usize) {
    run_drawn(world, private, seed, (phases, longest), Phase::draw_mirrored);
}

/// Draws a phase of a program for a number of ranks, with loads of a limited length in bytes.
type Draw = fn(seed: u64, number: u32, ranks: u32, longest: usize) -> Phase;

fn run_drawn(world: &World, private: bool, seed: u64, (phases, longest): (u32, usize), draw: Draw) {
    let (rank, ranks) = (world.rank(), world.size());
    // Room for each origin's load, with the gaps between its blocks.
    let room = 64 + 2 * longest;
    let still = HEAD + ranks as usize * room;
    let window = window(world, private, seed, still + 2 * longest);
    let bytes = payload::of(still_id(rank), 2 * longest);
    window.local().write(still, &bytes).expect("it lies in the part");
    world.endpoint().barrier().expect("no rank dies");
    // The judge's knowledge: the numbers of all parts.
    let mut numbers = vec![0_u64; ranks as usize * NUMBERS];
    for number in 0..phases {
        let phase = draw(seed, number, ranks, longest);
        let got = play(world, &window, &phase, room).expect("no rank dies");
        check_loads(&window, &phase, rank, room);
        let part = window.local();
        let own = (0..NUMBERS).map(|at| part.load::<u64>(8 * at).unwrap());
        let said: Vec<_> = own.chain(got).collect();
        if rank == 0 {
            let all = hear(world, &phase, &said);
            judge(&phase, &mut numbers, &all, &format!("seed {seed}, phase {number}: {phase:?}"));
        } else {
            world.endpoint().with_context(CONTEXT).send(&said, 0, TAG).unwrap();
        }
        // No rank begins the next phase while another still reads.
        world.endpoint().barrier().unwrap();
    }
    window.free().expect("no rank dies");
}

/// Returns the payload id of the bytes of a part that no rank changes.
fn still_id(rank: u32) -> u64 {
    u64::MAX - u64::from(rank)
}

/// Creates a window of all ranks. By the seed they promise that most accumulates are of single
/// numbers.
fn window(world: &World, private: bool, seed: u64, bytes: usize) -> Window<'_> {
    let all: Vec<_> = (0..world.size()).collect();
    let group = world.endpoint().group(&all).expect("a group of all");
    let accumulates = if seed.is_multiple_of(2) { Accumulates::Single } else { Accumulates::Any };
    let window = match private {
        true => {
            let memory = vec![0_u64; bytes.div_ceil(8)];
            Window::builder(&group).options(accumulates).over(memory)
        }
        false => Window::builder(&group).options(accumulates).allocate(bytes),
    };
    let window = window.expect("the window is made");
    // Between nodes, accumulates by handlers and by origins must be atomic towards each other.
    window.hand_over_above([0, 8, 64, usize::MAX][seed as usize / 2 % 4]);
    window
}

/// Collects the data of each rank: the numbers of its part, and the values that its calls returned.
fn hear(world: &World, phase: &Phase, own: &[u64]) -> Vec<Vec<u64>> {
    let endpoint = world.endpoint().with_context(CONTEXT);
    let mut all = vec![own.to_vec()];
    for rank in 1..world.size() {
        let gives = |access: &&Access| access.origin == rank && access.call.gives();
        let mut said = vec![0; NUMBERS + phase.accesses.iter().filter(gives).count()];
        endpoint.recv(&mut said, rank, TAG).unwrap();
        all.push(said);
    }
    all
}

/// Plays this rank's part of a phase. Returns the values that its calls returned.
fn play(world: &World, window: &Window<'_>, phase: &Phase, room: usize) -> Result<Vec<u64>, Error> {
    let (rank, mut kept) = (world.rank(), KeptBuffers::default());
    let got = match phase.ends {
        Ends::Fence => {
            window.fence(Assert::NO_PRECEDE)?;
            let got = operate(window, phase, rank, room, &mut kept)?;
            window.fence(Assert::NO_SUCCEED)?;
            got
        }
        Ends::Epochs { test } => {
            window.post(&phase.partners(rank, false), Assert::NONE)?;
            window.start(&phase.partners(rank, true), Assert::NONE)?;
            let got = operate(window, phase, rank, room, &mut kept)?;
            window.complete()?;
            while test && !window.test()? {
                core::hint::spin_loop();
            }
            if !test {
                window.wait()?;
            }
            // The judge needs all ranks to be done, not only this one.
            world.endpoint().barrier()?;
            got
        }
        Ends::Flush => {
            let got = operate(window, phase, rank, room, &mut kept)?;
            for target in phase.partners(rank, true) {
                window.flush(target)?;
            }
            world.endpoint().barrier()?;
            window.sync();
            got
        }
    };
    kept.check();
    Ok(got)
}

/// Buffers of operations that continue until the next synchronisation.
#[derive(Default)]
struct KeptBuffers {
    put: Vec<Vec<u8>>,
    /// The buffers of gets, with the bytes that they get.
    got: Vec<(Vec<u8>, Vec<u8>)>,
}

impl KeptBuffers {
    /// Checks the bytes of all gets. The synchronisation has returned.
    fn check(&self) {
        for (found, expected) in &self.got {
            assert!(found == expected, "bytes that no rank changes have changed");
        }
    }
}

/// Returns the memory of a buffer that stays where it is until the next synchronisation.
fn memory_of(buffer: &mut [u8]) -> Part {
    Part { base: NonNull::from(&mut *buffer).cast(), length: buffer.len() }
}

fn operate(
    window: &Window<'_>,
    phase: &Phase,
    rank: u32,
    room: usize,
    kept: &mut KeptBuffers,
) -> Result<Vec<u64>, Error> {
    let look = |after: usize, kept: &mut KeptBuffers| {
        let mut looks = phase.looks.iter().filter(|look| look.origin == rank);
        looks.try_for_each(|one| match one.after == after {
            true => look(window, one, room, kept),
            false => Ok(()),
        })
    };
    look(0, kept)?;
    for (number, load) in (1..).zip(phase.loads.iter().filter(|load| load.origin == rank)) {
        let data = payload::of(load.id, load.cut.length);
        let cut = load.cut.length / 3;
        let parts = [IoSlice::new(&data[..cut]), IoSlice::new(&data[cut..])];
        let place = HEAD + rank as usize * room + load.offset;
        load.cut.with(|shape| match shape {
            Shape::Contiguous { .. } if load.id % 4 == 0 => window.put(&data, load.target, place),
            Shape::Contiguous { .. } if load.id % 4 == 1 => {
                kept.put.push(data.clone());
                let memory = kept.put.last_mut().map(|data| memory_of(data)).expect("just pushed");
                // SAFETY: the vector keeps its memory until the synchronisation.
                unsafe { window.start_put(memory, load.target, place) }
            }
            shape => window.put_vectored(&parts, load.target, place, shape),
        })?;
        look(number, kept)?;
    }
    let mut got = Vec::new();
    for access in phase.accesses.iter().filter(|access| access.origin == rank) {
        let (target, place) = (access.target, 8 * access.number);
        match access.call {
            Call::Put(value) => window.put(&[value], target, place)?,
            Call::Get => {
                let mut found = [0];
                window.get(&mut found, target, place)?;
                got.extend(found);
            }
            Call::Accumulate(Op::Sum, operand)
                if operand % 4 < 2 && phase.is_without_puts_behind(target, access.number) =>
            {
                let mut operands = [0; LONG];
                operands[0] = operand;
                window.accumulate(&operands, target, place, Op::Sum)?;
            }
            Call::Fetch(Op::Sum, operand)
                if operand % 4 < 2 && phase.is_without_puts_behind(target, access.number) =>
            {
                let (mut operands, mut found) = ([0; LONG], [0; LONG]);
                operands[0] = operand;
                window.get_accumulate(&operands, &mut found, target, place, Op::Sum)?;
                got.push(found[0]);
            }
            Call::Accumulate(op, operand) if operand % 2 == 0 => {
                let one = Shape::Contiguous { length: 8 };
                window.accumulate_vectored(&[&[operand]], target, place, one, op)?;
            }
            Call::Accumulate(op, operand) => window.accumulate(&[operand], target, place, op)?,
            Call::Fetch(op, operand) if operand % 2 == 0 => {
                let mut found = [0];
                window.get_accumulate(&[operand], &mut found, target, place, op)?;
                got.extend(found);
            }
            Call::Fetch(op, operand) => got.push(window.fetch_and_op(operand, target, place, op)?),
            Call::Swap(compare, new) => {
                got.push(window.compare_and_swap(compare, new, target, place)?);
            }
        }
    }
    Ok(got)
}

/// Gets bytes that no rank changes, and checks them.
fn look(
    window: &Window<'_>,
    look: &Look,
    room: usize,
    kept: &mut KeptBuffers,
) -> Result<(), Error> {
    let Look { target, cut, after, .. } = *look;
    let still = HEAD + window.group().ranks().len() * room;
    let expected = payload::of(still_id(target), 2 * cut.length);
    let mut found = vec![0_u8; cut.length];
    cut.with(|shape| {
        let runs: Vec<_> = shape.runs().collect();
        match shape {
            Shape::Contiguous { .. } if (cut.length + after) % 2 == 0 => {
                kept.got.push((core::mem::take(&mut found), expected[..cut.length].to_vec()));
                let memory = kept.got.last_mut().map(|(found, _)| memory_of(found));
                let memory = memory.expect("just pushed");
                // SAFETY: the vector keeps its memory until the synchronisation.
                unsafe { window.start_get(memory, target, still) }?;
                return Ok(());
            }
            Shape::Contiguous { .. } => window.get(&mut found, target, still)?,
            shape => {
                let (first, second) = found.split_at_mut(cut.length / 3);
                let mut parts = [IoSliceMut::new(first), IoSliceMut::new(second)];
                window.get_vectored(&mut parts, target, still, shape)?;
            }
        }
        let expected = runs.iter().flat_map(|run| &expected[run.offset..run.offset + run.length]);
        assert!(expected.eq(&found), "bytes that no rank changes have changed: {look:?}");
        Ok(())
    })
}

/// Checks that every load has arrived in this rank's part.
fn check_loads(window: &Window<'_>, phase: &Phase, rank: u32, room: usize) {
    for load in phase.loads.iter().filter(|load| load.target == rank) {
        let place = HEAD + load.origin as usize * room + load.offset;
        let runs: Vec<_> = load.cut.with(|shape| shape.runs().collect());
        let mut found = Vec::new();
        for run in runs {
            let mut piece = vec![0_u8; run.length];
            window.local().read(place + run.offset, &mut piece).unwrap();
            found.extend(piece);
        }
        assert_eq!(payload::first_difference(load.id, &found), None, "{load:?}");
    }
}

/// Checks the data of all ranks against the possible outcomes. `numbers` are those before the
/// phase, and then those after.
pub(super) fn judge(phase: &Phase, numbers: &mut [u64], said: &[Vec<u64>], about: &str) {
    let mut given: Vec<_> = said.iter().map(|said| said[NUMBERS..].iter().copied()).collect();
    // The operations of each rank, by number.
    let mut did = vec![vec![Vec::new(); said.len()]; numbers.len()];
    for Access { origin, target, number, call } in &phase.accesses {
        let at = *target as usize * NUMBERS + number;
        let mut got = || given[*origin as usize].next().expect("an answer to each call");
        match *call {
            Call::Put(value) => {
                did[at][*origin as usize].push(Did::Accumulate(strait::Op::Replace, value));
            }
            Call::Get => did[at][*origin as usize].push(Did::Fetch(strait::Op::NoOp, 0, got())),
            Call::Accumulate(op, operand) => {
                did[at][*origin as usize].push(Did::Accumulate(op, operand));
            }
            Call::Fetch(op, operand) => {
                did[at][*origin as usize].push(Did::Fetch(op, operand, got()));
            }
            Call::Swap(compare, new) => {
                did[at][*origin as usize].push(Did::Swap(compare, new, got()));
            }
        }
    }
    for (at, did) in did.iter().enumerate() {
        let (target, number) = (at / NUMBERS, at % NUMBERS);
        let (start, end) = (numbers[at], said[target][number]);
        let possible = is_possible(start, did, end);
        assert!(possible, "number {number} of {target}: {start} to {end} by {did:?}; {about}");
        numbers[at] = end;
    }
}
