//! Memory that is attached to dynamic windows, and detached (MPI-5.0 §12.2.4).

use core::ffi::c_int;
use core::ptr::NonNull;

use strait::WindowError;
use strait::raw::RawWindow as _;

use super::errors::call;
use super::host;
use super::refusal::WindowRefusal;
use super::table::Win;
use crate::abi::{Handle, windows as abi};
use crate::front::host::{MpiCount, Pointer};

/// # Safety
///
/// The program keeps the memory until it detaches it, or frees the window.
unsafe fn attach(win: &Win, base: Pointer, size: MpiCount) -> Result<(), WindowRefusal> {
    let Ok(length) = usize::try_from(size) else {
        return Err(WindowRefusal::Class(abi::ERR_RMA_ATTACH));
    };
    if !win.is_dynamic() {
        return Err(WindowRefusal::Class(abi::ERR_RMA_FLAVOR));
    }
    let Some(base) = NonNull::new(base.cast()) else {
        return if length == 0 { Ok(()) } else { Err(WindowRefusal::Class(abi::ERR_RMA_ATTACH)) };
    };
    // SAFETY: the caller guarantees it (contract of `attach`).
    unsafe { win.window.attach_over(base, length) }?;
    Ok(())
}

fn detach(win: &Win, base: Pointer) -> Result<(), WindowRefusal> {
    if !win.is_dynamic() {
        return Err(WindowRefusal::Class(abi::ERR_RMA_FLAVOR));
    }
    if base.is_null() {
        return Ok(());
    }
    let displacement = base.expose_provenance();
    let target = win.window.group().place();
    let nothing = WindowError::Detached { target, displacement, extent: 0 };
    let attached = win.window.attachment(displacement).ok_or(nothing)?;
    Ok(win.window.detach(attached)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_attach(win: Handle, base: Pointer, size: MpiCount) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe { call(win, |_, win| attach(win, base, size), || host::Win_attach(win, base, size)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_detach(win: Handle, base: Pointer) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    call(win, |_, win| detach(win, base), || unsafe { host::Win_detach(win, base) })
}
