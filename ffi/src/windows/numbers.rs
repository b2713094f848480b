//! Accumulates: operations on numbers.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use shim::{Integer, Number, Op, Window};

use super::transfer::{CShape, begin, with_shape};
use super::with;
use crate::entry::Called;
use crate::failure::Failure;
use crate::handle::Handle;

/// The operations, in the order of `strait_op` in C.
pub(crate) const OPS: [Op; 12] = Op::ALL;

fn op(number: c_int) -> Called<Op> {
    let op = usize::try_from(number).ok().and_then(|number| OPS.get(number));
    op.copied().ok_or_else(|| Failure::argument(format!("operation {number}: use a strait_op")))
}

fn no_type(number: c_int) -> Box<Failure> {
    Failure::argument(format!(
        "type {number}: use a strait_type, for this call one of integers if it compares"
    ))
}

/// What is done with the numbers of one type.
trait Act {
    type Done;
    fn act<T: Number>(self) -> Called<Self::Done>;
}

/// The numbers of `strait_type` in C.
fn dispatch<A: Act>(number: c_int, act: A) -> Called<A::Done> {
    match number {
        0 => act.act::<i8>(),
        1 => act.act::<u8>(),
        2 => act.act::<i16>(),
        3 => act.act::<u16>(),
        4 => act.act::<i32>(),
        5 => act.act::<u32>(),
        6 => act.act::<i64>(),
        7 => act.act::<u64>(),
        8 => act.act::<f32>(),
        9 => act.act::<f64>(),
        number => Err(no_type(number)),
    }
}

/// `count` numbers at `base`.
fn numbers<T>(base: *const c_void, count: usize) -> Called<NonNull<T>> {
    match NonNull::new(base.cast_mut().cast::<T>()) {
        Some(base) if base.is_aligned() && count <= isize::MAX as usize / size_of::<T>() => {
            Ok(base)
        }
        None if count == 0 => Ok(NonNull::dangling()),
        _ => Err(Failure::argument(format!(
            "there are no {count} numbers of {} bytes at {base:?}: they lie on multiples of their size",
            size_of::<T>()
        ))),
    }
}

/// An accumulate: where the origin's numbers are, and the target's.
struct Accumulate<'a> {
    window: &'a Window<'static>,
    data: *const c_void,
    /// `None`: they are not wanted.
    results: Option<*mut c_void>,
    count: usize,
    target: u32,
    displacement: usize,
    /// Null: one after the other.
    shape: *const CShape,
    op: Op,
}

impl Act for Accumulate<'_> {
    /// Bytes of the origin's numbers.
    type Done = usize;

    fn act<T: Number>(self) -> Called<usize> {
        let Self { window, data, results, count, target, displacement, shape, op } = self;
        let data = numbers::<T>(data, count)?;
        // SAFETY: by the contract of the caller's function.
        let data = unsafe { core::slice::from_raw_parts(data.as_ptr(), count) };
        let bytes = size_of_val(data);
        let results = results.map(|results| numbers::<T>(results, count)).transpose()?;
        // SAFETY: by the contract of the caller's function.
        let results = results
            .map(|results| unsafe { core::slice::from_raw_parts_mut(results.as_ptr(), count) });
        if shape.is_null() {
            match results {
                None => window.accumulate(data, target, displacement, op)?,
                Some(results) => window.get_accumulate(data, results, target, displacement, op)?,
            }
            return Ok(bytes);
        }
        let accumulate = |shape: shim::Shape<'_>| {
            let data = &[data];
            match results {
                None => window.accumulate_vectored(data, target, displacement, shape, op)?,
                Some(results) => window.get_accumulate_vectored(
                    data,
                    results,
                    target,
                    displacement,
                    shape,
                    op,
                )?,
            }
            Ok(())
        };
        // SAFETY: by the contract of the caller's function.
        unsafe { with_shape(shape, accumulate) }?;
        Ok(bytes)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_accumulate(
    window: Handle,
    data: *const c_void,
    count: usize,
    of: c_int,
    target: u32,
    displacement: usize,
    shape: *const CShape,
    operation: c_int,
) -> c_int {
    let accumulate = |window: &Window<'static>| {
        let op = op(operation)?;
        let results = None;
        let act = Accumulate { window, data, results, count, target, displacement, shape, op };
        dispatch(of, act).map(drop)
    };
    // SAFETY: by the contract.
    unsafe { with("strait_accumulate", window, accumulate) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_get_accumulate(
    window: Handle,
    data: *const c_void,
    results: *mut c_void,
    count: usize,
    of: c_int,
    target: u32,
    displacement: usize,
    shape: *const CShape,
    operation: c_int,
) -> c_int {
    let accumulate = |window: &Window<'static>| {
        let op = op(operation)?;
        let results = Some(results);
        let act = Accumulate { window, data, results, count, target, displacement, shape, op };
        dispatch(of, act).map(drop)
    };
    // SAFETY: by the contract.
    unsafe { with("strait_get_accumulate", window, accumulate) }
}

