//! Accumulates (MPI-5.0 §12.3.4).

use core::ffi::c_int;

use strait::bytemuck;
use strait::raw::{Part, RawWindow as _};
use strait::{Error, Number, Op, WindowError};

use super::basic::{Kind, by_addend, by_kind, is_typed};
use super::combine::Combination;
use super::errors::{call, call_at_once};
use super::host;
use super::ops::{PredefinedOp, operation};
use super::refusal::WindowRefusal;
use super::table::Win;
use super::target::{TargetArgs, TargetRun};
use super::transfer::{give_done, readable, same_length, writable};
use crate::abi::{self, Handle};
use crate::front::complete::count_host_start;
use crate::front::host::{HandlePtr, MpiCount, Pointer};
use crate::front::pack::{Elements, whole};
use crate::front::state::Front;

/// The arguments of an accumulate.
struct AccumulateArgs {
    origin: Elements,
    results: Option<Elements>,
    to: TargetArgs,
    op: Handle,
}

impl AccumulateArgs {
    /// # Safety
    ///
    /// The program guarantees the contract of `MPI_Get_accumulate`.
    unsafe fn perform(&self, front: &Front, win: &Win) -> Result<(), WindowRefusal> {
        if self.to.rank == abi::PROC_NULL {
            return Ok(());
        }
        let Some(operation) = operation(self.op) else {
            return Err(WindowRefusal::Class(abi::windows::ERR_OP));
        };
        is_typed(self.to.datatype)?;
        let there = self.to.locate(front, win)?;
        if there.bytes == 0 {
            return Ok(());
        }
        let basic = front.windows.basics.find(front, self.to.datatype)?;
        let changes = operation != PredefinedOp::Known(Op::NoOp);
        // SAFETY: the program passes the elements, and no buffer overlaps another (contract of
        // `perform`). Copies live until the end of the call.
        unsafe {
            let (mut origin_copy, mut result_copy) = (None, None);
            let data = match self.origin.whole(&front.types) {
                _ if !changes => &[],
                Some(part) => readable(part),
                None => {
                    is_typed(self.origin.datatype)?;
                    readable(origin_copy.insert(self.origin.copied(&front.types)?).part())
                }
            };
            if changes {
                same_length(data.len(), there.bytes)?;
            }
            let results = match &self.results {
                None => None,
                Some(results) => Some(match results.whole(&front.types) {
                    Some(part) => writable(part),
                    None => {
                        is_typed(results.datatype)?;
                        writable(result_copy.insert(results.copied(&front.types)?).part())
                    }
                }),
            };
            if let Some(results) = &results {
                same_length(results.len(), there.bytes)?;
            }
            let there = &there;
            Combination { operation, op: self.op, basic, data, results, there }
                .perform(front, win)?;
            if let Some(copy) = result_copy {
                copy.unpack(there.bytes);
            }
        }
        Ok(())
    }
}

/// Accumulates numbers of a predefined type, if both sides have one run of them. Returns `None` if
/// it does not, and has done nothing then.
///
/// # Safety
///
/// The program guarantees the contract of `MPI_Accumulate`.
#[inline(always)]
unsafe fn accumulate_run(
    front: &Front,
    win: &Win,
    (data, count, datatype): (Pointer, i64, Handle),
    to: &TargetArgs,
    op: Handle,
) -> Option<Result<(), Error>> {
    let basic = front.windows.basics.known(to.datatype)?;
    let op = match operation(op)? {
        PredefinedOp::Known(Op::NoOp) | PredefinedOp::Location => return None,
        PredefinedOp::Known(op) => op,
    };
    let run = to.locate_run(front, win)?;
    let part = whole(&front.types, data, count, datatype)?;
    if part.length != run.bytes {
        return None;
    }
    if op == Op::Sum && run.bytes == basic.size {
        // SAFETY: the program passes one number (contract of `accumulate_run`).
        let added = unsafe { by_addend!(basic.kind, add(win, part, run)) };
        if added.is_some() {
            return added.map(Ok);
        }
    }
    // SAFETY: the program passes as many bytes as the run has (contract of `accumulate_run`).
    unsafe { by_kind!(basic.kind, accumulate_numbers(win, part, run, op), None) }
}

/// Adds one number. Returns `None` if that takes more, and has done nothing then.
///
/// # Safety
///
/// The part can be read, and has one number.
#[inline(always)]
unsafe fn add<T: Number>(win: &Win, part: Part, run: TargetRun) -> Option<()> {
    // SAFETY: the caller guarantees it (contract of `add`).
    let operand = unsafe { part.base.cast::<T>().read_unaligned() };
    win.window.add_at_once(operand, run.target, run.at).map(drop)
}

