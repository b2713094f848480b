//! What a window's program asks of it.

use core::ffi::{c_int, c_void};

use super::errors::{Refusal, call};
use super::host;
use super::table::Win;
use crate::abi::{ERR_RANK, Handle, PROC_NULL, windows as abi};
use crate::front::host::{Address, Count, Counts, Ints};
use crate::front::state;

/// The base, size and unit are the carrier's, over the same memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_get_attr(
    win: Handle,
    keyval: c_int,
    value: Address,
    flag: Ints,
) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if (keyval == abi::KEY_FLAVOR || keyval == abi::KEY_MODEL)
            && let Some(front) = state::enter()
            && let Some(found) = front.windows.find(win)
        {
            let answer = if keyval == abi::KEY_FLAVOR { &found.flavor } else { &found.model };
            // The program may keep the address as long as the window, which the table keeps.
            value.cast::<*const c_int>().write(answer);
            flag.write(1);
            return 0;
        }
        host::Win_get_attr(win, keyval, value, flag)
    }
}

/// Returns length, unit and address of a member's memory.
fn query(win: &Win, rank: c_int) -> Result<(usize, usize, *mut c_void), Refusal> {
    if win.flavor != abi::FLAVOR_SHARED && win.flavor != abi::FLAVOR_ALLOCATE {
        return Err(Refusal::Class(abi::ERR_RMA_FLAVOR));
    }
    let members = 0..win.units.len() as u32;
    let part = |target: u32| win.window.mapped(target).filter(|part| !part.is_empty());
    let target = match rank {
        // The first member that has memory.
        PROC_NULL => members.clone().find(|target| part(*target).is_some()),
        rank => Some(rank as u32).filter(|target| members.contains(target)),
    };
    if rank != PROC_NULL && target.is_none() {
        return Err(Refusal::Class(ERR_RANK));
    }
    let Some(target) = target else { return Ok((0, 1, core::ptr::null_mut())) };
    let unit = win.units[target as usize];
    let found = win.window.mapped(target).map(|part| (part.len(), part.as_ptr().cast()));
    let (length, base) = found.unwrap_or((0, core::ptr::null_mut()));
    Ok((length, unit, base))
}

/// Defines the query for each type of the unit.
macro_rules! queries {
    ($($name:ident = $host:ident($unit:ty);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            win: Handle, rank: c_int, size: Counts, unit: *mut $unit, base: Address,
        ) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                let answer = |win: &Win| {
                    let (length, width, at) = query(win, rank)?;
                    size.write(length as Count);
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
    MPI_Win_shared_query_c = Win_shared_query_c(Count);
}
