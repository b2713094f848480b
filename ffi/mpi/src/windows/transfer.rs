//! Puts and gets (MPI-5.0 §12.3).

use core::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};

use strait::raw::Part;
use strait::{Error, Shape, WindowError};

use super::basic::is_typed;
use super::errors::{call, call_at_once};
use super::host;
use super::refusal::WindowRefusal;
use super::table::Win;
use super::target::{TargetArgs, TargetPlace, TargetRun};
use crate::abi::{self, Handle};
use crate::front::complete::count_host_start;
use crate::front::host::{HandlePtr, MpiCount, Pointer};
use crate::front::pack::{Elements, MessageMemory, whole};
use crate::front::requests::RequestTable;
use crate::front::state::Front;

/// # Safety
///
/// The memory can be read, and does not change, for as long as the slice is used.
pub(super) unsafe fn readable<'a>(part: Part) -> &'a [u8] {
    // SAFETY: the caller guarantees it (contract of `readable`).
    unsafe { core::slice::from_raw_parts(part.base.as_ptr(), part.length) }
}

/// # Safety
///
/// The memory can be written, and nothing else accesses it, for as long as the slice is used.
pub(super) unsafe fn writable<'a>(part: Part) -> &'a mut [u8] {
    // SAFETY: the caller guarantees it (contract of `writable`).
    unsafe { core::slice::from_raw_parts_mut(part.base.as_ptr(), part.length) }
}

pub(super) fn same_length(origin: usize, other: usize) -> Result<(), WindowRefusal> {
    if origin == other { Ok(()) } else { Err(WindowError::Lengths { origin, other }.into()) }
}

/// Puts a run of as many bytes.
///
/// # Safety
///
/// The program guarantees the contract of `MPI_Put`.
#[inline(always)]
unsafe fn put_run(win: &Win, part: Part, run: TargetRun) -> Result<(), Error> {
    // SAFETY: the program passes that many bytes (contract of `put_run`).
    win.window.put(unsafe { readable(part) }, run.target, run.at)
}

