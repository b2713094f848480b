//! Flattening a datatype by its envelope and its contents (MPI-5.0 §5.1.13).
//!
//! The large-count forms serve every type where a host has them. The others fail for types that
//! were made by large-count functions.

use core::ffi::c_int;

use super::super::flat::FlatType;
use super::super::host::{self, has};
use crate::abi::{self, Handle};

/// Result of a host's function.
fn check(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// What a constructor was called with.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) combiner: c_int,
    /// Small numbers.
    ints: Vec<i64>,
    /// Addresses and displacements.
    aints: Vec<i64>,
    pub(super) types: Vec<Handle>,
}

/// Returns a type without structure, and whether it is predefined.
pub(super) fn flatten(datatype: Handle) -> Result<(FlatType, bool), c_int> {
    let contents = contents(datatype)?;
    let (lower, extent) = extent(datatype)?;
    let is_predefined = contents.combiner == abi::COMBINER_NAMED;
    let mut flat = match contents.combiner {
        abi::COMBINER_NAMED
        | abi::COMBINER_F90_REAL
        | abi::COMBINER_F90_COMPLEX
        | abi::COMBINER_F90_INTEGER => FlatType::predefined(size(datatype)?, lower, extent),
        _ => built(&contents)?,
    };
    (flat.lower, flat.extent) = (lower, extent);
    Ok((flat, is_predefined))
}

/// Returns the runs of a type that a constructor made. Frees the types in `contents`.
fn built(contents: &Contents) -> Result<FlatType, c_int> {
    let mut parts = Vec::with_capacity(contents.types.len());
    let mut result = Ok(());
    for datatype in &contents.types {
        match flatten(*datatype) {
            Ok((flat, _)) => parts.push(flat),
            Err(code) => result = Err(code),
        }
        free(*datatype);
    }
    result?;
    let mut flat = FlatType::default();
    compose(&mut flat, contents, &parts).ok_or(abi::ERR_INTERN)?;
    Ok(flat)
}

/// Frees a type that contents returned, unless it is predefined.
pub(super) fn free(mut datatype: Handle) {
    if let Ok(Contents { combiner, .. }) = envelope(datatype)
        && ![
            abi::COMBINER_NAMED,
            abi::COMBINER_F90_REAL,
            abi::COMBINER_F90_COMPLEX,
            abi::COMBINER_F90_INTEGER,
        ]
        .contains(&combiner)
    {
        // SAFETY: the handle is ours: contents made it.
        unsafe { host::Type_free(&raw mut datatype) };
    }
}

/// Adds the elements of `parts` as the constructor places them. The order of the arguments is that
/// of MPI-5.0 §5.1.13.
fn compose(flat: &mut FlatType, contents: &Contents, parts: &[FlatType]) -> Option<()> {
    let Contents { combiner, ints, aints, .. } = contents;
    let first = parts.first()?;
    let extent = first.extent;
    match *combiner {
        abi::COMBINER_DUP | abi::COMBINER_RESIZED => flat.push_elements(0, 1, first),
        abi::COMBINER_CONTIGUOUS => flat.push_elements(0, *ints.first()?, first),
        abi::COMBINER_VECTOR => {
            let &[count, length, stride] = ints.get(..3)? else { return None };
            blocks(flat, first, (0..count).map(|n| (n * stride * extent, length)));
        }
        abi::COMBINER_HVECTOR => {
            // The stride is an address; the large-count form has it among the counts.
            let (&[count, length], stride) = (ints.get(..2)?, aints.first().or(ints.get(2))?)
            else {
                return None;
            };
            blocks(flat, first, (0..count).map(|n| (n * stride, length)));
        }
        abi::COMBINER_INDEXED => {
            let count = usize::try_from(*ints.first()?).ok()?;
            let (lengths, places) = (ints.get(1..=count)?, ints.get(1 + count..=2 * count)?);
            blocks(flat, first, places.iter().map(|at| at * extent).zip(lengths.iter().copied()));
        }
        abi::COMBINER_HINDEXED => {
            let count = usize::try_from(*ints.first()?).ok()?;
            let lengths = ints.get(1..=count)?;
            let places = displacements(contents, count, 1 + count)?;
            blocks(flat, first, places.iter().copied().zip(lengths.iter().copied()));
        }
        abi::COMBINER_INDEXED_BLOCK => {
            let &[count, length] = ints.get(..2)? else { return None };
            let places = ints.get(2..2 + usize::try_from(count).ok()?)?;
            blocks(flat, first, places.iter().map(|at| (at * extent, length)));
        }
        abi::COMBINER_HINDEXED_BLOCK => {
            let &[count, length] = ints.get(..2)? else { return None };
            let places = displacements(contents, usize::try_from(count).ok()?, 2)?;
            blocks(flat, first, places.iter().map(|at| (*at, length)));
        }
        abi::COMBINER_STRUCT => {
            let count = usize::try_from(*ints.first()?).ok()?;
            let lengths = ints.get(1..=count)?;
            let places = displacements(contents, count, 1 + count)?;
            for ((length, at), part) in lengths.iter().zip(places).zip(parts) {
                flat.push_elements(*at, *length, part);
            }
        }
        abi::COMBINER_SUBARRAY => subarray(flat, ints, first)?,
        abi::COMBINER_DARRAY => darray(flat, ints, first)?,
        _ => return None,
    }
    Some(())
}

