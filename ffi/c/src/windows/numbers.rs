//! Accumulates: operations on numbers.

use core::ffi::c_int;

use shim::{Integer, Number, Op, Window};

use super::transfer::{ShapeArg, with_shape};
use super::{start, with};
use crate::border::{
    ActOnIntegers, ActOnNumbers, BufferArg, CountArg, DataArg, HandleArg, OutArg, TypeArg, Typed,
};
use crate::entry::Called;
use crate::failure::Failure;
use crate::handle::Handle;
use crate::requests::PendingOperation;

/// The operations, in the order of `strait_op` in C.
pub(crate) const OPS: [Op; 12] = Op::ALL;

fn op(number: c_int) -> Called<Op> {
    let op = usize::try_from(number).ok().and_then(|number| OPS.get(number));
    op.copied().ok_or_else(|| Failure::argument(format!("operation {number}: use a strait_op")))
}

/// The numbers of a target that an operation reaches.
#[derive(Clone, Copy)]
struct TargetNumbers<'call> {
    target: u32,
    displacement: usize,
    /// The layout of the numbers. `None`: they are contiguous.
    shape: ShapeArg<'call>,
}

/// An accumulate.
struct Accumulate<'call> {
    window: &'call Window<'static>,
    data: DataArg<'call>,
    /// The place for the old numbers. `None`: C does not want them.
    results: Option<BufferArg<'call>>,
    count: CountArg,
    numbers: TargetNumbers<'call>,
    op: Op,
}

impl ActOnNumbers for Accumulate<'_> {
    /// The size in bytes of the origin's numbers.
    type Done = usize;

    fn act<T: Number>(self, typed: Typed<T>) -> Called<usize> {
        let Self { window, data, results, count, numbers, op } = self;
        let TargetNumbers { target, displacement, shape } = numbers;
        let data = data.numbers(count, typed)?;
        let bytes = size_of_val(data);
        let results = results.map(|results| results.numbers(count, typed)).transpose()?;
        if shape.is_none() {
            match results {
                None => window.accumulate(data, target, displacement, op)?,
                Some(results) => window.get_accumulate(data, results, target, displacement, op)?,
            }
            return Ok(bytes);
        }
        with_shape(shape, |shape| {
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
        })?;
        Ok(bytes)
    }
}

impl Accumulate<'_> {
    /// Performs the operation, and returns a completed request.
    fn over(self, of: TypeArg) -> Called<PendingOperation> {
        let (window, target) = (self.window, self.numbers.target);
        let bytes = of.dispatch(self)?;
        Ok(PendingOperation::new(window.over(target, bytes)?))
    }
}

#[unsafe(no_mangle)]
extern "C" fn strait_accumulate(
    window: HandleArg<'_>,
    data: DataArg<'_>,
    count: CountArg,
    of: TypeArg,
    target: u32,
    displacement: usize,
    shape: ShapeArg<'_>,
    operation: c_int,
) -> c_int {
    with("strait_accumulate", window, |window| {
        let numbers = TargetNumbers { target, displacement, shape };
        let op = op(operation)?;
        of.dispatch(Accumulate { window, data, results: None, count, numbers, op }).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_get_accumulate(
    window: HandleArg<'_>,
    data: DataArg<'_>,
    results: BufferArg<'_>,
    count: CountArg,
    of: TypeArg,
    target: u32,
    displacement: usize,
    shape: ShapeArg<'_>,
    operation: c_int,
) -> c_int {
    with("strait_get_accumulate", window, |window| {
        let numbers = TargetNumbers { target, displacement, shape };
        let (op, results) = (op(operation)?, Some(results));
        of.dispatch(Accumulate { window, data, results, count, numbers, op }).map(drop)
    })
}

/// Performs [`strait_accumulate`], which is complete when it returns, and returns a completed
/// request as well.
#[unsafe(no_mangle)]
extern "C" fn strait_raccumulate(
    window: HandleArg<'_>,
    data: DataArg<'_>,
    count: CountArg,
    of: TypeArg,
    target: u32,
    displacement: usize,
    shape: ShapeArg<'_>,
    operation: c_int,
    request: OutArg<'_, Handle>,
) -> c_int {
    start("strait_raccumulate", window, request, |window| {
        let numbers = TargetNumbers { target, displacement, shape };
        let op = op(operation)?;
        Accumulate { window, data, results: None, count, numbers, op }.over(of)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_rget_accumulate(
    window: HandleArg<'_>,
    data: DataArg<'_>,
    results: BufferArg<'_>,
    count: CountArg,
    of: TypeArg,
    target: u32,
    displacement: usize,
    shape: ShapeArg<'_>,
    operation: c_int,
    request: OutArg<'_, Handle>,
) -> c_int {
    start("strait_rget_accumulate", window, request, |window| {
        let numbers = TargetNumbers { target, displacement, shape };
        let (op, results) = (op(operation)?, Some(results));
        Accumulate { window, data, results, count, numbers, op }.over(of)
    })
}

/// An operation that combines one number with another.
struct FetchAndOp<'call> {
    window: &'call Window<'static>,
    operand: DataArg<'call>,
    result: BufferArg<'call>,
    target: u32,
    displacement: usize,
    op: Op,
}

impl ActOnNumbers for FetchAndOp<'_> {
    type Done = ();

    fn act<T: Number>(self, typed: Typed<T>) -> Called {
        let Self { window, operand, result, target, displacement, op } = self;
        let (operand, result) = (operand.number(typed)?, result.number(typed)?);
        result.write(window.fetch_and_op(operand, target, displacement, op)?)
    }
}

#[unsafe(no_mangle)]
extern "C" fn strait_fetch_and_op(
    window: HandleArg<'_>,
    operand: DataArg<'_>,
    result: BufferArg<'_>,
    of: TypeArg,
    target: u32,
    displacement: usize,
    operation: c_int,
) -> c_int {
    with("strait_fetch_and_op", window, |window| {
        let op = op(operation)?;
        of.dispatch(FetchAndOp { window, operand, result, target, displacement, op })
    })
}

/// An operation that replaces one number if it equals another.
struct CompareAndSwap<'call> {
    window: &'call Window<'static>,
    compare: DataArg<'call>,
    new: DataArg<'call>,
    result: BufferArg<'call>,
    target: u32,
    displacement: usize,
}

impl ActOnIntegers for CompareAndSwap<'_> {
    fn act<T: Number + Integer + PartialEq>(self, typed: Typed<T>) -> Called {
        let Self { window, compare, new, result, target, displacement } = self;
        let (compare, new) = (compare.number(typed)?, new.number(typed)?);
        let result = result.number(typed)?;
        result.write(window.compare_and_swap(compare, new, target, displacement)?)
    }
}

#[unsafe(no_mangle)]
extern "C" fn strait_compare_and_swap(
    window: HandleArg<'_>,
    compare: DataArg<'_>,
    new: DataArg<'_>,
    result: BufferArg<'_>,
    of: TypeArg,
    target: u32,
    displacement: usize,
) -> c_int {
    with("strait_compare_and_swap", window, |window| {
        let swap = CompareAndSwap { window, compare, new, result, target, displacement };
        of.dispatch_integers(swap)
    })
}