/// Gets a run of as many bytes.
///
/// # Safety
///
/// The program guarantees the contract of `MPI_Get`.
#[inline(always)]
unsafe fn get_run(win: &Win, part: Part, run: TargetRun) -> Result<(), Error> {
    // SAFETY: the program passes that many bytes (contract of `get_run`).
    win.window.get(unsafe { writable(part) }, run.target, run.at)
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Put`.
#[inline(always)]
unsafe fn put(
    front: &Front,
    win: &Win,
    origin: &Elements,
    to: &TargetArgs,
) -> Result<(), WindowRefusal> {
    if to.rank == abi::PROC_NULL {
        return Ok(());
    }
    let there = to.locate(front, win)?;
    if there.runs.is_none()
        && let Some(part) = origin.whole(&front.types)
        && part.length == there.bytes
    {
        // SAFETY: the program passes that many bytes (contract of `put`).
        let data = unsafe { readable(part) };
        return Ok(win.window.put(data, there.target, there.at)?);
    }
    // SAFETY: the caller guarantees the same.
    unsafe { put_parts(front, win, origin, &there) }
}

/// # Safety
///
/// The caller guarantees the contract of [`put`].
#[inline(never)]
unsafe fn put_parts(
    front: &Front,
    win: &Win,
    origin: &Elements,
    there: &TargetPlace,
) -> Result<(), WindowRefusal> {
    is_typed(origin.datatype)?;
    // SAFETY: the program passes the elements (contract of `put`).
    let data: Vec<&[u8]> = unsafe {
        match &mut origin.memory(&front.types, true)? {
            MessageMemory::Whole(part) => vec![readable(*part)],
            MessageMemory::Parts(parts) => parts.iter().map(|part| readable(*part)).collect(),
            MessageMemory::Packed(copy) => {
                let data = readable(copy.part());
                return put_slices(win, &[data], there);
            }
        }
    };
    put_slices(win, &data, there)
}

fn put_slices(win: &Win, data: &[&[u8]], there: &TargetPlace) -> Result<(), WindowRefusal> {
    same_length(data.iter().map(|data| data.len()).sum(), there.bytes)?;
    let data: Vec<_> = data.iter().map(|data| IoSlice::new(data)).collect();
    let shape = shape(there);
    Ok(win.window.put_vectored(&data, there.target, there.at, shape)?)
}

/// Returns the runs of a target's memory.
pub(super) fn shape(there: &TargetPlace) -> Shape<'_> {
    match &there.runs {
        Some(runs) => Shape::Runs(runs),
        None => Shape::Contiguous { length: there.bytes },
    }
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Get`.
#[inline(always)]
unsafe fn get(
    front: &Front,
    win: &Win,
    origin: &Elements,
    to: &TargetArgs,
) -> Result<(), WindowRefusal> {
    if to.rank == abi::PROC_NULL {
        return Ok(());
    }
    let there = to.locate(front, win)?;
    if there.runs.is_none()
        && let Some(part) = origin.whole(&front.types)
        && part.length == there.bytes
    {
        // SAFETY: the program passes that many bytes (contract of `get`).
        let buffer = unsafe { writable(part) };
        return Ok(win.window.get(buffer, there.target, there.at)?);
    }
    // SAFETY: the caller guarantees the same.
    unsafe { get_parts(front, win, origin, &there) }
}

/// # Safety
///
/// The caller guarantees the contract of [`get`].
#[inline(never)]
unsafe fn get_parts(
    front: &Front,
    win: &Win,
    origin: &Elements,
    there: &TargetPlace,
) -> Result<(), WindowRefusal> {
    is_typed(origin.datatype)?;
    // SAFETY: the program passes the elements (contract of `get`).
    unsafe {
        match &mut origin.memory(&front.types, false)? {
            MessageMemory::Whole(part) => get_slices(win, vec![writable(*part)], there),
            MessageMemory::Parts(parts) => {
                get_slices(win, parts.iter().map(|part| writable(*part)).collect(), there)
            }
            MessageMemory::Packed(copy) => {
                get_slices(win, vec![writable(copy.part())], there)?;
                copy.unpack(there.bytes);
                Ok(())
            }
        }
    }
}

fn get_slices(
    win: &Win,
    buffers: Vec<&mut [u8]>,
    there: &TargetPlace,
) -> Result<(), WindowRefusal> {
    same_length(buffers.iter().map(|buffer| buffer.len()).sum(), there.bytes)?;
    let mut buffers: Vec<_> = buffers.into_iter().map(IoSliceMut::new).collect();
    let shape = shape(there);
    Ok(win.window.get_vectored(&mut buffers, there.target, there.at, shape)?)
}

/// Gives the program the request of an operation that is over.
///
/// # Safety
///
/// The program passes the place of a request.
pub(super) unsafe fn give_done(request: HandlePtr) -> Result<(), WindowRefusal> {
    // SAFETY: the caller guarantees it (contract of `give_done`).
    unsafe { request.write(RequestTable::done()) };
    Ok(())
}

/// Defines the functions of puts or gets: blocking, and with a request.
macro_rules! transfers {
    ($($name:ident, $rname:ident = $host:ident, $rhost:ident($count:ty)
        by $act:ident, $act_run:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            data: Pointer, count: $count, datatype: Handle, rank: c_int, at: MpiCount,
            there: $count, type_there: Handle, win: Handle,
        ) -> c_int {
            /// All but the short way.
            #[inline(never)]
            unsafe extern "C" fn longer(
                data: Pointer, count: $count, datatype: Handle, rank: c_int, at: MpiCount,
                there: $count, type_there: Handle, win: Handle,
            ) -> c_int {
                let origin = Elements::new(data, count.into(), datatype);
                let to = TargetArgs {
                    rank, displacement: at, count: there.into(), datatype: type_there,
                };
                // SAFETY: the program guarantees the contract of the function in the standard.
                unsafe {
                    call(
                        win,
                        |front, win| $act(front, win, &origin, &to),
                        || host::$host(data, count, datatype, rank, at, there, type_there, win),
                    )
                }
            }
            let to = TargetArgs {
                rank, displacement: at, count: there.into(), datatype: type_there,
            };
            let done = call_at_once(win, |front, win| {
                let run = to.locate_run(front, win)?;
                let part = whole(&front.types, data, count.into(), datatype);
                let part = part.filter(|part| part.length == run.bytes)?;
                // SAFETY: the program guarantees the contract of the function in the standard.
                Some(unsafe { $act_run(win, part, run) })
            });
            match done {
                Some(code) => code,
                // SAFETY: as above.
                None => unsafe {
                    longer(data, count, datatype, rank, at, there, type_there, win)
                },
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $rname(
            data: Pointer, count: $count, datatype: Handle, rank: c_int, at: MpiCount,
            there: $count, type_there: Handle, win: Handle, request: HandlePtr,
        ) -> c_int {
            let origin = Elements::new(data, count.into(), datatype);
            let to = TargetArgs {
                rank, displacement: at, count: there.into(), datatype: type_there,
            };
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                call(
                    win,
                    |front, win| {
                        $act(front, win, &origin, &to)?;
                        give_done(request)
                    },
                    || {
                        count_host_start(1);
                        host::$rhost(
                            data, count, datatype, rank, at, there, type_there, win, request,
                        )
                    },
                )
            }
        }
    )*};
}

transfers! {
    MPI_Put, MPI_Rput = Put, Rput(c_int) by put, put_run;
    MPI_Put_c, MPI_Rput_c = Put_c, Rput_c(MpiCount) by put, put_run;
    MPI_Get, MPI_Rget = Get, Rget(c_int) by get, get_run;
    MPI_Get_c, MPI_Rget_c = Get_c, Rget_c(MpiCount) by get, get_run;
}
