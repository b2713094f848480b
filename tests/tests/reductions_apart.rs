//! Reductions of vectors that lie apart from the results: the results are those of a plain loop,
//! and the vectors stay as they are.

use core::ops::Range;
use core::ptr::NonNull;

use strait::World;
use strait::bytemuck::{cast_slice, cast_slice_mut};
use strait::raw::{Operator, Part, RawBlocks, RawGroup as _, TypedOperator, in_pieces};

/// The map `x -> a x + b` modulo 2^32. The composition of maps is associative, not commutative.
type Map = [u32; 2];

fn compose(first: Map, second: Map) -> Map {
    [first[0].wrapping_mul(second[0]), first[1].wrapping_mul(second[0]).wrapping_add(second[1])]
}

/// An operation as an embedder writes it.
struct Plain;

impl Operator for Plain {
    fn element(&self) -> usize {
        size_of::<Map>()
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn with_higher(&self, mine: &mut [u8], theirs: &[u8]) {
        in_pieces(self.element(), mine, theirs, |mine, copy| {
            for (left, right) in maps(mine).iter_mut().zip(maps(copy)) {
                *left = compose(*left, *right);
            }
            copy.fill(0xEE);
        });
    }

    fn with_lower(&self, mine: &mut [u8], theirs: &[u8]) {
        for (right, left) in maps(mine).iter_mut().zip(cast_slice::<u8, Map>(theirs)) {
            *right = compose(*left, *right);
        }
    }
}

fn maps(bytes: &mut [u8]) -> &mut [Map] {
    cast_slice_mut(bytes)
}

fn vector(rank: u32, elements: usize) -> Vec<Map> {
    (0..elements as u32).map(|at| [2 * (at + rank) + 3, at.wrapping_mul(7 + rank) + 1]).collect()
}

fn expected(members: u32, elements: usize) -> Vec<Map> {
    let mut result = vector(0, elements);
    for rank in 1..members {
        for (left, right) in result.iter_mut().zip(vector(rank, elements)) {
            *left = compose(*left, right);
        }
    }
    result
}

fn part(maps: &mut [Map]) -> Part {
    let bytes: &mut [u8] = cast_slice_mut(maps);
    Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() }
}

/// Blocks of different lengths, one of them empty where there are more than two.
fn blocks(members: u32, elements: usize) -> Vec<Range<usize>> {
    let bytes = size_of::<Map>();
    let mut ends: Vec<usize> =
        (1..members as usize).map(|place| elements / 3 * place / 2).collect();
    ends.push(elements);
    ends.iter_mut().skip(2).take(1).for_each(|end| *end = elements / 3);
    ends.sort_unstable();
    let starts = core::iter::once(0).chain(ends.clone());
    starts.zip(ends).map(|(start, end)| start * bytes..end * bytes).collect()
}

fn reduce_everything(world: &World, elements: usize, op: &dyn Operator) {
    let (group, members, rank) = (world.endpoint().everyone(), world.size(), world.rank());
    let (mut own, result) = (vector(rank, elements), expected(members, elements));
    let own_part = part(&mut own);
    let ranges = blocks(members, elements);
    let block = ranges[rank as usize].clone();
    for root in 0..members {
        let mut at_root = vec![[9; 2]; elements];
        let place = (rank == root).then(|| part(&mut at_root));
        // SAFETY: the vectors outlive the call.
        unsafe { group.reduce_raw(Some(own_part), place, op, root) }.unwrap();
        assert!(rank != root || at_root == result, "reduce of {elements} to {root} of {members}");
    }
    let mut everywhere = vec![[9; 2]; elements];
    // SAFETY: as above.
    unsafe { group.allreduce_raw(Some(own_part), part(&mut everywhere), op) }.unwrap();
    assert!(everywhere == result, "allreduce of {elements} by {members}");
    let mut share = vec![[9; 2]; block.len() / size_of::<Map>()];
    // SAFETY: as above.
    unsafe {
        let into = part(&mut share);
        group.reduce_scatter_raw(Some(own_part), into, RawBlocks::Ranges(&ranges), op)
    }
    .unwrap();
    assert!(cast_slice::<Map, u8>(&share) == &cast_slice::<Map, u8>(&result)[block], "scattered");
    assert!(own == vector(rank, elements), "the vector has changed");
}

#[test]
fn vectors_apart_from_their_results_are_combined_in_order_and_kept() {
    for members in 2..=5 {
        World::run_in_process(members, |world| {
            let typed = TypedOperator::<Map, _>::new(compose)?;
            for elements in [1, 2, 3, 500, 8191, 8192, 8195, 40_001] {
                reduce_everything(world, elements, &typed);
                reduce_everything(world, elements, &Plain);
            }
            Ok(())
        })
        .unwrap();
    }
}
