//! Functions that put and get.

use core::ffi::c_int;

use shim::{ByteRun, Shape};

use super::{start, with};
use crate::border::{ArrayArg, CountArg, HandleArg, LastingArg, OutArg, PartsArg, no_place};
use crate::failure::Called;
use crate::handle::Handle;

/// `strait_run` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CRun {
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// `strait_shape` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CShape<'call> {
    pub(crate) count: CountArg,
    pub(crate) block: usize,
    pub(crate) stride: usize,
    pub(crate) runs: ArrayArg<'call, CRun>,
}

/// A parameter that leads to a shape. It may be null.
pub(super) type ShapeArg<'call> = Option<&'call CShape<'call>>;

/// Calls `act` with the shape that C describes.
pub(super) fn with_shape(shape: ShapeArg<'_>, act: impl FnOnce(Shape<'_>) -> Called) -> Called {
    let CShape { count, block, stride, runs } = *shape.ok_or_else(no_place)?;
    if runs.is_null() {
        return act(Shape::Strided { count: count.get(), block, stride });
    }
    let runs = runs.slice(count)?.iter();
    let runs: Vec<_> = runs.map(|&CRun { offset, length }| ByteRun { offset, length }).collect();
    act(Shape::Runs(&runs))
}

#[unsafe(no_mangle)]
extern "C" fn strait_put(
    window: HandleArg<'_>,
    data: LastingArg,
    bytes: CountArg,
    target: u32,
    displacement: usize,
) -> c_int {
    with("strait_put", window, |window| {
        Ok(data.window_memory(bytes)?.start_put(window, target, displacement)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_get(
    window: HandleArg<'_>,
    buffer: LastingArg,
    bytes: CountArg,
    target: u32,
    displacement: usize,
) -> c_int {
    with("strait_get", window, |window| {
        Ok(buffer.window_memory(bytes)?.start_get(window, target, displacement)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_putv(
    window: HandleArg<'_>,
    parts: PartsArg<'_>,
    count: CountArg<c_int>,
    target: u32,
    displacement: usize,
    shape: ShapeArg<'_>,
) -> c_int {
    with("strait_putv", window, |window| {
        let parts = parts.list(count)?;
        with_shape(shape, |shape| {
            Ok(window.put_vectored(&parts.readable(), target, displacement, shape)?)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_getv(
    window: HandleArg<'_>,
    parts: PartsArg<'_>,
    count: CountArg<c_int>,
    target: u32,
    displacement: usize,
    shape: ShapeArg<'_>,
) -> c_int {
    with("strait_getv", window, |window| {
        let mut parts = parts.list(count)?;
        with_shape(shape, |shape| {
            Ok(window.get_vectored(&mut parts.writable(), target, displacement, shape)?)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_rput(
    window: HandleArg<'_>,
    data: LastingArg,
    bytes: CountArg,
    target: u32,
    displacement: usize,
    request: OutArg<'_, Handle>,
) -> c_int {
    start("strait_rput", window, request, |window| {
        Ok(data.window_memory(bytes)?.put(window, target, displacement)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_rget(
    window: HandleArg<'_>,
    buffer: LastingArg,
    bytes: CountArg,
    target: u32,
    displacement: usize,
    request: OutArg<'_, Handle>,
) -> c_int {
    start("strait_rget", window, request, |window| {
        Ok(buffer.window_memory(bytes)?.get(window, target, displacement)?)
    })
}