/// Returns `count` displacements, which the large-count form has among the counts from `from` on.
fn displacements(contents: &Contents, count: usize, from: usize) -> Option<&[i64]> {
    contents.aints.get(..count).or_else(|| contents.ints.get(from..from + count))
}

/// Adds blocks of elements, each a displacement in bytes and a number of elements.
fn blocks(flat: &mut FlatType, part: &FlatType, blocks: impl Iterator<Item = (i64, i64)>) {
    blocks.for_each(|(at, length)| flat.push_elements(at, length, part));
}

/// Adds the elements of a box in an array. The dimensions vary fastest from the last on, or from
/// the first on.
fn subarray(flat: &mut FlatType, ints: &[i64], part: &FlatType) -> Option<()> {
    let dims = usize::try_from(*ints.first()?).ok()?;
    let list = |number: usize| ints.get(1 + number * dims..1 + (number + 1) * dims);
    let (sizes, lengths, starts) = (list(0)?, list(1)?, list(2)?);
    let is_c = *ints.get(1 + 3 * dims)? == i64::from(abi::ORDER_C);
    // From the slowest to the fastest dimension.
    let order: Vec<usize> = if is_c { (0..dims).collect() } else { (0..dims).rev().collect() };
    let axes: Vec<Axis> = order
        .iter()
        .map(|d| Axis { size: sizes[*d], places: (starts[*d]..starts[*d] + lengths[*d]).collect() })
        .collect();
    walk(flat, &axes, 0, part);
    Some(())
}

/// One dimension of an array, and the indices in it that belong to a type.
#[derive(Debug)]
struct Axis {
    size: i64,
    places: Vec<i64>,
}

/// Adds the elements at all combinations of indices.
fn walk(flat: &mut FlatType, axes: &[Axis], start: i64, part: &FlatType) {
    let Some((axis, rest)) = axes.split_first() else {
        flat.push_elements(start * part.extent, 1, part);
        return;
    };
    for place in &axis.places {
        walk(flat, rest, start * axis.size + place, part);
    }
}

/// Adds the elements of a distributed array that belong to one process (MPI-5.0 §5.1.4).
fn darray(flat: &mut FlatType, ints: &[i64], part: &FlatType) -> Option<()> {
    let &[_processes, rank, dims] = ints.get(..3)? else { return None };
    let dims = usize::try_from(dims).ok()?;
    let list = |number: usize| ints.get(3 + number * dims..3 + (number + 1) * dims);
    let (sizes, kinds, arguments, grid) = (list(0)?, list(1)?, list(2)?, list(3)?);
    let is_c = *ints.get(3 + 4 * dims)? == i64::from(abi::ORDER_C);
    // The grid of processes is numbered with its last dimension fastest.
    let (mut rest, mut coordinates) = (rank, vec![0; dims]);
    for dimension in (0..dims).rev() {
        coordinates[dimension] = rest % grid[dimension].max(1);
        rest /= grid[dimension].max(1);
    }
    let axis = |d: usize| Axis {
        size: sizes[d],
        places: owned((sizes[d], kinds[d], arguments[d]), (grid[d], coordinates[d])),
    };
    let order: Vec<usize> = if is_c { (0..dims).collect() } else { (0..dims).rev().collect() };
    let axes: Vec<Axis> = order.into_iter().map(axis).collect();
    walk(flat, &axes, 0, part);
    Some(())
}

/// Returns the indices of a dimension that the process at `coordinate` owns.
fn owned((size, kind, argument): (i64, i64, i64), (grid, coordinate): (i64, i64)) -> Vec<i64> {
    let is_default = argument == i64::from(abi::DISTRIBUTE_DFLT_DARG);
    let block = match kind as c_int {
        abi::DISTRIBUTE_BLOCK if is_default => (size + grid - 1) / grid.max(1),
        abi::DISTRIBUTE_CYCLIC if is_default => 1,
        abi::DISTRIBUTE_BLOCK | abi::DISTRIBUTE_CYCLIC => argument,
        _ => return (0..size).collect(),
    };
    let block = block.max(1);
    (0..size).filter(|index| index / block % grid.max(1) == coordinate).collect()
}

/// Returns the size of a type in bytes.
fn size(datatype: Handle) -> Result<usize, c_int> {
    let mut size = 0_i64;
    // SAFETY: the result has a place.
    let code = unsafe {
        if has!(Type_size_c) {
            host::Type_size_c(datatype, &raw mut size)
        } else {
            host::Type_size_x(datatype, &raw mut size)
        }
    };
    check(code).map(|()| size.max(0) as usize)
}

