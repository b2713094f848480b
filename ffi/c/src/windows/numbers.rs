//! Accumulates: operations on numbers.

use core::ffi::c_int;

use shim::raw::RawWindow as _;
use shim::{Integer, Number, Op, Window};

use super::transfer::{ShapeArg, with_shape};
use super::{start, with};
use crate::border::{
    ActOnIntegers, ActOnNumbers, BufferArg, CountArg, DataArg, HandleArg, OutArg, TypeArg, Typed,
};
use crate::failure::{Called, Failure};
use crate::handle::Handle;
use crate::pending::PendingOperation;

/// The operations, in the order of `strait_op` in C.
pub(crate) const OPS: [Op; 12] = Op::ALL;

/// `STRAIT_SUM` in C.
const SUM: c_int = Op::Sum as c_int;

/// Returns the operation that C names.
pub(crate) fn op(number: c_int) -> Called<Op> {
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
    data: DataArg<'call>,
    /// The place for the old numbers. `None`: C does not want them.
    results: Option<BufferArg<'call>>,
    count: CountArg,
    numbers: TargetNumbers<'call>,
    /// `strait_op` in C.
    operation: c_int,
}

/// An accumulate with its window and its checked operation. It is passed by reference: a copy would
/// be read in wider pieces than those in which the arguments were written
/// (docs/instruction-count.md).
struct OnWindow<'on, 'call> {
    window: &'on Window<'static>,
    op: Op,
    accumulate: &'on mut Accumulate<'call>,
}

impl ActOnNumbers for OnWindow<'_, '_> {
    /// The size in bytes of the origin's numbers.
    type Done = usize;

    fn act<T: Number>(self, typed: Typed<T>) -> Called<usize> {
        let Self { window, op, accumulate } = self;
        let Accumulate { data, count, .. } = *accumulate;
        let TargetNumbers { target, displacement, shape } = accumulate.numbers;
        let data = data.numbers(count, typed)?;
        let bytes = size_of_val(data);
        let results = accumulate.results.take();
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
    /// Performs the operation, and returns the size in bytes of the origin's numbers.
    fn perform(&mut self, window: &Window<'static>, of: TypeArg) -> Called<usize> {
        let op = op(self.operation)?;
        of.dispatch(OnWindow { window, op, accumulate: self })
    }

    #[inline(always)]
    fn call(&mut self, call: &'static str, window: HandleArg<'_>, of: TypeArg) -> c_int {
        with(call, window, |window| self.perform(window, of).map(drop))
    }

    /// Performs the operation, which is complete when this returns, and gives C a completed
    /// request.
    fn call_with_request(
        &mut self,
        call: &'static str,
        window: HandleArg<'_>,
        of: TypeArg,
        request: OutArg<'_, Handle>,
    ) -> c_int {
        start(call, window, request, |window| {
            let target = self.numbers.target;
            let bytes = self.perform(window, of)?;
            Ok(PendingOperation::new(window.over(target, bytes)?))
        })
    }
}

/// An addition to one number.
struct Add<'call> {
    window: &'call Window<'static>,
    operand: DataArg<'call>,
    target: u32,
    displacement: usize,
}

impl ActOnNumbers for Add<'_> {
    /// Whether the number has been added. It takes more otherwise.
    type Done = bool;

    #[inline(always)]
    fn act<T: Number>(self, typed: Typed<T>) -> Called<bool> {
        let Self { window, operand, target, displacement } = self;
        let operand = operand.number(typed)?;
        Ok(window.add_at_once(operand, target, displacement).is_some())
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
        if count.get() == 1 && operation == SUM && shape.is_none() {
            let add = Add { window, operand: data, target, displacement };
            if of.dispatch_addend(add).transpose()? == Some(true) {
                return Ok(());
            }
        }
        let numbers = TargetNumbers { target, displacement, shape };
        let mut accumulate = Accumulate { data, results: None, count, numbers, operation };
        accumulate.perform(window, of).map(drop)
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
    let numbers = TargetNumbers { target, displacement, shape };
    let mut accumulate = Accumulate { data, results: Some(results), count, numbers, operation };
    accumulate.call("strait_get_accumulate", window, of)
}

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
    let numbers = TargetNumbers { target, displacement, shape };
    let mut accumulate = Accumulate { data, results: None, count, numbers, operation };
    accumulate.call_with_request("strait_raccumulate", window, of, request)
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
    let numbers = TargetNumbers { target, displacement, shape };
    let mut accumulate = Accumulate { data, results: Some(results), count, numbers, operation };
    accumulate.call_with_request("strait_rget_accumulate", window, of, request)
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
    type Done = ();

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
