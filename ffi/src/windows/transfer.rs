//! Putting and getting.

use core::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};

use shim::{Run, Shape, Unscoped, Window};

use super::with;
use crate::buffer::{need, part, readable, writable};
use crate::entry::{Called, enter};
use crate::failure::Failure;
use crate::handle::{self, Handle, Kind};
use crate::messages::list;
use crate::requests::Pending;

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
pub(crate) struct CShape {
    pub(crate) count: usize,
    pub(crate) block: usize,
    pub(crate) stride: usize,
    pub(crate) runs: *const CRun,
}

/// Has `act` use the shape that C describes.
///
/// # Safety
///
/// As `strait.h` says of `shape`.
pub(super) unsafe fn with_shape(
    shape: *const CShape,
    act: impl FnOnce(Shape<'_>) -> Called,
) -> Called {
    need(shape)?;
    // SAFETY: by the contract.
    let CShape { count, block, stride, runs } = unsafe { shape.read() };
    if runs.is_null() {
        return act(Shape::Strided { count, block, stride });
    }
    if count > isize::MAX as usize / size_of::<CRun>() {
        return Err(Failure::argument(format!("a shape of {count} runs")));
    }
    // SAFETY: by the contract.
    let runs = unsafe { core::slice::from_raw_parts(runs, count) };
    let runs: Vec<_> = runs.iter().map(|&CRun { offset, length }| Run { offset, length }).collect();
    act(Shape::Runs(&runs))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_put(
    window: Handle,
    data: *const c_void,
    bytes: usize,
    target: u32,
    displacement: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        with("strait_put", window, |window| {
            Ok(window.put(readable(data, bytes)?, target, displacement)?)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_get(
    window: Handle,
    buffer: *mut c_void,
    bytes: usize,
    target: u32,
    displacement: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        with("strait_get", window, |window| {
            Ok(window.get(writable(buffer, bytes)?, target, displacement)?)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_putv(
    window: Handle,
    parts: *const libc::iovec,
    count: c_int,
    target: u32,
    displacement: usize,
    shape: *const CShape,
) -> c_int {
    let put = |window: &Window<'_>| {
        // SAFETY: by the contract.
        let parts = unsafe { list(parts, count) }?;
        // SAFETY: by the contract they are valid for reads during the call.
        let bytes = |part: &shim::Part| unsafe {
            IoSlice::new(core::slice::from_raw_parts(part.base.as_ptr(), part.length))
        };
        let data: Vec<_> = parts.iter().map(bytes).collect();
        // SAFETY: by the contract.
        unsafe {
            with_shape(shape, |shape| {
                Ok(window.put_vectored(&data, target, displacement, shape)?)
            })
        }
    };
    // SAFETY: by the contract.
    unsafe { with("strait_putv", window, put) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_getv(
    window: Handle,
    parts: *const libc::iovec,
    count: c_int,
    target: u32,
    displacement: usize,
    shape: *const CShape,
) -> c_int {
    let get = |window: &Window<'_>| {
        // SAFETY: by the contract.
        let parts = unsafe { list(parts, count) }?;
        // SAFETY: by the contract they are the call's alone.
        let bytes = |part: &shim::Part| unsafe {
            IoSliceMut::new(core::slice::from_raw_parts_mut(part.base.as_ptr(), part.length))
        };
        let mut buffers: Vec<_> = parts.iter().map(bytes).collect();
        // SAFETY: by the contract.
        unsafe {
            with_shape(shape, |shape| {
                Ok(window.get_vectored(&mut buffers, target, displacement, shape)?)
            })
        }
    };
    // SAFETY: by the contract.
    unsafe { with("strait_getv", window, get) }
}

/// Begins an operation on a window, and answers with its request.
///
/// # Safety
///
/// As `strait.h` says of the function called `call`.
pub(super) unsafe fn begin(
    call: &'static str,
    window: Handle,
    request: *mut Handle,
    begin: impl FnOnce(&Window<'static>) -> Called<Unscoped>,
) -> c_int {
    enter(call, window, || {
        need(request)?;
        // SAFETY: by the contract.
        let instance = unsafe { handle::world_of(window, Kind::Window) }?;
        let open = std::rc::Rc::clone(instance.windows().get(window)?);
        let handle = instance.keep(Pending::new(begin(&open)?, None))?;
        // SAFETY: by the contract.
        unsafe { crate::buffer::answer(request, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rput(
    window: Handle,
    data: *const c_void,
    bytes: usize,
    target: u32,
    displacement: usize,
    request: *mut Handle,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        begin("strait_rput", window, request, |window| {
            Ok(window.begin_put(part(data, bytes)?, target, displacement)?)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rget(
    window: Handle,
    buffer: *mut c_void,
    bytes: usize,
    target: u32,
    displacement: usize,
    request: *mut Handle,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        begin("strait_rget", window, request, |window| {
            Ok(window.begin_get(part(buffer, bytes)?, target, displacement)?)
        })
    }
}
