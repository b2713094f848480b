//! What a window's program asks of it.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use super::errors::call;
use super::host;
use super::refusal::WindowRefusal;
use super::table::Win;
use crate::abi::{ERR_RANK, Handle, PROC_NULL, windows as abi};
use crate::front::host::{CountPtr, Ints, MpiCount, Pointer};
use crate::front::state;

/// The base, size and unit are the carrier's, over the same memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_get_attr(
    win: Handle,
    keyval: c_int,
    value: Pointer,
    flag: Ints,
) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if (keyval == abi::WIN_CREATE_FLAVOR || keyval == abi::WIN_MODEL)
            && let Some(front) = state::enter()
            && let Some(found) = front.windows.find(win)
        {
            let is_flavor = keyval == abi::WIN_CREATE_FLAVOR;
            let answer = if is_flavor { &found.flavor } else { &found.model };
            // The program may keep the address as long as the window, which the table keeps.
            value.cast::<*const c_int>().write(answer);
            flag.write(1);
            return 0;
        }
        host::Win_get_attr(win, keyval, value, flag)
    }
}

/// Returns length, unit and address of a member's memory, as far as loads and stores reach it.
fn query(win: &Win, rank: c_int) -> Result<(usize, usize, *mut c_void), WindowRefusal> {
    if win.is_dynamic() {
        return Err(WindowRefusal::Class(abi::ERR_RMA_FLAVOR));
    }
    let mut members = 0..win.units.len() as u32;
    let target = match rank {
        // The first member that has memory.
        PROC_NULL => members.find(|at| {
            let shape = win.window.shape_of(*at);
            shape.is_ok_and(|(length, _)| length > 0)
        }),
        rank if members.contains(&(rank as u32)) => Some(rank as u32),
        _ => return Err(WindowRefusal::Class(ERR_RANK)),
    };
    let mapped = target.and_then(|target| win.window.mapped(target).zip(Some(target)));
    Ok(match mapped {
        Some((part, target)) => {
            // Hosts give no address of memory without bytes.
            let at = if part.is_empty() { null_mut() } else { part.as_ptr().cast() };
            (part.len(), win.units[target as usize], at)
        }
        None => (0, 1, null_mut()),
    })
}

/// Defines the query for each type of the unit.
macro_rules! queries {
    ($($name:ident = $host:ident($unit:ty);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            win: Handle, rank: c_int, size: CountPtr, unit: *mut $unit, base: Pointer,
        ) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                let answer = |win: &Win| {
                    let (length, width, at) = query(win, rank)?;
                    size.write(length as MpiCount);
                    unit.write(width as $unit);
                    base.cast::<*mut c_void>().write(at);
                    Ok(())
                };
                call(win, |_, win| answer(win), || host::$host(win, rank, size, unit, base))
            }
        }
    )*};
}

queries! {
    MPI_Win_shared_query = Win_shared_query(c_int);
    MPI_Win_shared_query_c = Win_shared_query_c(MpiCount);
}