/// Returns `None` if numbers of either side are not aligned: the host's own types allow that.
///
/// # Safety
///
/// The part can be read.
unsafe fn accumulate_numbers<T: Number>(
    win: &Win,
    part: Part,
    run: TargetRun,
    op: Op,
) -> Option<Result<(), Error>> {
    // SAFETY: the caller guarantees it (contract of `accumulate_numbers`).
    let numbers: &[T] = bytemuck::try_cast_slice(unsafe { readable(part) }).ok()?;
    match win.window.accumulate(numbers, run.target, run.at, op) {
        Ok(()) => Some(Ok(())),
        Err(Error::Window(WindowError::Alignment { .. })) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Defines accumulates without results: blocking, and with a request.
macro_rules! accumulates {
    ($($name:ident, $rname:ident = $host:ident, $rhost:ident($count:ty);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            data: Pointer, count: $count, datatype: Handle, rank: c_int, at: MpiCount,
            there: $count, type_there: Handle, op: Handle, win: Handle,
        ) -> c_int {
            /// All but the short way.
            #[inline(never)]
            unsafe extern "C" fn longer(
                data: Pointer, count: $count, datatype: Handle, rank: c_int, at: MpiCount,
                there: $count, type_there: Handle, op: Handle, win: Handle,
            ) -> c_int {
                let origin = Elements::new(data, count.into(), datatype);
                let to = TargetArgs {
                    rank, displacement: at, count: there.into(), datatype: type_there,
                };
                let args = AccumulateArgs { origin, results: None, to, op };
                // SAFETY: the program guarantees the contract of the function in the standard.
                unsafe {
                    call(
                        win,
                        |front, win| args.perform(front, win),
                        || host::$host(data, count, datatype, rank, at, there, type_there, op, win),
                    )
                }
            }
            let to = TargetArgs {
                rank, displacement: at, count: there.into(), datatype: type_there,
            };
            // SAFETY: the program guarantees the contract of the function in the standard.
            let done = call_at_once(win, |front, win| unsafe {
                accumulate_run(front, win, (data, count.into(), datatype), &to, op)
            });
            match done {
                Some(code) => code,
                // SAFETY: as above.
                None => unsafe {
                    longer(data, count, datatype, rank, at, there, type_there, op, win)
                },
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $rname(
            data: Pointer, count: $count, datatype: Handle, rank: c_int, at: MpiCount,
            there: $count, type_there: Handle, op: Handle, win: Handle, request: HandlePtr,
        ) -> c_int {
            let origin = Elements::new(data, count.into(), datatype);
            let to = TargetArgs {
                rank, displacement: at, count: there.into(), datatype: type_there,
            };
            let args = AccumulateArgs { origin, results: None, to, op };
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                call(
                    win,
                    |front, win| {
                        args.perform(front, win)?;
                        give_done(request)
                    },
                    || {
                        count_host_start(1);
                        host::$rhost(
                            data, count, datatype, rank, at, there, type_there, op, win, request,
                        )
                    },
                )
            }
        }
    )*};
}

accumulates! {
    MPI_Accumulate, MPI_Raccumulate = Accumulate, Raccumulate(c_int);
    MPI_Accumulate_c, MPI_Raccumulate_c = Accumulate_c, Raccumulate_c(MpiCount);
}

/// Defines accumulates with results: blocking, and with a request.
macro_rules! get_accumulates {
    ($($name:ident, $rname:ident = $host:ident, $rhost:ident($count:ty);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            data: Pointer, count: $count, datatype: Handle,
            result: Pointer, results: $count, result_type: Handle, rank: c_int, at: MpiCount,
            there: $count, type_there: Handle, op: Handle, win: Handle,
        ) -> c_int {
            let origin = Elements::new(data, count.into(), datatype);
            let fetched = Elements::new(result, results.into(), result_type);
            let to = TargetArgs {
                rank, displacement: at, count: there.into(), datatype: type_there,
            };
            let args = AccumulateArgs { origin, results: Some(fetched), to, op };
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                call(
                    win,
                    |front, win| args.perform(front, win),
                    || {
                        host::$host(
                            data, count, datatype, result, results, result_type, rank, at, there,
                            type_there, op, win,
                        )
                    },
                )
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $rname(
            data: Pointer, count: $count, datatype: Handle,
            result: Pointer, results: $count, result_type: Handle, rank: c_int, at: MpiCount,
            there: $count, type_there: Handle, op: Handle, win: Handle, request: HandlePtr,
        ) -> c_int {
            let origin = Elements::new(data, count.into(), datatype);
            let fetched = Elements::new(result, results.into(), result_type);
            let to = TargetArgs {
                rank, displacement: at, count: there.into(), datatype: type_there,
            };
            let args = AccumulateArgs { origin, results: Some(fetched), to, op };
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                call(
                    win,
                    |front, win| {
                        args.perform(front, win)?;
                        give_done(request)
                    },
                    || {
                        count_host_start(1);
                        host::$rhost(
                            data, count, datatype, result, results, result_type, rank, at, there,
                            type_there, op, win, request,
                        )
                    },
                )
            }
        }
    )*};
}

get_accumulates! {
    MPI_Get_accumulate, MPI_Rget_accumulate = Get_accumulate, Rget_accumulate(c_int);
    MPI_Get_accumulate_c, MPI_Rget_accumulate_c = Get_accumulate_c, Rget_accumulate_c(MpiCount);
}
