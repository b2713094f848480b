//! Operations on one element: fetch-and-op, compare-and-swap (MPI-5.0 §12.3.4).

use core::ffi::c_int;

use strait::{Error, Integer, Number, Op, WindowError};

use super::basic::{BasicType, Kind, by_kind};
use super::combine::Combination;
use super::errors::{call, call_at_once};
use super::host;
use super::ops::{PredefinedOp, operation};
use super::refusal::WindowRefusal;
use super::table::Win;
use super::target::{TargetArgs, TargetPlace, TargetRun};
use super::transfer::{readable, writable};
use crate::abi::{self, Handle};
use crate::front::host::{MpiCount, Pointer};
use crate::front::pack::Elements;
use crate::front::state::Front;

/// One element at a target, and the program's memory.
#[derive(Clone, Copy)]
struct AtomicElement {
    data: Pointer,
    result: Pointer,
    to: TargetArgs,
}

/// Refuses a derived type of several numbers.
const fn is_one_number(basic: BasicType, there: &TargetPlace) -> Result<(), WindowRefusal> {
    let is_one = there.bytes == basic.size;
    if is_one { Ok(()) } else { Err(WindowRefusal::Class(abi::ERR_TYPE)) }
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Fetch_and_op`.
#[inline(always)]
unsafe fn fetch_and_op(
    front: &Front,
    win: &Win,
    element: AtomicElement,
    op: Handle,
) -> Result<(), WindowRefusal> {
    let AtomicElement { data, result, to } = element;
    if to.rank == abi::PROC_NULL {
        return Ok(());
    }
    let basic = front.windows.basics.find(front, to.datatype)?;
    let Some(operation) = operation(op) else {
        return Err(WindowRefusal::Class(abi::windows::ERR_OP));
    };
    let there = to.locate(front, win)?;
    is_one_number(basic, &there)?;
    if let PredefinedOp::Known(op) = operation {
        let place = (there.target, there.at);
        // SAFETY: the program passes places of one element each.
        let done = unsafe { by_kind!(basic.kind, fetch(win, (data, result), place, op), None) };
        if let Some(done) = done {
            return Ok(done?);
        }
    }
    // SAFETY: the caller guarantees the same.
    unsafe { combine(front, win, element, (basic, operation, op), &there) }
}

/// Returns `None` if the element is not aligned: the host's own types allow that.
///
/// # Safety
///
/// Both addresses are of one element.
#[inline(always)]
unsafe fn fetch<T: Number>(
    win: &Win,
    (data, result): (Pointer, Pointer),
    (target, at): (u32, usize),
    op: Op,
) -> Option<Result<(), Error>> {
    let operand = match op {
        Op::NoOp => T::zeroed(),
        // SAFETY: the caller guarantees it (contract of `fetch`).
        _ => unsafe { data.cast::<T>().read_unaligned() },
    };
    match win.window.fetch_and_op(operand, target, at, op) {
        Ok(before) => {
            // SAFETY: as above.
            unsafe { result.cast::<T>().write_unaligned(before) };
            Some(Ok(()))
        }
        Err(Error::Window(WindowError::Alignment { .. })) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Combines an element that Strait knows no number of.
///
/// # Safety
///
/// The caller guarantees the contract of [`fetch_and_op`].
#[inline(never)]
unsafe fn combine(
    front: &Front,
    win: &Win,
    AtomicElement { data, result, to }: AtomicElement,
    (basic, operation, op): (BasicType, PredefinedOp, Handle),
    there: &TargetPlace,
) -> Result<(), WindowRefusal> {
    // SAFETY: the program passes places of one element each. The copies live until the end.
    unsafe {
        let one = |address| Elements::new(address, 1, to.datatype).copied(&front.types);
        let mut before = one(result)?;
        let mut operand = None;
        let data = match operation {
            PredefinedOp::Known(Op::NoOp) => &[],
            _ => readable(operand.insert(one(data)?).part()),
        };
        let results = Some(writable(before.part()));
        Combination { operation, op, basic, data, results, there }.perform(front, win)?;
        before.unpack(there.bytes);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Fetch_and_op(
    data: Pointer,
    result: Pointer,
    datatype: Handle,
    rank: c_int,
    at: MpiCount,
    op: Handle,
    win: Handle,
) -> c_int {
    let to = TargetArgs { rank, displacement: at, count: 1, datatype };
    let done = call_at_once(win, |front, win| {
        let kind = front.windows.basics.known(datatype)?.kind;
        let Some(PredefinedOp::Known(op)) = operation(op) else { return None };
        let TargetRun { target, at, .. } = to.locate_run(front, win)?;
        // SAFETY: the program passes places of one element each.
        unsafe { by_kind!(kind, fetch(win, (data, result), (target, at), op), None) }
    });
    // SAFETY: the program guarantees the contract of the function in the standard.
    done.unwrap_or_else(|| unsafe { fetch_longer(data, result, datatype, rank, at, op, win) })
}

/// Serves all calls of `MPI_Fetch_and_op` that the short way does not.
///
/// # Safety
///
/// The program guarantees the contract of `MPI_Fetch_and_op`.
#[inline(never)]
unsafe extern "C" fn fetch_longer(
    data: Pointer,
    result: Pointer,
    datatype: Handle,
    rank: c_int,
    at: MpiCount,
    op: Handle,
    win: Handle,
) -> c_int {
    let to = TargetArgs { rank, displacement: at, count: 1, datatype };
    let element = AtomicElement { data, result, to };
    // SAFETY: the caller guarantees the same (contract of `fetch_longer`).
    unsafe {
        call(
            win,
            |front, win| fetch_and_op(front, win, element, op),
            || host::Fetch_and_op(data, result, datatype, rank, at, op, win),
        )
    }
}

/// # Safety
///
/// The addresses are of one element.
unsafe fn swap<T: Number + Integer + PartialEq>(
    win: &Win,
    (data, compare, result): (Pointer, Pointer, Pointer),
    run: TargetRun,
) -> Option<Result<(), Error>> {
    // SAFETY: the caller guarantees it (contract of `swap`).
    let (new, compare) =
        unsafe { (data.cast::<T>().read_unaligned(), compare.cast::<T>().read_unaligned()) };
    match win.window.compare_and_swap(compare, new, run.target, run.at) {
        Ok(before) => {
            // SAFETY: as above.
            unsafe { result.cast::<T>().write_unaligned(before) };
            Some(Ok(()))
        }
        Err(Error::Window(WindowError::Alignment { .. })) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Compares and swaps an integer. Returns `None` if the kind or the place takes more, and has done
/// nothing then.
///
/// # Safety
///
/// The addresses are of one element.
#[inline(always)]
unsafe fn swap_of_kind(
    kind: Kind,
    win: &Win,
    all: (Pointer, Pointer, Pointer),
    run: TargetRun,
) -> Option<Result<(), Error>> {
    // SAFETY: the caller guarantees the same (contract of `swap_of_kind`).
    unsafe {
        match kind {
            Kind::I8 => swap::<i8>(win, all, run),
            Kind::U8 => swap::<u8>(win, all, run),
            Kind::I16 => swap::<i16>(win, all, run),
            Kind::U16 => swap::<u16>(win, all, run),
            Kind::I32 => swap::<i32>(win, all, run),
            Kind::U32 => swap::<u32>(win, all, run),
            Kind::I64 => swap::<i64>(win, all, run),
            Kind::U64 => swap::<u64>(win, all, run),
            Kind::F32 | Kind::F64 | Kind::Other => None,
        }
    }
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Compare_and_swap`.
unsafe fn compare_and_swap(
    front: &Front,
    win: &Win,
    AtomicElement { data, result, to }: AtomicElement,
    compare: Pointer,
) -> Result<(), WindowRefusal> {
    if to.rank == abi::PROC_NULL {
        return Ok(());
    }
    let basic = front.windows.basics.find(front, to.datatype)?;
    let there = to.locate(front, win)?;
    is_one_number(basic, &there)?;
    if !basic.may_swap {
        return Err(WindowRefusal::Class(abi::ERR_TYPE));
    }
    let run = TargetRun { target: there.target, at: there.at, bytes: there.bytes };
    let all = (data, compare, result);
    // SAFETY: the program passes places of one element each.
    unsafe {
        match swap_of_kind(basic.kind, win, all, run) {
            Some(done) => Ok(done?),
            None => swap_under_lock(front, win, all, &there),
        }
    }
}

/// Compares and swaps bytes, for logical values and odd addresses.
///
/// # Safety
///
/// The addresses are of one element.
unsafe fn swap_under_lock(
    front: &Front,
    win: &Win,
    (data, compare, result): (Pointer, Pointer, Pointer),
    there: &TargetPlace,
) -> Result<(), WindowRefusal> {
    let rank = win.window.group().ranks()[there.target as usize];
    let mut found = vec![0_u8; there.bytes];
    // An access to a target that has not been locked yet waits here, without the lock.
    win.window.get(&mut found, there.target, there.at)?;
    let _guard = front.accumulate_locks.lock(rank)?;
    win.window.get(&mut found, there.target, there.at)?;
    // SAFETY: the caller guarantees it (contract of `swap_under_lock`).
    unsafe {
        let element = |address: Pointer| {
            core::slice::from_raw_parts(address.cast::<u8>().cast_const(), there.bytes)
        };
        if found == element(compare) {
            win.window.put(element(data), there.target, there.at)?;
        }
        result.cast::<u8>().copy_from_nonoverlapping(found.as_ptr(), found.len());
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Compare_and_swap(
    data: Pointer,
    compare: Pointer,
    result: Pointer,
    datatype: Handle,
    rank: c_int,
    at: MpiCount,
    win: Handle,
) -> c_int {
    /// All but the short way.
    #[inline(never)]
    unsafe extern "C" fn longer(
        data: Pointer,
        compare: Pointer,
        result: Pointer,
        datatype: Handle,
        rank: c_int,
        at: MpiCount,
        win: Handle,
    ) -> c_int {
        let to = TargetArgs { rank, displacement: at, count: 1, datatype };
        let element = AtomicElement { data, result, to };
        // SAFETY: the program guarantees the contract of the function in the standard.
        unsafe {
            call(
                win,
                |front, win| compare_and_swap(front, win, element, compare),
                || host::Compare_and_swap(data, compare, result, datatype, rank, at, win),
            )
        }
    }
    let to = TargetArgs { rank, displacement: at, count: 1, datatype };
    let done = call_at_once(win, |front, win| {
        let basic = front.windows.basics.known(datatype)?;
        let run = to.locate_run(front, win)?;
        // SAFETY: the program passes places of one element each.
        unsafe { swap_of_kind(basic.kind, win, (data, compare, result), run) }
    });
    // SAFETY: the program guarantees the contract of the function in the standard.
    done.unwrap_or_else(|| unsafe { longer(data, compare, result, datatype, rank, at, win) })
}