/// Returns the lower bound and the extent of a type in bytes.
fn extent(datatype: Handle) -> Result<(i64, i64), c_int> {
    let (mut lower, mut extent) = (0_i64, 0_i64);
    // SAFETY: the results have places.
    let code = unsafe {
        if has!(Type_get_extent_c) {
            host::Type_get_extent_c(datatype, &raw mut lower, &raw mut extent)
        } else {
            host::Type_get_extent(datatype, &raw mut lower, &raw mut extent)
        }
    };
    check(code).map(|()| (lower, extent))
}

/// Returns the combiner of a type, and lists as long as its contents.
fn envelope(datatype: Handle) -> Result<Contents, c_int> {
    let (mut combiner, mut numbers) = (0, [0_i64; 4]);
    // SAFETY: the results have places.
    let code = unsafe {
        if has!(Type_get_envelope_c) {
            let [ints, aints, counts, types] = &mut numbers;
            let combiner = &raw mut combiner;
            host::Type_get_envelope_c(datatype, ints, aints, counts, types, combiner)
        } else {
            let mut small = [0; 3];
            let [ints, aints, types] = &mut small;
            let code = host::Type_get_envelope(datatype, ints, aints, types, &raw mut combiner);
            numbers = [small[0].into(), small[1].into(), 0, small[2].into()];
            code
        }
    };
    check(code)?;
    let [ints, aints, counts, types] = numbers.map(|number| number.max(0) as usize);
    let (ints, aints) = (vec![0; ints + counts], vec![0; aints]);
    Ok(Contents { combiner, ints, aints, types: vec![abi::comm_null(); types] })
}

/// Returns the contents of a type. Those of a predefined type are empty.
pub(super) fn contents(datatype: Handle) -> Result<Contents, c_int> {
    let mut contents = envelope(datatype)?;
    if contents.combiner == abi::COMBINER_NAMED || contents.types.is_empty() {
        return Ok(contents);
    }
    let has_counts = has!(Type_get_contents_c);
    let (mut numbers, mut counts) = (vec![0_i32; contents.ints.len()], Vec::<i64>::new());
    // SAFETY: each list is as long as its length says, and the envelope named the lengths.
    let code = unsafe {
        if has_counts {
            let (ints, large) = split(datatype)?;
            (numbers, counts) = (vec![0; ints as usize], vec![0; large as usize]);
            let (aints, types) = (contents.aints.len() as i64, contents.types.len() as i64);
            host::Type_get_contents_c(
                datatype,
                ints,
                aints,
                large,
                types,
                numbers.as_mut_ptr(),
                contents.aints.as_mut_ptr(),
                counts.as_mut_ptr(),
                contents.types.as_mut_ptr(),
            )
        } else {
            host::Type_get_contents(
                datatype,
                numbers.len() as c_int,
                contents.aints.len() as c_int,
                contents.types.len() as c_int,
                numbers.as_mut_ptr(),
                contents.aints.as_mut_ptr(),
                contents.types.as_mut_ptr(),
            )
        }
    };
    check(code)?;
    contents.ints = arguments(contents.combiner, numbers, counts);
    Ok(contents)
}

/// Returns the numbers of ints and of counts in the contents of a type.
fn split(datatype: Handle) -> Result<(i64, i64), c_int> {
    let (mut combiner, [mut ints, mut aints, mut counts, mut types]) = (0, [0_i64; 4]);
    // SAFETY: the results have places.
    check(unsafe {
        host::Type_get_envelope_c(
            datatype,
            &raw mut ints,
            &raw mut aints,
            &raw mut counts,
            &raw mut types,
            &raw mut combiner,
        )
    })?;
    Ok((ints, counts))
}

/// Returns ints and counts in one list, in the order that they have for a type of a small-count
/// constructor. A large-count one has its dimensions, kinds and order as ints and all sizes as
/// counts (MPI-5.0 §5.1.13, table of the large-count contents).
fn arguments(combiner: c_int, ints: Vec<i32>, counts: Vec<i64>) -> Vec<i64> {
    let ints: Vec<i64> = ints.into_iter().map(i64::from).collect();
    if counts.is_empty() {
        return ints;
    }
    let dims = ints.first().map_or(0, |dims| *dims as usize);
    match combiner {
        // ints: dimensions, order. counts: sizes, lengths, starts.
        abi::COMBINER_SUBARRAY if ints.len() == 2 => [&ints[..1], &counts, &ints[1..]].concat(),
        // ints: processes, rank, dimensions, kinds, arguments, grid, order. counts: sizes.
        abi::COMBINER_DARRAY if ints.len() > 3 => {
            debug_assert!(dims > 0, "a distributed array has processes");
            [&ints[..3], &counts, &ints[3..]].concat()
        }
        _ => [ints, counts].concat(),
    }
}