/// As [`strait_accumulate`], which is over when it returns, with a request that is, too.
#[unsafe(no_mangle)]
unsafe extern "C" fn strait_raccumulate(
    window: Handle,
    data: *const c_void,
    count: usize,
    of: c_int,
    target: u32,
    displacement: usize,
    shape: *const CShape,
    operation: c_int,
    request: *mut Handle,
) -> c_int {
    let accumulate = |window: &Window<'static>| {
        let op = op(operation)?;
        let results = None;
        let act = Accumulate { window, data, results, count, target, displacement, shape, op };
        Ok(window.over(target, dispatch(of, act)?)?)
    };
    // SAFETY: by the contract.
    unsafe { begin("strait_raccumulate", window, request, accumulate) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rget_accumulate(
    window: Handle,
    data: *const c_void,
    results: *mut c_void,
    count: usize,
    of: c_int,
    target: u32,
    displacement: usize,
    shape: *const CShape,
    operation: c_int,
    request: *mut Handle,
) -> c_int {
    let accumulate = |window: &Window<'static>| {
        let op = op(operation)?;
        let results = Some(results);
        let act = Accumulate { window, data, results, count, target, displacement, shape, op };
        Ok(window.over(target, dispatch(of, act)?)?)
    };
    // SAFETY: by the contract.
    unsafe { begin("strait_rget_accumulate", window, request, accumulate) }
}

/// One number combined with another.
struct FetchAndOp<'a> {
    window: &'a Window<'static>,
    operand: *const c_void,
    result: *mut c_void,
    target: u32,
    displacement: usize,
    op: Op,
}

impl Act for FetchAndOp<'_> {
    type Done = ();

    fn act<T: Number>(self) -> Called {
        let Self { window, operand, result, target, displacement, op } = self;
        let (operand, result) = (numbers::<T>(operand, 1)?, numbers::<T>(result, 1)?);
        // SAFETY: by the contract of the caller's function.
        unsafe { result.write(window.fetch_and_op(operand.read(), target, displacement, op)?) };
        Ok(())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_fetch_and_op(
    window: Handle,
    operand: *const c_void,
    result: *mut c_void,
    of: c_int,
    target: u32,
    displacement: usize,
    operation: c_int,
) -> c_int {
    let fetch = |window: &Window<'static>| {
        let op = op(operation)?;
        dispatch(of, FetchAndOp { window, operand, result, target, displacement, op })
    };
    // SAFETY: by the contract.
    unsafe { with("strait_fetch_and_op", window, fetch) }
}

/// Compares and swaps one number.
///
/// # Safety
///
/// As `strait.h` says of `strait_compare_and_swap`.
unsafe fn swap<T: Number + Integer + PartialEq>(
    window: &Window<'static>,
    [compare, new]: [*const c_void; 2],
    result: *mut c_void,
    target: u32,
    displacement: usize,
) -> Called {
    let (compare, new) = (numbers::<T>(compare, 1)?, numbers::<T>(new, 1)?);
    let result = numbers::<T>(result, 1)?;
    // SAFETY: by the contract.
    unsafe {
        let old = window.compare_and_swap(compare.read(), new.read(), target, displacement)?;
        result.write(old);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_compare_and_swap(
    window: Handle,
    compare: *const c_void,
    new: *const c_void,
    result: *mut c_void,
    of: c_int,
    target: u32,
    displacement: usize,
) -> c_int {
    let origin = [compare, new];
    // SAFETY: by the contract.
    unsafe {
        with("strait_compare_and_swap", window, |window| match of {
            0 => swap::<i8>(window, origin, result, target, displacement),
            1 => swap::<u8>(window, origin, result, target, displacement),
            2 => swap::<i16>(window, origin, result, target, displacement),
            3 => swap::<u16>(window, origin, result, target, displacement),
            4 => swap::<i32>(window, origin, result, target, displacement),
            5 => swap::<u32>(window, origin, result, target, displacement),
            6 => swap::<i64>(window, origin, result, target, displacement),
            7 => swap::<u64>(window, origin, result, target, displacement),
            number => Err(no_type(number)),
        })
    }
}
