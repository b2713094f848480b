//! Collective operations that move blocks.

use core::ffi::c_int;
use core::ops::Range;

use shim::Group;
use shim::raw::RawBlocks;

use crate::border::{ArrayArg, BufferArg, CountArg, DataArg, HandleArg};
use crate::failure::{Called, Failure};
use crate::groups::with;
use crate::windows::transfer::CRun;

/// The blocks of the members in a buffer: one `strait_run` for each place.
type BlocksArg<'call> = ArrayArg<'call, CRun>;

/// Returns the range of each block, and the bytes of the buffer that has them.
fn ranges(blocks: BlocksArg<'_>, group: &Group<'_>) -> Called<(Vec<Range<usize>>, CountArg)> {
    let runs = blocks.slice(CountArg::of(group.ranks().len()))?;
    let range = |run: &CRun| match run.offset.checked_add(run.length) {
        Some(end) if end <= isize::MAX as usize => Ok(run.offset..end),
        _ => Err(Failure::argument(format!(
            "a block of {} bytes at {}: more bytes than there are addresses",
            run.length, run.offset
        ))),
    };
    let ranges = runs.iter().map(range).collect::<Called<Vec<_>>>()?;
    let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    Ok((ranges, CountArg::of(end)))
}

/// Returns the bytes of a buffer with a block of each member.
fn whole(bytes: CountArg, group: &Group<'_>) -> Called<CountArg> {
    let whole = bytes.get().checked_mul(group.ranks().len());
    let text = || format!("{} bytes of each member: more than there are addresses", bytes.get());
    whole.map(CountArg::of).ok_or_else(|| Failure::argument(text()))
}

/// Returns the bytes of a buffer that only the root uses.
fn at_root(bytes: CountArg, group: &Group<'_>, root: u32) -> CountArg {
    if group.place() == root { bytes } else { CountArg::of(0) }
}

#[unsafe(no_mangle)]
extern "C" fn strait_broadcast(
    group: HandleArg<'_>,
    data: BufferArg<'_>,
    bytes: CountArg,
    root: u32,
) -> c_int {
    with("strait_broadcast", group, |group| Ok(group.broadcast(data.writable(bytes)?, root)?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_gather(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    bytes: CountArg,
    all: BufferArg<'_>,
    root: u32,
) -> c_int {
    with("strait_gather", group, |group| {
        let all = all.lend(at_root(whole(bytes, group)?, group, root), 1)?;
        Ok(own.lend(bytes, 1)?.gather(group, all, RawBlocks::Equal(bytes.get()), root)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_gatherv(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    bytes: CountArg,
    all: BufferArg<'_>,
    blocks: BlocksArg<'_>,
    root: u32,
) -> c_int {
    with("strait_gatherv", group, |group| {
        let own = own.lend(bytes, 1)?;
        if group.place() != root {
            let nothing = all.lend(CountArg::of(0), 1)?;
            return Ok(own.gather(group, nothing, RawBlocks::Ranges(&[]), root)?);
        }
        let (blocks, end) = ranges(blocks, group)?;
        Ok(own.gather(group, all.lend(end, 1)?, RawBlocks::Ranges(&blocks), root)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_scatter(
    group: HandleArg<'_>,
    all: DataArg<'_>,
    own: BufferArg<'_>,
    bytes: CountArg,
    root: u32,
) -> c_int {
    with("strait_scatter", group, |group| {
        let all = all.lend(at_root(whole(bytes, group)?, group, root), 1)?;
        let own = (!own.is_in_place()).then(|| own.lend(bytes, 1)).transpose()?;
        Ok(all.scatter(group, own, RawBlocks::Equal(bytes.get()), root)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_scatterv(
    group: HandleArg<'_>,
    all: DataArg<'_>,
    blocks: BlocksArg<'_>,
    own: BufferArg<'_>,
    bytes: CountArg,
    root: u32,
) -> c_int {
    with("strait_scatterv", group, |group| {
        let own = (!own.is_in_place()).then(|| own.lend(bytes, 1)).transpose()?;
        if group.place() != root {
            let nothing = all.lend(CountArg::of(0), 1)?;
            return Ok(nothing.scatter(group, own, RawBlocks::Ranges(&[]), root)?);
        }
        let (blocks, end) = ranges(blocks, group)?;
        Ok(all.lend(end, 1)?.scatter(group, own, RawBlocks::Ranges(&blocks), root)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_allgather(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    bytes: CountArg,
    all: BufferArg<'_>,
) -> c_int {
    with("strait_allgather", group, |group| {
        let all = all.lend(whole(bytes, group)?, 1)?;
        Ok(own.lend(bytes, 1)?.allgather(group, all, RawBlocks::Equal(bytes.get()))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_allgatherv(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    bytes: CountArg,
    all: BufferArg<'_>,
    blocks: BlocksArg<'_>,
) -> c_int {
    with("strait_allgatherv", group, |group| {
        let (blocks, end) = ranges(blocks, group)?;
        let all = all.lend(end, 1)?;
        Ok(own.lend(bytes, 1)?.allgather(group, all, RawBlocks::Ranges(&blocks))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_alltoall(
    group: HandleArg<'_>,
    out: DataArg<'_>,
    into: BufferArg<'_>,
    bytes: CountArg,
) -> c_int {
    with("strait_alltoall", group, |group| {
        let whole = whole(bytes, group)?;
        let blocks = RawBlocks::Equal(bytes.get());
        Ok(out.lend(whole, 1)?.alltoall(group, blocks, into.lend(whole, 1)?, blocks)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_alltoallv(
    group: HandleArg<'_>,
    out: DataArg<'_>,
    from: BlocksArg<'_>,
    into: BufferArg<'_>,
    to: BlocksArg<'_>,
) -> c_int {
    with("strait_alltoallv", group, |group| {
        let (to, to_end) = ranges(to, group)?;
        let (from, from_end) = match out.is_in_place() {
            true => (Vec::new(), CountArg::of(0)),
            false => ranges(from, group)?,
        };
        let (out, into) = (out.lend(from_end, 1)?, into.lend(to_end, 1)?);
        Ok(out.alltoall(group, RawBlocks::Ranges(&from), into, RawBlocks::Ranges(&to))?)
    })
}
